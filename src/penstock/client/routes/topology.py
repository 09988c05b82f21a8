"""What a client knows of a cluster: addresses, leaders, coordinators, the controller. No I/O, and bounded: a client may
be asked for any number of topics and groups.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.client.addresses import Address, Heard
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

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

    def candidates(self, heard: Heard, is_connected: Callable[[Address], bool]) -> list[Address]:
        """Whom to ask what any broker knows: those with a connection first. Silent ones come last, and a connection
        does not make them better.
        """

        def rank(address: Address) -> tuple[bool, bool]:
            is_silent = heard.is_silent(address)
            return is_silent, is_silent or not is_connected(address)

        return sorted(self.addresses(), key=rank)

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

    def leader(self, name: str, partition: int, now: float) -> Address:
        """ApiError where there is none. The topic is forgotten then: it may have got more partitions, or leaders."""
        known = self.topic(name, now)
        if known is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"nothing is known of topic {name} yet")
        leader = known.leaders.get(partition)
        address = None if leader is None else self.nodes.get(leader)
        if address is not None:
            return address
        self.forget_topic(name)
        if leader is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} has no partition {partition}")
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} of topic {name} has no leader")

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


def metadata_request(
    topics: Sequence[str] | None, *, may_create: bool = False, with_rights: bool = False
) -> MetadataRequest:
    """Of all topics for None. The answer is for `Topology.learn`."""
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=may_create,
        include_cluster_authorized_operations=with_rights,
        include_topic_authorized_operations=with_rights,
    )


def refusal_of(answer: MetadataResponse, name: str) -> ApiError | None:
    """What the answer says against that topic."""
    for topic in answer.topics:
        if topic.name == name and topic.error_code != ErrorCode.NONE:
            error = error_of(topic.error_code)
            return ApiError(error.code, f"topic {name}: {error.message}")
    return None
