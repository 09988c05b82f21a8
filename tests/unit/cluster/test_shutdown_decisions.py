from __future__ import annotations

import pytest

from penstock.cluster.decisions.shutdown import decide_shutdown
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import cluster


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(0, replicas, isr, leader, leader_epoch=5, partition_epoch=7)


def image(*states: PartitionState) -> MetadataImage:
    numbered = tuple(each._replace(partition=index) for index, each in enumerate(states))
    return cluster(1, 2, 3).with_topics({"t": TopicImage("t", bytes(16), numbered)})


def stop(before: MetadataImage, node_id: int = 1) -> tuple[int, MetadataImage]:
    decision = decide_shutdown(before, node_id, node_id)
    (led_count,) = decision.results
    return led_count, decision.image


def test_others_lead_and_the_broker_leaves_the_set_when_it_wants_to_stop() -> None:
    led_count, after = stop(image(state(1, (1, 3, 2))))
    assert led_count == 0
    assert after.brokers[1].is_stopping
    assert after.topics["t"].partitions == (PartitionState(0, (1, 2, 3), (3, 2), 2, leader_epoch=6, partition_epoch=8),)


def test_leader_stays_in_its_term_when_a_follower_wants_to_stop() -> None:
    _, after = stop(image(state(2, (1, 2))))
    assert after.topics["t"].partitions == (PartitionState(0, (1, 2, 3), (2,), 2, leader_epoch=5, partition_epoch=8),)


def test_broker_leads_on_and_says_how_many_when_nobody_else_is_in_sync() -> None:
    before = image(state(1, (1,)), state(1, (1,)), state(1, (1, 2)))
    led_count, after = stop(before)
    assert led_count == 2
    assert after.topics["t"].partitions[:2] == before.topics["t"].partitions[:2]


def test_partition_does_not_count_when_it_has_no_other_replica() -> None:
    before = image(state(1, (1,), replicas=(1,)))
    led_count, after = stop(before)
    assert led_count == 0
    assert after.topics is before.topics


def test_broker_is_passed_over_when_it_is_about_to_stop_itself() -> None:
    _, after = stop(image(state(1, (1, 2, 3))), node_id=2)
    _, after = stop(after)
    assert after.topics["t"].partitions[0].leader == 3


def test_nothing_changes_when_the_broker_asks_again_and_nothing_can_be_moved() -> None:
    led_count, after = stop(image(state(1, (1,)), state(1, (1, 2))))
    assert led_count == 1
    assert stop(after) == (1, after)
    assert decide_shutdown(after, 1, 1).image is after


@pytest.mark.parametrize(("node_id", "epoch"), [(1, 2), (9, 9)])
def test_request_is_refused_when_it_comes_from_another_life_of_the_broker(node_id: int, epoch: int) -> None:
    with pytest.raises(ApiError) as caught:
        decide_shutdown(image(), node_id, epoch)
    assert caught.value.code is ErrorCode.STALE_BROKER_EPOCH
