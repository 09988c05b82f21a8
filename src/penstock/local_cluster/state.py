"""The state of a cluster as one of its brokers tells it: who is there, who leads, what lacks replicas. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from penstock.client.move_requests import Moving, Partition, find_lagging
from penstock.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition

_NOBODY = -1


class ClusterState(NamedTuple):
    controller_id: int | None
    broker_ids: frozenset[int]
    topics: Mapping[str, int]  # the number of each one's partitions; internal ones too
    under_replicated: int  # partitions that lack in-sync replicas, but for those that a move adds
    offline: int  # partitions that nobody leads
    unsettled: int  # partitions whose leader is gone or missing although an in-sync replica is there
    led: Mapping[int, int]  # partitions by their leader
    lagging: Mapping[int, int]  # replicas that should be in sync and are not, by their broker
    incomplete: int = 0  # partitions that lack in-sync replicas, those that a move adds too

    @property
    def partition_count(self) -> int:
        return sum(self.topics.values())

    @classmethod
    def of(cls, answer: MetadataResponse, moves: Mapping[Partition, Moving] = MappingProxyType({})) -> ClusterState:
        """A replica that a move adds comes in sync when the move is done, and does not lag until then."""
        broker_ids = frozenset(broker.node_id for broker in answer.brokers)
        partitions = [partition for topic in answer.topics for partition in topic.partitions]
        led = Counter(partition.leader_id for partition in partitions)
        offline = led.pop(_NOBODY, 0)
        lagging = [
            find_lagging(partition.replica_nodes, partition.isr_nodes, moves.get((name, partition.partition_index)))
            for name, partition in ((topic.name or "", each) for topic in answer.topics for each in topic.partitions)
        ]
        return cls(
            answer.controller_id if answer.controller_id in broker_ids else None,
            broker_ids,
            {topic.name or "": len(topic.partitions) for topic in answer.topics},
            sum(map(bool, lagging)),
            offline,
            sum(not _is_settled(partition, broker_ids) for partition in partitions),
            led,
            Counter(node for nodes in lagging for node in nodes),
            sum(len(partition.isr_nodes) < len(partition.replica_nodes) for partition in partitions),
        )


def _is_settled(partition: MetadataResponsePartition, broker_ids: frozenset[int]) -> bool:
    return partition.leader_id in broker_ids or broker_ids.isdisjoint(partition.isr_nodes)


def why_not_ready(states: Mapping[int, ClusterState | None]) -> str:
    """`states` is what each broker that should be there tells, or None where it does not answer. Empty: ready.

    Ready means that all brokers know of each other and of nobody else, name the same controller, and that each
    partition has a leader that is there, if one is possible.
    """
    expected = frozenset(states)
    problems = []
    for node_id, state in states.items():
        if state is None:
            problems.append(f"broker {node_id} does not answer")
        elif state.broker_ids != expected:
            problems.append(f"broker {node_id} knows of {_name(state.broker_ids)}")
        elif state.controller_id is None:
            problems.append(f"broker {node_id} knows no controller")
        elif state.unsettled:
            problems.append(f"broker {node_id} knows of {state.unsettled} partitions without a leader")
    controllers = {state.controller_id for state in states.values() if state is not None}
    if not problems and len(controllers) > 1:
        problems.append("the brokers do not agree who the controller is")
    return "; ".join(problems)


def why_not_in_sync(states: Mapping[int, ClusterState | None]) -> str:
    lacking = max((state.incomplete for state in states.values() if state is not None), default=0)
    return why_not_ready(states) or (f"{lacking} partitions lack in-sync replicas" if lacking else "")


def _name(broker_ids: frozenset[int]) -> str:
    if not broker_ids:
        return "no brokers"
    names = ", ".join(str(node_id) for node_id in sorted(broker_ids))
    return f"broker{'s' if len(broker_ids) > 1 else ''} {names}"
