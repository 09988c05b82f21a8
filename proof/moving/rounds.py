"""Measures what clients feel while all partitions of a topic get a replica on a new broker.

    python -m proof moving --partitions 1000 --seed 7

Three of four brokers hold a topic with three replicas. Clients write to all its partitions and read them. After a quiet
time one replica of each partition, any one of them, moves to the fourth broker, throttled as kafka-reassign-partitions
does: a third of the partitions lose their leader with it. Shown are the times of writes and reads before and during the
move. The goal is that the 99th percentile is at most twice as long as before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Self

from penstock.local_cluster.cluster import Cluster
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from proof.cluster.administration import Administration
from proof.frame import Task
from proof.moving.brokers import SteadyBrokers
from proof.moving.clients import Figures, Reader, Writer

_NODES = (1, 2, 3, 4)
_OLD, _NEW = _NODES[:3], _NODES[3]
_TOPIC = "moved"
_USE_BROKERS_DEFAULT = -1
_ANSWER_TIMEOUT_S = 120.0
_MOVE_DEADLINE_S = 1_800.0
_RECORD_BYTES = 100
_WARM_S = 3.0
# As rarely as operators' tools ask. A look costs the brokers CPU, and the quiet time has none.
_POLL_S = 1.0
_MOST_TIMES = 2.0  # as long as in the quiet time
# Leaders move when they must and not between.
_SETTINGS = {"auto.leader.rebalance.enable": "false", "auto.create.topics.enable": "false"}


class MovingCluster:
    """Use it as a context."""

    def __init__(self, directory: Path) -> None:
        self._cluster = Cluster(len(_NODES), directory, _SETTINGS)
        self._brokers: SteadyBrokers | None = None

    def __enter__(self) -> Self:
        self._cluster.start()
        addresses = {each.node_id: (each.host, each.port) for each in self._cluster.brokers}
        self._brokers = SteadyBrokers(addresses, self._cluster.controller_id(), _ANSWER_TIMEOUT_S)
        return self

    def __exit__(self, *_: object) -> None:
        self.brokers.close()
        self._cluster.abandon()

    @property
    def servers(self) -> str:
        return self._cluster.bootstrap_servers

    @property
    def brokers(self) -> SteadyBrokers:
        assert self._brokers is not None
        return self._brokers

    def create(self, assignment: Sequence[Sequence[int]]) -> None:
        rows = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(assignment)
        ]
        topic = CreatableTopic(
            name=_TOPIC,
            num_partitions=_USE_BROKERS_DEFAULT,
            replication_factor=_USE_BROKERS_DEFAULT,
            assignments=rows,
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(_ANSWER_TIMEOUT_S * 1000))
        (result,) = self.brokers.ask_controller(request, CreateTopicsResponse, _ANSWER_TIMEOUT_S).topics
        if result.error_code:
            raise ApiError(ErrorCode(result.error_code), result.error_message)
        self._cluster.wait_until_in_sync(_ANSWER_TIMEOUT_S)


@dataclass(slots=True)
class MovingReport:
    seed: int
    partitions: int
    bytes_each: int
    rate: int  # of the throttle, in bytes a second
    quiet: tuple[Figures, Figures]  # writes, reads
    moving: tuple[Figures, Figures]
    move_s: float
    problem: str
    errors: list[str] = field(default_factory=list)
    load: tuple[float, float] = (0.0, 0.0)  # the load average before and after

    @property
    def is_sound(self) -> bool:
        """The move is over, and no client saw an error. The times depend on the machine: they are shown."""
        return not self.problem and not self.errors and all(each.count for each in (*self.quiet, *self.moving))

    def __str__(self) -> str:
        first = (
            f"moving: seed={self.seed} partitions={self.partitions:,} bytes_each={self.bytes_each:,} "
            f"throttle {self.rate:,} bytes/s "
            f"move_s={self.move_s:.1f} load average {self.load[0]:.1f} to {self.load[1]:.1f}"
        )
        lines = [first]
        for name, quiet, moving in zip(("writes", "reads"), self.quiet, self.moving, strict=True):
            times = moving.p99_s / quiet.p99_s if quiet.count and moving.count else float("nan")
            verdict = "met" if times <= _MOST_TIMES else "MISSED"
            lines += [
                f"  {name} quiet   {quiet}",
                f"  {name} moving  {moving}: {times:.2f} times the quiet p99, goal {_MOST_TIMES:g} {verdict}",
            ]
        lines += [f"  {text}" for text in (self.problem, *self.errors) if text]
        return "\n".join(lines)


def run(task: Task) -> MovingReport:
    options, chance = task.options, Random(task.seed)
    partitions, size, rate = options["partitions"], options["bytes"], options["rate"]
    before = os.getloadavg()[0]
    with MovingCluster(task.scratch / "cluster") as cluster:
        administration = Administration(cluster.brokers)
        assignment = [chance.sample(_OLD, len(_OLD)) for _ in range(partitions)]
        cluster.create(assignment)
        task.say(f"{partitions} partitions are there")
        writer = Writer(cluster.servers, _TOPIC, partitions, options["records"], _RECORD_BYTES)
        writer.fill(size)
        task.say(f"each of them holds {size:,} bytes")
        reader = Reader(cluster.servers, _TOPIC, partitions)
        reader.start()
        writer.start()
        time.sleep(_WARM_S)
        quiet_from = time.monotonic()
        time.sleep(task.count)
        task.say("the move begins")
        administration.throttle(rate, [_TOPIC])
        began = time.monotonic()
        administration.reassign({(_TOPIC, index): _replaced(nodes, chance) for index, nodes in enumerate(assignment)})
        problem = administration.wait_until_moved(_MOVE_DEADLINE_S, _POLL_S)
        ended = time.monotonic()
        task.say(f"the move is over after {ended - began:.1f} s")
        administration.throttle(None, [_TOPIC])
        time.sleep(1.0)  # what was handed over in the move arrives
        writer.stop()
        reader.stop()
    errors = [f"writes: {name} {count}" for name, count in writer.errors.items()]
    errors += [f"reads: {name} {count}" for name, count in reader.errors.items()]
    quiet = writer.times.between(quiet_from, began), reader.times.between(quiet_from, began)
    moving = writer.times.between(began, ended), reader.times.between(began, ended)
    load = before, os.getloadavg()[0]
    return MovingReport(task.seed, partitions, size, rate, quiet, moving, ended - began, problem, errors, load)


def _replaced(nodes: Sequence[int], chance: Random) -> list[int]:
    """The new broker in the place of any of the old ones."""
    place = chance.randrange(len(nodes))
    return [_NEW if index == place else node for index, node in enumerate(nodes)]
