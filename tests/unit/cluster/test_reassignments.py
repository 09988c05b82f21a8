from __future__ import annotations

import pytest

from penstock.cluster.decisions.reassignments import (
    ReassignmentRequest,
    decide_reassignments,
)
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.harness import cluster


def with_state(state: PartitionState, brokers: tuple[int, ...] = (1, 2, 3, 4)) -> MetadataImage:
    return cluster(*brokers).with_topics({"t": TopicImage("t", bytes(16), (state,))})


def moved(
    before: PartitionState, replicas: tuple[int, ...] | None, *, is_unclean: bool = False, may_change: bool = True
) -> PartitionState | tuple[ErrorCode, str | None]:
    """The state afterwards, or the error."""
    start = with_state(before)
    wanted = [ReassignmentRequest("t", 0, replicas)]
    decision = decide_reassignments(start, wanted, lambda _topic: is_unclean, may_change_replication_factor=may_change)
    (result,) = decision.results
    if result.code is not ErrorCode.NONE:
        assert decision.image is start
        return result.code, result.message
    return decision.image.topics["t"].partitions[0]


STEADY = PartitionState(0, (1, 2), (1, 2), 1, leader_epoch=5, partition_epoch=7)
# On the way from (1, 2) to (3, 2).
MOVING = PartitionState(0, (3, 2, 1), (1, 2), 1, 5, 7, adding=(3,), removing=(1,))


def test_second_target_is_refused_when_a_request_names_a_partition_twice() -> None:
    wanted = [ReassignmentRequest("t", 0, (3, 2)), ReassignmentRequest("t", 0, (4, 2))]
    decision = decide_reassignments(with_state(STEADY), wanted, lambda _topic: False)
    assert [result.code for result in decision.results] == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert decision.image.topics["t"].partitions[0].replicas == (3, 2, 1)


class TestMoves:
    def test_partition_has_old_and_new_replicas_when_a_move_begins(self) -> None:
        assert moved(STEADY, (3, 2)) == PartitionState(0, (3, 2, 1), (1, 2), 1, 5, 8, adding=(3,), removing=(1,))

    def test_only_the_order_changes_when_the_target_has_the_same_replicas(self) -> None:
        assert moved(STEADY, (2, 1)) == PartitionState(0, (2, 1), (1, 2), 1, leader_epoch=5, partition_epoch=8)

    def test_replica_leaves_at_once_when_those_that_remain_are_in_sync(self) -> None:
        assert moved(STEADY, (2,)) == PartitionState(0, (2,), (2,), 2, leader_epoch=6, partition_epoch=8)

    def test_term_ends_when_a_follower_leaves_the_assignment(self) -> None:
        assert moved(STEADY, (1,)) == PartitionState(0, (1,), (1,), 1, leader_epoch=6, partition_epoch=8)

    def test_replica_stays_until_the_others_are_in_sync_when_the_target_is_smaller(self) -> None:
        behind = STEADY._replace(isr=(1,))
        assert moved(behind, (2,)) == behind._replace(replicas=(2, 1), removing=(1,), partition_epoch=8)

    def test_move_is_done_at_once_when_the_only_new_replica_leads_out_of_sync(self) -> None:
        before = PartitionState(0, (2, 3), (3,), 3, 5, 7, adding=(3,))
        assert moved(before, (1,), is_unclean=True) == PartitionState(0, (1,), (1,), 1, 6, 8)

    @pytest.mark.parametrize(("before", "target"), [(STEADY, (1, 2)), (MOVING, (3, 2))])
    def test_nothing_changes_when_the_target_is_the_present_one(
        self, before: PartitionState, target: tuple[int, ...]
    ) -> None:
        assert moved(before, target) is before

    def test_new_target_replaces_the_old_one_when_a_move_is_under_way(self) -> None:
        expected = PartitionState(
            0, (4, 2, 1), (1, 2), 1, leader_epoch=6, partition_epoch=8, adding=(4,), removing=(1,)
        )
        assert moved(MOVING, (4, 2)) == expected

    @pytest.mark.parametrize(
        ("before", "count", "code"),
        [(STEADY, 2, None), (STEADY, 3, 38), (MOVING, 2, None), (MOVING, 3, 38)],
    )
    def test_replication_factor_is_that_of_the_target_when_it_must_not_change(
        self, before: PartitionState, count: int, code: int | None
    ) -> None:
        outcome = moved(before, (4, 3, 2)[:count], may_change=False)
        if code is None:
            assert isinstance(outcome, PartitionState)
        else:
            assert outcome == (ErrorCode(code), f"The replication factor is changed from 2 to {count}")

    @pytest.mark.parametrize("target", [(), (9,), (1, 1)])
    def test_move_is_refused_when_the_target_is_no_assignment(self, target: tuple[int, ...]) -> None:
        outcome = moved(STEADY, target)
        assert outcome[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    @pytest.mark.parametrize(("topic", "index"), [("u", 0), ("t", 1)])
    def test_move_is_refused_when_the_partition_is_not_there(self, topic: str, index: int) -> None:
        wanted = [ReassignmentRequest(topic, index, (1,))]
        decision = decide_reassignments(with_state(STEADY), wanted, lambda _topic: False)
        assert decision.results[0].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class TestCancelling:
    def test_new_replicas_leave_when_a_move_is_cancelled(self) -> None:
        assert moved(MOVING._replace(isr=(1, 2, 3)), None) == PartitionState(
            0, (2, 1), (1, 2), 1, leader_epoch=6, partition_epoch=8
        )

    def test_there_is_nothing_to_cancel_when_no_move_is_under_way(self) -> None:
        assert moved(STEADY, None)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS

    def test_move_goes_on_when_only_new_replicas_are_in_sync(self) -> None:
        outcome = moved(MOVING._replace(isr=(3,), leader=3), None)
        assert outcome[0] is ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_replica_out_of_sync_leads_when_a_cancelled_move_leaves_no_other_and_the_topic_allows_it(self) -> None:
        assert moved(MOVING._replace(isr=(3,), leader=3), None, is_unclean=True) == PartitionState(
            0, (2, 1), (2,), 2, leader_epoch=6, partition_epoch=8
        )
