"""One broker's view of a cluster, counted: present brokers, leaders, and partitions that lack replicas. Pure.

The words are those of `admin.state.partitions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.partitions import NO_LEADER, PartitionState


class ClusterCounts(NamedTuple):
    controller_id: int | None
    broker_ids: frozenset[int]
    topics: Mapping[str, int]  # the number of each one's partitions; internal ones too
    under_replicated: int  # partitions that lack in-sync replicas, but for those that a move adds
    offline: int  # partitions without a leader that is there
    unsettled: int  # partitions whose leader is gone or missing although an in-sync replica is there
    led: Mapping[int, int]  # partitions by their leader
    lagging: Mapping[int, int]  # replicas that should be in sync and are not, by their broker
    incomplete: int = 0  # partitions that lack in-sync replicas, those that a move adds too

    @property
    def partition_count(self) -> int:
        return sum(self.topics.values())

    @classmethod
    def of(cls, view: ClusterState) -> ClusterCounts:
        """A replica that a move adds comes in sync when the move is done, and does not lag until then."""
        broker_ids = frozenset(view.brokers)
        partitions = view.partitions
        return cls(
            view.controller_id,
            broker_ids,
            {name: len(topic.partitions) for name, topic in view.topics.items()},
            len(view.under_replicated),
            len(view.offline),
            sum(not _is_settled(partition, broker_ids) for partition in partitions),
            Counter(partition.leader for partition in partitions if partition.leader != NO_LEADER),
            Counter(node for partition in partitions for node in partition.lagging),
            sum(partition.is_incomplete for partition in partitions),
        )


def _is_settled(partition: PartitionState, broker_ids: frozenset[int]) -> bool:
    return not partition.is_offline(broker_ids) or broker_ids.isdisjoint(partition.isr)


def why_not_ready(states: Mapping[int, ClusterCounts | None]) -> str:
    """`states` has the view of each broker that should be there, or None where it does not answer. Empty: ready.

    Ready means that all brokers know of each other and of no other broker, name the same controller, and that each
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


def why_not_in_sync(states: Mapping[int, ClusterCounts | None]) -> str:
    lacking = max((state.incomplete for state in states.values() if state is not None), default=0)
    return why_not_ready(states) or (f"{lacking} partitions lack in-sync replicas" if lacking else "")


def _name(broker_ids: frozenset[int]) -> str:
    if not broker_ids:
        return "no brokers"
    names = ", ".join(str(node_id) for node_id in sorted(broker_ids))
    return f"broker{'s' if len(broker_ids) > 1 else ''} {names}"
