"""The order of the rules is that of Kafka's controller: each case breaks one rule and all rules after it."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.partitions import Alteration, can_wait, decide_alter_partition, decide_alterations
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import AlterPartitionResult, InSyncChange
from tests.unit.cluster.harness import cluster

TOPIC_ID = b"t" * 16
REPLICAS = (1, 2, 3)


def image(state: PartitionState | None = None, stopping: int | None = None) -> MetadataImage:
    state = state or PartitionState(0, REPLICAS, (1, 2), 1, leader_epoch=5, partition_epoch=7)
    image = cluster(1, 2, 3, 4).with_topics({"t": TopicImage("t", TOPIC_ID, (state,))})
    if stopping is not None:
        brokers = {**image.brokers, stopping: image.brokers[stopping]._replace(is_stopping=True)}
        image = MetadataImage("cluster", brokers=brokers, topics=image.topics)
    return image


def change(
    isr: tuple[tuple[int, int], ...], leader_epoch: int = 5, partition_epoch: int = 7, partition: int = 0
) -> InSyncChange:
    return InSyncChange(TOPIC_ID, partition, leader_epoch, partition_epoch, isr)


def ask(before: MetadataImage, wanted: InSyncChange, asker: int = 1) -> tuple[AlterPartitionResult, MetadataImage]:
    decision = decide_alter_partition(before, asker, asker, [wanted])
    (result,) = decision.results
    return result, decision.image


def test_in_sync_set_grows_in_the_same_term_when_a_follower_has_caught_up() -> None:
    result, after = ask(image(), change(((1, 1), (2, 2), (3, 3))))
    expected = PartitionState(0, REPLICAS, (1, 2, 3), 1, leader_epoch=5, partition_epoch=8)
    assert result == (TOPIC_ID, 0, ErrorCode.NONE, expected)
    assert after.topics["t"].partitions == (expected,)


def test_in_sync_set_shrinks_in_the_same_term_when_a_follower_falls_behind() -> None:
    result, _ = ask(image(), change(((1, 1),)))
    assert result.state == PartitionState(0, REPLICAS, (1,), 1, leader_epoch=5, partition_epoch=8)


def test_nothing_changes_when_the_set_has_the_members_it_had() -> None:
    before = image()
    result, after = ask(before, change(((2, 2), (1, 1))))
    assert after is before
    assert result.code is ErrorCode.NONE
    assert result.state is before.topics["t"].partitions[0]


@pytest.mark.parametrize(
    ("asker", "wanted", "code"),
    [
        (2, change(((9, 9),), leader_epoch=6, partition_epoch=1), ErrorCode.NOT_CONTROLLER),
        (2, change(((9, 9),), leader_epoch=4, partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (2, change(((9, 9),), leader_epoch=4, partition_epoch=6), ErrorCode.FENCED_LEADER_EPOCH),
        (2, change(((9, 9),), partition_epoch=6), ErrorCode.INVALID_REQUEST),
        (1, change(((9, 9),), partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (1, change(((1, 1), (4, 9))), ErrorCode.INVALID_REQUEST),
        (1, change(((1, 1), (2, 9), (2, 9))), ErrorCode.INVALID_REQUEST),
        (1, change(((2, 9),)), ErrorCode.INVALID_REQUEST),
        (1, change(()), ErrorCode.INVALID_REQUEST),
        (1, change(((1, 1), (2, 9))), ErrorCode.INELIGIBLE_REPLICA),
        (1, change(((1, 9), (2, 2))), ErrorCode.INELIGIBLE_REPLICA),
        (1, change(((1, 1),), partition=1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (1, change(((1, 1),))._replace(topic_id=b"u" * 16), ErrorCode.UNKNOWN_TOPIC_ID),
    ],
)
def test_change_is_refused_as_by_kafka_when_a_rule_is_broken(asker: int, wanted: InSyncChange, code: ErrorCode) -> None:
    before = image()
    result, after = ask(before, wanted, asker)
    assert after is before
    assert result == (wanted.topic_id, wanted.partition, code, None)


def test_member_is_ineligible_when_it_is_not_registered() -> None:
    state = PartitionState(0, (1, 9), (1,), 1)
    result, _ = ask(image(state), change(((1, 1), (9, 9)), 0, 0))
    assert result.code is ErrorCode.INELIGIBLE_REPLICA


def test_member_is_ineligible_when_it_is_about_to_stop() -> None:
    result, _ = ask(image(stopping=3), change(((1, 1), (2, 2), (3, 3))))
    assert result.code is ErrorCode.INELIGIBLE_REPLICA


def test_epoch_is_not_compared_when_the_leader_does_not_know_it() -> None:
    result, _ = ask(image(), change(((1, -1), (2, -1), (3, -1))))
    assert result.code is ErrorCode.NONE


@pytest.mark.parametrize("asker", [1, 9])
def test_whole_request_is_refused_when_the_asker_has_another_epoch(asker: int) -> None:
    with pytest.raises(ApiError) as caught:
        decide_alter_partition(image(), asker, 99, [change(((1, 1),))])
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_follower_leads_when_it_catches_up_with_a_leader_that_is_about_to_stop() -> None:
    state = PartitionState(0, REPLICAS, (1,), 1, leader_epoch=5, partition_epoch=7)
    result, after = ask(image(state, stopping=1), change(((1, 1), (3, 3))))
    assert result.code is ErrorCode.NEW_LEADER_ELECTED
    assert after.topics["t"].partitions == (PartitionState(0, REPLICAS, (3,), 3, leader_epoch=6, partition_epoch=8),)


def test_leader_about_to_stop_stays_when_nobody_else_is_in_sync() -> None:
    state = PartitionState(0, REPLICAS, (1,), 1, leader_epoch=5, partition_epoch=7)
    before = image(state, stopping=1)
    result, after = ask(before, change(((1, 1),)))
    assert result.code is ErrorCode.NONE
    assert after is before


def test_second_change_is_refused_when_one_request_has_two_of_a_partition() -> None:
    wanted = change(((1, 1),))
    decision = decide_alter_partition(image(), 1, 1, [wanted, wanted])
    assert [result.code for result in decision.results] == [ErrorCode.NONE, ErrorCode.INVALID_UPDATE_VERSION]


class TestReassignment:
    def test_reassignment_is_done_when_the_new_replicas_are_in_sync(self) -> None:
        state = PartitionState(0, (1, 4, 2), (1, 2), 1, 5, 7, adding=(4,), removing=(2,))
        result, _ = ask(image(state), change(((1, 1), (2, 2), (4, 4))))
        assert result.code is ErrorCode.NONE
        assert result.state == PartitionState(0, (1, 4), (1, 4), 1, leader_epoch=6, partition_epoch=8)

    def test_reassignment_goes_on_when_only_some_of_the_new_replicas_are_in_sync(self) -> None:
        state = PartitionState(0, (3, 4, 1), (1,), 1, 5, 7, adding=(3, 4), removing=(1,))
        result, _ = ask(image(state), change(((1, 1), (4, 4))))
        assert result.state == state._replace(isr=(1, 4), partition_epoch=8)

    def test_another_broker_leads_when_the_reassignment_removes_the_leader(self) -> None:
        state = PartitionState(0, (3, 4, 1), (1, 4), 1, 5, 7, adding=(3, 4), removing=(1,))
        result, _ = ask(image(state), change(((1, 1), (4, 4), (3, 3))))
        assert result.code is ErrorCode.NEW_LEADER_ELECTED
        assert result.state == PartitionState(0, (3, 4), (4, 3), 3, leader_epoch=6, partition_epoch=8)


MOVING = PartitionState(0, (1, 2, 3, 4), (1, 2), 1, leader_epoch=5, partition_epoch=7, adding=(3, 4), removing=(2,))


@pytest.mark.parametrize(
    ("state", "members", "is_patient"),
    [
        (MOVING, (1, 2, 3), True),
        (MOVING, (1, 2), True),
        (MOVING, (1, 3), False),
        # A replica from before the move is not in sync: there are fewer copies than the topic is to have.
        (MOVING._replace(isr=(1,)), (1, 3), False),
        (MOVING._replace(isr=(1,)), (1, 2), False),
        # It does not move, or loses replicas only.
        (MOVING._replace(adding=(), removing=()), (1, 2, 3), False),
        (MOVING._replace(adding=()), (1, 2, 3), False),
    ],
)
def test_a_change_can_wait_when_it_is_a_step_of_a_move_that_nobody_waits_for(
    state: PartitionState, members: tuple[int, ...], is_patient: bool
) -> None:
    wanted = change(tuple((each, each) for each in members))
    assert can_wait(image(state), [wanted], lambda _: 1) is is_patient
    assert not can_wait(image(state), [wanted, wanted._replace(partition=1)], lambda _: 1)
    assert not can_wait(image(state), [wanted._replace(topic_id=b"u" * 16), wanted], lambda _: 1)


def test_the_second_of_two_requests_is_judged_by_what_the_first_has_changed() -> None:
    wanted = change(((1, 1), (2, 2), (3, 3)))
    asked = [Alteration(1, 1, [wanted]), Alteration(2, 0, [wanted]), Alteration(1, 1, [wanted])]
    first, stale, second = decide_alterations(image(), asked).results
    assert isinstance(first, tuple)
    assert isinstance(second, tuple)
    assert first[0].code is ErrorCode.NONE
    assert isinstance(stale, ApiError)
    assert stale.code is ErrorCode.STALE_BROKER_EPOCH
    assert second[0].code is ErrorCode.INVALID_UPDATE_VERSION
