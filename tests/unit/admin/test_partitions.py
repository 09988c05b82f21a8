"""What each word about a partition means."""

from __future__ import annotations

import pytest

from penstock.admin.state.partitions import NO_LEADER, PartitionState
from tests.unit.admin.pictured import partition


def test_replica_lags_when_it_should_be_in_sync_and_is_not() -> None:
    state = partition(0, 1, [1, 2, 3], [1, 3])
    assert state.lagging == (2,)
    assert state.is_under_replicated
    assert state.is_incomplete


def test_replica_does_not_lag_when_a_move_adds_it() -> None:
    state = partition(0, 1, [1, 2, 3], [1, 2])._replace(adding=(3,), removing=(2,))
    assert state.lagging == ()
    assert not state.is_under_replicated
    assert state.is_incomplete
    assert state.is_moving
    assert (state.target, state.sources) == ((1, 3), (1, 2))


@pytest.mark.parametrize(("leader", "is_offline"), [(1, False), (4, True), (NO_LEADER, True)])
def test_partition_is_offline_when_its_leader_is_not_there(leader: int, is_offline: bool) -> None:
    assert partition(0, leader, [1, 4]).is_offline({1, 2}) is is_offline


@pytest.mark.parametrize(
    ("isr", "configured", "is_at", "is_under"),
    [
        ([1, 2, 3], 2, False, False),
        ([1, 2], 2, True, False),
        ([1], 2, False, True),
        ([1, 2, 3], 5, True, False),  # never more than there are replicas
    ],
)
def test_minimum_is_counted_when_it_exceeds_the_replicas(
    isr: list[int], configured: int, is_at: bool, is_under: bool
) -> None:
    state = partition(0, 1, [1, 2, 3], isr)
    assert (state.is_at_minimum(configured), state.is_under_minimum(configured)) == (is_at, is_under)


@pytest.mark.parametrize(
    ("leader", "isr", "present", "is_misled"),
    [
        (2, [1, 2], {1, 2}, True),
        (1, [1, 2], {1, 2}, False),
        (2, [2], {1, 2}, False),
        (2, [1, 2], {2}, False),
    ],
)
def test_partition_is_misled_when_its_preferred_leader_could_lead(
    leader: int, isr: list[int], present: set[int], is_misled: bool
) -> None:
    assert partition(0, leader, [1, 2], isr).is_misled(present) is is_misled


def test_partition_has_no_preferred_leader_when_it_has_no_replicas() -> None:
    assert PartitionState("t", 0, NO_LEADER, (), ()).preferred_leader == NO_LEADER
