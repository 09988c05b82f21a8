"""What a look at a cluster comes to."""

from __future__ import annotations

from dataclasses import replace

from penstock.admin.state.brokers import ReplicaFiles
from penstock.admin.state.partitions import ReplicaKey
from penstock.health.condition import judge
from tests.unit.admin.pictured import broker, partition, pictured, stored


def test_partitions_are_sorted_by_what_they_lack_when_brokers_are_gone() -> None:
    condition = judge(
        pictured(
            [
                partition(0, 1, [1, 2, 3]),
                partition(1, 2, [1, 2, 3], [2, 3]),
                partition(2, 1, [1, 2, 4], [1]),
                partition(3, -1, [4], [4]),
                partition(4, 4, [4, 1], [4, 1]),  # a leader that nobody knows is none
            ]
        )
    )
    assert [each.partition for each in condition.offline] == [3, 4]
    assert [each.partition for each in condition.below_minimum] == [2]
    assert [each.partition for each in condition.under_replicated] == [1, 2]
    assert condition.gone == {4: 3}
    assert condition.led == {1: 2, 2: 1}
    assert condition.preferred == {1: 3, 4: 2}


def test_partition_is_not_below_the_minimum_when_it_has_fewer_replicas_than_that() -> None:
    condition = judge(pictured([partition(0, 1, [1])], min_in_sync=3))
    assert condition.below_minimum == ()


def test_replica_that_a_move_adds_does_not_count_as_lagging() -> None:
    moving = partition(0, 1, [1, 2, 3], [1, 2])._replace(adding=(3,), removing=(2,))
    condition = judge(pictured([moving]))
    assert condition.under_replicated == ()
    assert [(move.source, move.target) for move in condition.moves] == [(1, 3)]


def test_lag_is_told_in_records_when_both_ends_are_known() -> None:
    lacking = [partition(0, 1, [1, 2, 3], [1]), partition(1, 1, [1, 2], [1])]
    condition = judge(pictured(lacking, log_ends={(0, 1): 100, (0, 2): 40, (1, 2): 7}))
    assert [(lag.partition.partition, lag.node_id, lag.behind) for lag in condition.lags] == [
        (0, 2, 60),
        (0, 3, None),
        (1, 2, None),
    ]


def test_move_has_a_time_left_when_two_looks_show_how_fast_it_is() -> None:
    moving = partition(0, 1, [1, 2, 3], [1, 2])._replace(adding=(3,))
    key, source = ReplicaKey("t", 0, 3), ReplicaKey("t", 0, 1)
    first = replace(pictured([moving]), files=stored({key: 100, source: 1_000}))
    second = replace(pictured([moving]), at_s=2.0, files=stored({key: 300, source: 1_000}))
    (alone,), (move,) = judge(first).moves, judge(second, first).moves
    assert (alone.bytes_per_s, alone.left_s, alone.left_bytes) == (None, None, 900)
    assert (move.bytes_per_s, move.left_bytes, move.left_s) == (100.0, 700, 7.0)
    assert judge(second, first).left_s == 7.0
    third = replace(second, at_s=4.0)
    (standing,) = judge(third, second).moves
    assert (standing.bytes_per_s, standing.left_s) == (0.0, None)


def test_replica_moves_between_disks_when_it_has_a_future_copy() -> None:
    key = ReplicaKey("t", 0, 2)
    seen = replace(pictured([partition(0, 1, [1, 2])]), files={key: ReplicaFiles("/a", 50, "/b", 20)})
    (move,) = judge(seen).moves
    assert (move.source, move.target, move.copied_bytes, move.total_bytes) == (2, 2, 20, 50)


def test_partition_is_misled_only_when_its_preferred_leader_could_lead() -> None:
    condition = judge(
        pictured(
            [
                partition(0, 2, [1, 2]),
                partition(1, 2, [1, 2], [2]),
                partition(2, 2, [4, 2], [2]),
            ],
            brokers=[broker(1), broker(2)],
        )
    )
    assert [each.partition for each in condition.misled] == [0]
