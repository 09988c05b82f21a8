"""What the controller decides when a broker's disk has failed."""

from __future__ import annotations

import pytest

from penstock.cluster.controller.known_losses import KnownLosses
from penstock.cluster.decisions.brokers import decide_registered
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.decisions.elections import decide_balance
from penstock.cluster.decisions.lost_replicas import decide_lost_replicas
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicImage
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.changes import LostReplica
from tests.unit.cluster.brokers import TestBroker, agreed, started
from tests.unit.cluster.harness import broker, cluster, run
from tests.waiting import until

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


class TestElections:
    """Broker 1 has lost the last in-sync replica, and goes on."""

    before = image(state(NO_LEADER, (1,)), 1, 2)

    def losses(self) -> KnownLosses:
        losses = KnownLosses()
        losses.note(self.before, 1, 1, [LostReplica(TOPIC_ID, 0)])
        return losses

    def elect(self, before: MetadataImage, *, is_unclean: bool = False, epoch: int = 1) -> PartitionState:
        """Broker 3 comes."""
        registered = {1: broker(1)._replace(epoch=epoch), 2: broker(2), 3: broker(3)}
        after = decide_registered(before, registered, lambda _: is_unclean, self.losses().by_partition).image
        assert after.brokers.keys() == {1, 2, 3}
        return after.topics["t"].partitions[0]

    def test_lost_replica_is_not_elected_when_another_broker_comes(self) -> None:
        assert self.elect(self.before) == state(NO_LEADER, (1,))

    def test_lost_replica_is_elected_when_its_broker_has_started_anew(self) -> None:
        assert self.elect(self.before, epoch=9).leader == 1

    def test_replica_is_elected_when_the_partition_has_changed_since_it_was_lost(self) -> None:
        changed = state(NO_LEADER, (1,))._replace(partition_epoch=8)
        assert self.elect(image(changed, 1, 2)).leader == 1

    def test_replica_out_of_sync_is_elected_when_the_topic_allows_it(self) -> None:
        after = self.elect(self.before, is_unclean=True)
        assert (after.leader, after.isr) == (2, (2,))

    def test_other_member_is_elected_when_it_comes_back(self) -> None:
        self.before = image(state(NO_LEADER, (1, 3)), 1, 2)
        after = self.elect(self.before)
        assert (after.leader, after.isr) == (3, (3,))

    def test_lost_replica_is_not_elected_when_leaders_are_balanced(self) -> None:
        assert decide_balance(self.before, 0).image is self.before

    def test_losses_are_forgotten_when_the_partition_has_changed(self) -> None:
        losses = self.losses()
        losses.note(image(state(1, (1,))), 2, 2, [])
        assert not losses.by_partition


def test_nothing_is_elected_when_brokers_come_and_go_after_the_last_replica_was_lost() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2)
        await first.metadata.create_topics([NewTopic("t", 1, 2)])
        await agreed(first, second)
        topic = first.metadata.image.topics["t"]
        lost = [LostReplica(topic.topic_id, 0)]
        await second.stop()
        await until(lambda: first.metadata.image.topics["t"].partitions[0].isr == (1,))
        await first.metadata.controller_api.lose_replicas(1, first.metadata.broker_epoch, lost)
        after = first.metadata.image.topics["t"].partitions[0]
        assert (after.leader, after.isr) == (NO_LEADER, (1,))
        third = await TestBroker(tree, 3).start()
        await agreed(first, third)
        assert first.metadata.image.topics["t"].partitions[0] == after
        await third.stop()
        await until(lambda: first.metadata.image.brokers.keys() == {1})
        assert first.metadata.image.topics["t"].partitions[0] == after
        await first.stop()

    run(main())
