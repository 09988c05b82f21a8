"""A client that moves replicas and leaders about, as operators do.

It adds replicas and takes some away, swaps one or all, changes their order, replaces the target of a move that is under
way, cancels, elects preferred leaders, and throttles. What it throttled it sets free in the end: a move that is
throttled to nothing does not end, in Kafka neither.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from penstock.core.config.keys.throttles import ALL_REPLICAS, REPLICATION_RATES, THROTTLED_REPLICAS
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from penstock.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from proof.simulation.client import TRANSIENT, Asking, Call, Client, Script, ask
from proof.simulation.notebook import Partition
from proof.simulation.operating.requests import (
    EXPECTED_OF_MOVES,
    FEWEST_REPLICAS,
    Replicas,
    find_replicas,
    name_codes,
    reassign,
    unexpected,
)
from proof.simulation.topics import KEYED, RECORDS, RECORDS_PARTITIONS

_PREFERRED = 0
_EXPECTED_OF_ELECTIONS = TRANSIENT | {
    ErrorCode.NONE,
    ErrorCode.ELECTION_NOT_NEEDED,
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
}
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
# Bytes a second: a few batches, or all that a schedule writes.
_RATE_CHOICES = ("2000", "20000", "1000000")
_RETRY_MS = 50.0

Nodes = Sequence[int]
_Draw = Callable[[Replicas, Nodes, random.Random], Replicas]


def _add(replicas: Replicas, nodes: Nodes, chance: random.Random) -> Replicas:
    others = [node for node in nodes if node not in replicas]
    return (*replicas, chance.choice(others)) if others else _reorder(replicas, nodes, chance)


def _remove(replicas: Replicas, nodes: Nodes, chance: random.Random) -> Replicas:
    if len(replicas) <= FEWEST_REPLICAS:
        return _swap_one(replicas, nodes, chance)
    gone = chance.choice(replicas)
    return tuple(node for node in replicas if node != gone)


def _swap_one(replicas: Replicas, nodes: Nodes, chance: random.Random) -> Replicas:
    others = [node for node in nodes if node not in replicas]
    if not others:
        return _reorder(replicas, nodes, chance)
    changed, place = list(replicas), chance.randrange(len(replicas))
    changed[place] = chance.choice(others)
    return tuple(changed)


def _swap_all(replicas: Replicas, nodes: Nodes, chance: random.Random) -> Replicas:
    """All, where there are enough other nodes; else as many as there are."""
    others = [node for node in nodes if node not in replicas]
    chance.shuffle(others)
    return (*others, *replicas[: max(0, FEWEST_REPLICAS - len(others))])


def _reorder(replicas: Replicas, nodes: Nodes, chance: random.Random) -> Replicas:
    return tuple(chance.sample(replicas, len(replicas)))


def _any(replicas: Replicas, nodes: Nodes, chance: random.Random) -> Replicas:
    return tuple(chance.sample(nodes, chance.randint(FEWEST_REPLICAS, len(nodes))))


DRAWS: dict[_Draw, int] = {_add: 3, _remove: 3, _swap_one: 3, _swap_all: 3, _reorder: 1, _any: 2}


class Operator(Client):
    _is_throttling = False

    def run(self) -> Script:
        partitions = [*((RECORDS, index) for index in range(RECORDS_PARTITIONS)), (KEYED, 0)]
        while self.goes_on:
            partition = self.chance.choice(partitions)
            choice = self.chance.random()
            if choice < 0.5:
                yield from self._move(partition)
            elif choice < 0.6:
                yield from self._reassign(partition, None)
            elif choice < 0.7:
                yield from self._throttle(self.chance.choice(_RATE_CHOICES))
            else:
                yield from self._elect(self.chance.choice((partition, partition, None)))
            yield self.pause() * 3
        if self._is_throttling:
            yield from self._throttle(None)

    # ---- moves

    def _move(self, partition: Partition) -> Asking:
        """One move; sometimes another target, or none, before it can be done."""
        known = yield from find_replicas([partition[0]])
        replicas = known.get(partition)
        if not replicas:
            return
        nodes = range(len(self.setting.machines))
        for _ in range(self.chance.choice((1, 1, 1, 2, 3))):
            (draw,) = self.chance.choices(list(DRAWS), list(DRAWS.values()))
            replicas = draw(replicas, nodes, self.chance)
            yield from self._reassign(partition, replicas)
        if self.chance.random() < 0.2:
            yield from self._reassign(partition, None)

    def _reassign(self, partition: Partition, replicas: Replicas | None) -> Asking:
        codes = yield from reassign({partition: replicas})
        self.note(f"moves {partition} to {replicas}: {name_codes(codes)}")
        for text in unexpected(codes or {}, EXPECTED_OF_MOVES):
            self.notebook.fail(f"{self.name} moves {partition} to {replicas}: {text}")

    # ---- leaders

    def _elect(self, partition: Partition | None) -> Asking:
        """The preferred leader, of one partition or of all."""
        named = None if partition is None else [TopicPartitions(topic=partition[0], partitions=[partition[1]])]
        request = ElectLeadersRequest(election_type=_PREFERRED, topic_partitions=named)
        response = yield from ask(Call(request, 2), ElectLeadersResponse)
        codes: dict[Partition, int] | None = None
        if response is not None:
            codes = {
                (each.topic, row.partition_id): response.error_code or row.error_code
                for each in response.replica_election_results
                for row in each.partition_result
            }
        self.note(f"elects the preferred leaders of {partition}: {name_codes(codes)}")
        for text in unexpected(codes or {}, _EXPECTED_OF_ELECTIONS):
            self.notebook.fail(f"{self.name} elects the preferred leaders of {partition}: {text}")

    # ---- throttles

    def _throttle(self, rate: str | None) -> Asking:
        """Without a rate the throttle is removed, for as long as it takes."""
        self._is_throttling = True
        for topic in (RECORDS, KEYED):
            replicas = None if rate is None else ALL_REPLICAS
            yield from self._configure(_TOPIC, topic, THROTTLED_REPLICAS, replicas, None)
        for node in range(len(self.setting.machines)):
            yield from self._configure(_BROKER, str(node), REPLICATION_RATES, rate, node)
        self._is_throttling = rate is not None

    def _configure(self, kind: int, name: str, keys: Sequence[str], value: str | None, node: int | None) -> Asking:
        operation = _DELETE if value is None else _SET
        configs = [AlterableConfig(name=key, config_operation=operation, value=value) for key in keys]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        while True:
            response = yield from ask(Call(request, 1, node=node), IncrementalAlterConfigsResponse)
            code = None if response is None else response.responses[0].error_code
            self.note(f"sets {keys[0]} of {name} to {value}: {None if code is None else ErrorCode(code).name}")
            if code is not None and code != ErrorCode.NONE and code not in TRANSIENT:
                self.notebook.fail(f"{self.name} sets {keys[0]} of {name} to {value}: {ErrorCode(code).name}")
                return
            if code == ErrorCode.NONE or value is not None:
                return
            yield _RETRY_MS
