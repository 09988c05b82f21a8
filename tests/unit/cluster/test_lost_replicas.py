"""What the controller decides when a broker's disk has failed."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.lost_replicas import decide_lost_replicas
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import LostReplica
from tests.unit.cluster.harness import cluster

TOPIC_ID = b"t" * 16


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(0, replicas, isr, leader, leader_epoch=5, partition_epoch=7)


def image(before: PartitionState, *brokers: int) -> MetadataImage:
    return cluster(*(brokers or (1, 2, 3))).with_topics({"t": TopicImage("t", TOPIC_ID, (before,))})


def lose(before: PartitionState, *brokers: int, is_unclean: bool = False) -> PartitionState:
    """Broker 1 has lost its replica."""
    decision = decide_lost_replicas(image(before, *brokers), 1, 1, [LostReplica(TOPIC_ID, 0)], lambda _: is_unclean)
    assert [result.code for result in decision.results] == [ErrorCode.NONE]
    return decision.image.topics["t"].partitions[0]


def test_another_leads_in_a_new_term_when_the_leader_is_lost() -> None:
    assert lose(state(1, (1, 2, 3))) == PartitionState(0, (1, 2, 3), (2, 3), 2, leader_epoch=6, partition_epoch=8)


def test_leader_stays_in_its_term_when_a_follower_is_lost() -> None:
    assert lose(state(2, (1, 2))) == PartitionState(0, (1, 2, 3), (2,), 2, leader_epoch=5, partition_epoch=8)


def test_nothing_changes_when_the_lost_replica_is_out_of_sync_or_the_last_and_not_leading() -> None:
    for before in (state(2, (2, 3)), state(NO_LEADER, (1,))):
        assert lose(before) is before


def test_nobody_leads_when_the_lost_leader_is_the_last_live_one_in_sync() -> None:
    for isr, brokers in (((1,), (1, 2, 3)), ((1, 2), (1, 3))):
        assert lose(state(1, isr), *brokers) == PartitionState(
            0, (1, 2, 3), isr, NO_LEADER, leader_epoch=6, partition_epoch=8
        )


def test_replica_out_of_sync_leads_when_the_topic_allows_it() -> None:
    after = lose(state(1, (1,)), is_unclean=True)
    assert (after.leader, after.isr) == (2, (2,))
    assert lose(state(1, (1,)), 1, is_unclean=True).leader == NO_LEADER


def test_each_replica_is_refused_by_itself_when_it_is_unknown() -> None:
    lost = [LostReplica(b"x" * 16, 0), LostReplica(TOPIC_ID, 4), LostReplica(TOPIC_ID, 0)]
    before = image(state(2, (2, 3), (2, 3)))
    decision = decide_lost_replicas(before, 1, 1, lost, lambda _: False)
    assert [result.code for result in decision.results] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ]
    assert decision.image is before


def test_report_is_refused_when_the_broker_was_gone_since() -> None:
    with pytest.raises(ApiError) as refused:
        decide_lost_replicas(image(state(1, (1, 2))), 1, 0, [LostReplica(TOPIC_ID, 0)], lambda _: False)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
