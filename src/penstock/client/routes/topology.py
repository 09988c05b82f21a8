"""What a client knows of a cluster: addresses, leaders, coordinators, the controller. No I/O, and bounded: a client may
be asked for any number of topics and groups.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from penstock.client.addresses import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

# Of each; what was used longest ago goes. A topic takes about 1 KB with ten partitions.
MOST_TOPICS = 10_000
MOST_COORDINATORS = 10_000

CoordinatorKey = tuple[int, str]  # the kind, and the group or transactional id


class KnownTopic(NamedTuple):
    leaders: dict[int, int]  # by partition; -1 where there is none
    learned_at: float


class Topology:
    """`now` is in seconds of any steady clock."""

    def __init__(self, bootstrap: Sequence[Address], age_s: float) -> None:
        self._bootstrap = tuple(bootstrap)
        self._age_s = age_s
        self._topics: OrderedDict[str, KnownTopic] = OrderedDict()
        self._coordinators: OrderedDict[CoordinatorKey, int] = OrderedDict()
        self._turn = 0
        self.nodes: dict[int, Address] = {}
        self.controller_id = -1

    def addresses(self) -> list[Address]:
        """Where brokers may be, each list of callers beginning with another one: known brokers first."""
        known = list(self.nodes.values())
        self._turn += 1
        first = self._turn % len(known) if known else 0
        return list(dict.fromkeys((*known[first:], *known[:first], *self._bootstrap)))

    def learn(self, answer: MetadataResponse, now: float) -> None:
        if answer.brokers:
            self.nodes = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.controller_id = answer.controller_id
        for topic in answer.topics:
            if topic.name is not None:
                self._learn_topic(topic.name, topic, now)
        while len(self._topics) > MOST_TOPICS:
            self._topics.popitem(last=False)

    def _learn_topic(self, name: str, topic: MetadataResponseTopic, now: float) -> None:
        self._topics.pop(name, None)
        if topic.error_code == ErrorCode.NONE and topic.partitions:
            leaders = {each.partition_index: each.leader_id for each in topic.partitions}
            self._topics[name] = KnownTopic(leaders, now)

    def topic(self, name: str, now: float) -> KnownTopic | None:
        """None where nothing is known, or what is known is too old."""
        known = self._topics.get(name)
        if known is None:
            return None
        if now - known.learned_at > self._age_s:
            del self._topics[name]
            return None
        self._topics.move_to_end(name)
        return known

    def forget_topic(self, name: str) -> None:
        self._topics.pop(name, None)

    def learn_coordinator(self, key: CoordinatorKey, node_id: int, address: Address) -> None:
        self.nodes[node_id] = address
        self._coordinators[key] = node_id
        self._coordinators.move_to_end(key)
        while len(self._coordinators) > MOST_COORDINATORS:
            self._coordinators.popitem(last=False)

    def coordinator(self, key: CoordinatorKey) -> Address | None:
        """Its address; None where nothing is known."""
        node_id = self._coordinators.get(key)
        if node_id is None:
            return None
        self._coordinators.move_to_end(key)
        return self.nodes.get(node_id)

    def forget_coordinator(self, key: CoordinatorKey) -> None:
        self._coordinators.pop(key, None)
