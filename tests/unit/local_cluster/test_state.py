from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.admin.state.brokers import BrokerState
from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.partitions import PartitionState, TopicState
from penstock.local_cluster.state import ClusterCounts, why_not_in_sync, why_not_ready


def partition(
    index: int, leader: int, replicas: list[int], isr: list[int], adding: Sequence[int] = ()
) -> PartitionState:
    return PartitionState("t", index, leader, tuple(replicas), tuple(isr), tuple(adding))


def state(
    brokers: list[int], controller: int | None = 1, partitions: list[PartitionState] | None = None
) -> ClusterCounts:
    view = ClusterState(
        controller_id=controller,
        brokers={node_id: BrokerState(node_id, "host", node_id) for node_id in brokers},
        topics={"t": TopicState("t", partitions=tuple(partitions))} if partitions else {},
    )
    return ClusterCounts.of(view)


def test_partitions_are_counted_when_a_broker_answers() -> None:
    told = state(
        [1, 2],
        partitions=[
            partition(0, 1, [1, 2, 3], [1, 2]),
            partition(1, 2, [1, 2], [1, 2]),
            partition(2, -1, [3], [3]),
        ],
    )
    assert told.topics == {"t": 3}
    assert (told.partition_count, told.under_replicated, told.offline) == (3, 1, 1)
    assert (told.led, told.lagging) == ({1: 1, 2: 1}, {3: 1})


def test_cluster_is_ready_when_all_brokers_tell_the_same() -> None:
    told = state([1, 2, 3], partitions=[partition(0, 1, [1, 2, 3], [1, 2, 3])])
    assert why_not_ready({1: told, 2: told, 3: told}) == ""
    assert why_not_in_sync({1: told, 2: told, 3: told}) == ""


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ({1: state([1, 2]), 2: None}, "broker 2 does not answer"),
        ({1: state([1]), 2: state([1, 2])}, "broker 1 knows of broker 1"),
        ({1: state([1, 2]), 2: state([])}, "broker 2 knows of no brokers"),
        ({1: state([1, 2, 3]), 2: state([1, 2])}, "broker 1 knows of brokers 1, 2, 3"),
        ({1: state([1], controller=None)}, "broker 1 knows no controller"),
        ({1: state([1, 2]), 2: state([1, 2], controller=2)}, "do not agree"),
    ],
)
def test_reason_is_told_when_brokers_do_not_agree(states: dict[int, ClusterCounts | None], reason: str) -> None:
    assert reason in why_not_ready(states)


def test_cluster_is_not_ready_when_a_leader_is_gone_and_another_could_lead() -> None:
    for leader in (2, -1):
        told = state([1], partitions=[partition(0, leader, [1, 2], [1, 2])])
        assert "1 partitions without a leader" in why_not_ready({1: told})


def test_cluster_is_ready_when_nobody_can_lead_a_partition() -> None:
    assert why_not_ready({1: state([1], partitions=[partition(0, -1, [2], [2])])}) == ""


def test_replica_does_not_lag_when_a_move_adds_it() -> None:
    moved = partition(0, 1, [1, 2, 3], [1], adding=[2, 3])
    told = state([1, 2, 3], partitions=[moved, partition(1, 2, [2, 3], [2])])
    assert (told.under_replicated, told.lagging, told.incomplete) == (1, {3: 1}, 2)
    moving = state([1, 2], partitions=[moved])
    assert moving.under_replicated == 0
    assert "1 partitions lack" in why_not_in_sync({1: moving, 2: moving})


def test_cluster_is_not_in_sync_when_a_replica_lags() -> None:
    told = state([1, 2], partitions=[partition(0, 1, [1, 2], [1])])
    assert why_not_ready({1: told, 2: told}) == ""
    assert "1 partitions lack in-sync replicas" in why_not_in_sync({1: told, 2: told})
