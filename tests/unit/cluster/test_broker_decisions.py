from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from penstock.cluster.decisions.brokers import are_counted, decide_registered
from penstock.cluster.decisions.leadership import UncleanRule
from penstock.cluster.image import NO_LEADER, BrokerRegistration, MetadataImage, PartitionState, TopicImage
from penstock.cluster.levels import LevelRange
from tests.unit.cluster.harness import broker, cluster

NEW_EPOCH = 50


def never(topic: TopicImage) -> bool:
    return False


def always(topic: TopicImage) -> bool:
    return True


def state(
    leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3), epoch: int = 5, partition_epoch: int = 7
) -> PartitionState:
    return PartitionState(0, replicas, isr, leader, epoch, partition_epoch)


def with_state(image: MetadataImage, partition: PartitionState, name: str = "t") -> MetadataImage:
    return image.with_topics({name: TopicImage(name, name.encode().ljust(16, b"."), (partition,))})


def registered(*node_ids: int, **back: int) -> dict[int, BrokerRegistration]:
    """Brokers as they were. `b2=-1` is broker 2 come back after an unclean end, `b2=2` after the end of its epoch 2."""
    brokers = {node_id: broker(node_id) for node_id in node_ids}
    for name, previous_epoch in back.items():
        node_id = int(name[1:])
        brokers[node_id] = broker(node_id)._replace(epoch=NEW_EPOCH + node_id, previous_epoch=previous_epoch)
    return brokers


def after(
    partition: PartitionState, now: Mapping[int, BrokerRegistration], before: tuple[int, ...] = (1, 2, 3)
) -> PartitionState:
    image = with_state(cluster(*before), partition)
    return decide_registered(image, now, never).image.topics["t"].partitions[0]


class TestBrokersGo:
    def test_next_in_sync_replica_of_the_assignment_leads_when_the_leader_goes(self) -> None:
        assert after(state(1, (3, 2, 1)), registered(2, 3)) == state(2, (3, 2), epoch=6, partition_epoch=8)

    def test_replica_out_of_sync_is_passed_over_when_the_leader_goes(self) -> None:
        assert after(state(1, (1, 3)), registered(2, 3)) == state(3, (3,), epoch=6, partition_epoch=8)

    def test_leader_stays_in_its_term_when_a_follower_goes(self) -> None:
        assert after(state(2, (1, 2, 3)), registered(2, 3)) == state(2, (2, 3), epoch=5, partition_epoch=8)

    def test_last_member_stays_in_sync_and_nobody_leads_when_it_goes(self) -> None:
        assert after(state(1, (1,)), registered(2, 3)) == state(NO_LEADER, (1,), epoch=6, partition_epoch=8)

    def test_all_stay_in_sync_when_they_go_at_once(self) -> None:
        assert after(state(1, (1, 2)), registered(3)) == state(NO_LEADER, (1, 2), epoch=6, partition_epoch=8)

    def test_replica_out_of_sync_leads_alone_when_the_topic_allows_it(self) -> None:
        image = with_state(cluster(1, 2, 3), state(1, (1,)))
        decision = decide_registered(image, registered(2, 3), always)
        assert decision.image.topics["t"].partitions[0] == state(2, (2,), epoch=6, partition_epoch=8)

    def test_in_sync_replica_leads_when_unclean_elections_are_allowed_but_not_needed(self) -> None:
        image = with_state(cluster(1, 2, 3), state(1, (1, 3)))
        decision = decide_registered(image, registered(2, 3), always)
        assert decision.image.topics["t"].partitions[0] == state(3, (3,), epoch=6, partition_epoch=8)

    def test_nobody_leads_when_unclean_elections_are_allowed_but_no_replica_lives(self) -> None:
        image = with_state(cluster(1, 2), state(1, (1,), replicas=(1,)))
        decision = decide_registered(image, registered(2), always)
        assert decision.image.topics["t"].partitions[0] == state(
            NO_LEADER, (1,), replicas=(1,), epoch=6, partition_epoch=8
        )


class TestBrokersCome:
    def test_in_sync_replica_leads_when_it_comes_and_nobody_leads(self) -> None:
        offline = state(NO_LEADER, (1, 2))
        assert after(offline, registered(2, 3), before=(3,)) == state(2, (2,), epoch=6, partition_epoch=8)

    def test_nobody_leads_when_a_replica_out_of_sync_comes(self) -> None:
        offline = state(NO_LEADER, (1,))
        assert after(offline, registered(2, 3), before=(3,)) == offline

    def test_only_the_brokers_change_when_a_follower_out_of_sync_comes(self) -> None:
        image = with_state(cluster(1, 2), state(1, (1, 2)))
        decision = decide_registered(image, registered(3, 2, 1), never)
        assert list(decision.image.brokers) == [1, 2, 3]
        assert decision.image.topics is image.topics


class TestBrokersComeBack:
    def test_broker_leaves_the_set_and_leads_nothing_when_it_was_gone_for_a_moment(self) -> None:
        assert after(state(1, (1, 2, 3)), registered(2, 3, b1=-1)) == state(2, (2, 3), epoch=6, partition_epoch=8)

    def test_leader_stays_in_its_term_when_only_its_session_ended_and_others_were_here_all_the_time(self) -> None:
        """A store was frozen. When it goes on, it ends the sessions of all that it does not hear at once."""
        partition = state(1, (1, 2))
        assert after(partition, registered(2, 3, b1=1)) is partition

    def test_members_whose_sessions_ended_stay_in_sync_when_the_leader_is_gone(self) -> None:
        assert after(state(1, (1, 2, 3)), registered(3, b2=2)) == state(2, (2, 3), epoch=6, partition_epoch=8)

    def test_only_the_registration_changes_when_the_only_member_ended_cleanly(self) -> None:
        image = with_state(cluster(1), state(1, (1,), replicas=(1,)))
        decision = decide_registered(image, registered(b1=1), never)
        assert decision.image.topics is image.topics
        assert decision.image.brokers[1].epoch == NEW_EPOCH + 1

    @pytest.mark.parametrize("previous_epoch", [-1, 0, 2])
    def test_new_term_begins_when_the_only_member_did_not_end_its_last_epoch_cleanly(self, previous_epoch: int) -> None:
        assert after(state(1, (1,)), registered(2, b1=previous_epoch)) == state(1, (1,), epoch=6, partition_epoch=8)

    def test_last_leader_leads_alone_when_all_members_came_back_uncleanly(self) -> None:
        assert after(state(2, (1, 2, 3)), registered(b1=-1, b2=-1, b3=-1)) == state(2, (2,), epoch=6, partition_epoch=8)

    def test_member_with_a_clean_end_leads_when_the_others_came_back_uncleanly(self) -> None:
        assert after(state(1, (1, 2)), registered(3, b1=-1, b2=2)) == state(2, (2,), epoch=6, partition_epoch=8)

    def test_partition_stays_as_it_is_when_all_members_ended_cleanly(self) -> None:
        partition = state(2, (1, 2))
        assert after(partition, registered(b1=1, b2=2, b3=-1)) is partition


class TestStopping:
    def test_broker_is_passed_over_when_it_is_about_to_stop(self) -> None:
        image = with_state(cluster(1, 2, 3), state(1, (1, 2, 3)))
        stopping = {**image.brokers, 2: image.brokers[2]._replace(is_stopping=True)}
        image = decide_registered(image, stopping, never).image
        image = decide_registered(image, registered(2, 3), never).image
        assert image.topics["t"].partitions[0].leader == 3
        assert image.brokers[2].is_stopping  # though the store's node does not say so

    def test_broker_about_to_stop_leads_when_no_other_can(self) -> None:
        image = with_state(cluster(1, 2), state(1, (1, 2)))
        stopping = {**image.brokers, 2: image.brokers[2]._replace(is_stopping=True)}
        image = decide_registered(decide_registered(image, stopping, never).image, registered(2), never).image
        assert image.topics["t"].partitions[0] == state(2, (2,), epoch=6, partition_epoch=8)

    def test_broker_may_lead_again_when_it_came_back_after_its_stop(self) -> None:
        image = with_state(cluster(1), state(1, (1,), replicas=(1,)))
        stopping = decide_registered(image, {1: image.brokers[1]._replace(is_stopping=True)}, never).image
        assert not decide_registered(stopping, registered(b1=1), never).image.brokers[1].is_stopping


class TestSharing:
    def test_image_is_the_same_object_when_nothing_changes(self) -> None:
        image = with_state(cluster(1, 2), state(1, (1, 2)))
        assert decide_registered(image, registered(1, 2), never).image is image

    def test_leader_is_elected_when_no_broker_changed_but_the_topic_allows_it_now(self) -> None:
        image = with_state(cluster(2, 3), state(NO_LEADER, (1,)))
        assert decide_registered(image, registered(2, 3), never).image is image
        decision = decide_registered(image, registered(2, 3), always)
        assert decision.image.topics["t"].partitions[0].leader == 2

    def test_topics_and_states_stay_the_same_objects_when_nothing_happened_to_them(self) -> None:
        touched = TopicImage("touched", bytes(16), (state(3, (3, 2)), state(1, (1, 2))._replace(partition=1)))
        image = with_state(cluster(1, 2, 3), state(2, (2,)), "untouched").with_topics({"touched": touched})
        topics = decide_registered(image, registered(2, 3), never).image.topics
        assert topics["untouched"] is image.topics["untouched"]
        assert topics["touched"].partitions[0] is touched.partitions[0]
        assert topics["touched"].partitions[1].leader == 2

    def test_topic_is_asked_about_once_when_several_of_its_partitions_have_no_leader(self) -> None:
        asked: list[str] = []

        def ask(topic: TopicImage) -> bool:
            asked.append(topic.name)
            return True

        offline = tuple(state(1, (1,))._replace(partition=index) for index in range(3))
        image = cluster(1, 2).with_topics({"t": TopicImage("t", bytes(16), offline)})
        decision = decide_registered(image, registered(2), ask)
        assert [each.leader for each in decision.image.topics["t"].partitions] == [2, 2, 2]
        assert asked == ["t"]


class TestDisksAreLost:
    """Broker 2 comes back with other directories than it had."""

    def after(
        self,
        partition: PartitionState,
        now: tuple[str, ...],
        may_be_unclean: UncleanRule = never,
        *live: int,
        is_empty: bool = True,
    ) -> PartitionState:
        image = replace(with_state(cluster(*live, 2), partition), directories={2: ("old", "other")})
        brokers = registered(*live, b2=2)
        brokers[2] = brokers[2]._replace(directories=now, is_empty=is_empty)
        decided = decide_registered(image, brokers, may_be_unclean).image
        assert decided.directories == {2: now or ("old", "other")}
        return decided.topics["t"].partitions[0]

    def test_empty_disk_does_not_lead_when_it_comes_back_first(self) -> None:
        assert self.after(state(2, (1, 2, 3)), ("new",)) == state(NO_LEADER, (1, 3), epoch=6, partition_epoch=8)

    def test_others_go_on_when_a_disk_was_replaced(self) -> None:
        assert self.after(state(2, (1, 2, 3)), ("new",), never, 1, 3) == state(1, (1, 3), epoch=6, partition_epoch=8)

    def test_nobody_is_in_sync_when_the_last_member_lost_its_disk(self) -> None:
        gone = self.after(state(2, (2,)), ("new",), never, 1, 3)
        assert gone == state(NO_LEADER, (), epoch=6, partition_epoch=8)
        image = with_state(cluster(1, 2, 3), gone)
        assert decide_registered(image, registered(1, 2, 3), never).image is image, "the next start changes nothing"

    def test_replica_with_some_records_leads_rather_than_the_empty_one_when_the_topic_allows_it(self) -> None:
        partition = state(2, (2,), replicas=(2, 3))
        assert self.after(partition, ("new",), always, 3).leader == 3
        assert self.after(partition, ("new",), always).leader == 2

    @pytest.mark.parametrize("now", [("old",), ("old", "new"), ()])
    def test_broker_leads_on_when_some_of_its_disks_are_the_old_ones(self, now: tuple[str, ...]) -> None:
        assert self.after(state(2, (2,)), now) == state(2, (2,), epoch=5, partition_epoch=7)

    def test_broker_leads_on_when_its_directory_has_another_id_and_still_its_logs(self) -> None:
        after = self.after(state(2, (2,)), ("new",), is_empty=False)
        assert after == state(2, (2,), epoch=5, partition_epoch=7)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (registered(1, 2), True),
        (registered(1), False),
        (registered(1, 2, 3), False),
        (registered(1, b2=2), False),
        ({**registered(1, 2), 3: broker(3)._replace(levels=LevelRange(5, 6))}, True),  # it will never be counted
    ],
)
def test_brokers_are_counted_when_the_image_has_those_that_can_follow(
    now: dict[int, BrokerRegistration], expected: bool
) -> None:
    image = cluster(1, 2)
    assert are_counted(image, now) is expected
    assert (decide_registered(image, now, never).image is image) is expected
