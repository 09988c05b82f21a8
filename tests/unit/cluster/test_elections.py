from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.cluster.decisions.elections import ElectionType, decide_balance, decide_elections, decide_offline
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicImage
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.harness import cluster

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def many(*states: PartitionState, brokers: tuple[int, ...] = (1, 2, 3), stopping: int | None = None) -> MetadataImage:
    numbered = tuple(state._replace(partition=index) for index, state in enumerate(states))
    image = cluster(*brokers).with_topics({"t": TopicImage("t", bytes(16), numbered)})
    if stopping is None:
        return image
    registrations = {**image.brokers, stopping: image.brokers[stopping]._replace(is_stopping=True)}
    return replace(image, brokers=registrations)


def state(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(0, replicas, isr, leader, leader_epoch=5, partition_epoch=7)


def elected(leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionState:
    return PartitionState(0, replicas, isr, leader, leader_epoch=6, partition_epoch=8)


class TestUncleanElectionsAllowedLater:
    def test_partitions_without_a_leader_get_one_when_their_topic_allows_it_from_now_on(self) -> None:
        image = many(state(NO_LEADER, (1,)), state(3, (3,)), state(NO_LEADER, (1,), replicas=(1,)), brokers=(2, 3))
        assert decide_offline(image, lambda _: False).image is image
        states = decide_offline(image, lambda _: True).image.topics["t"].partitions
        assert [each.leader for each in states] == [2, 3, NO_LEADER]
        assert states[0].isr == (2,)


class TestHeldElections:
    @pytest.mark.parametrize(
        ("election_type", "before", "live", "code", "after"),
        [
            (PREFERRED, state(2, (2, 1)), (1, 2, 3), ErrorCode.NONE, elected(1, (2, 1))),
            (PREFERRED, state(1, (1, 2)), (1, 2, 3), ErrorCode.ELECTION_NOT_NEEDED, state(1, (1, 2))),
            (PREFERRED, state(2, (2, 3)), (1, 2, 3), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, state(2, (2, 3))),
            (PREFERRED, state(2, (2, 1)), (2, 3), ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, state(2, (2, 1))),
            (UNCLEAN, state(2, (2,)), (1, 2, 3), ErrorCode.ELECTION_NOT_NEEDED, state(2, (2,))),
            (UNCLEAN, state(NO_LEADER, (1,)), (2, 3), ErrorCode.NONE, elected(2, (2,))),
            (UNCLEAN, state(NO_LEADER, (3, 1)), (2, 3), ErrorCode.NONE, elected(3, (3,))),
            (
                UNCLEAN,
                state(NO_LEADER, (1,), replicas=(1,)),
                (2, 3),
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                state(NO_LEADER, (1,), replicas=(1,)),
            ),
        ],
    )
    def test_leader_and_answer_are_kafkas_when_a_client_asks_for_an_election(
        self,
        election_type: ElectionType,
        before: PartitionState,
        live: tuple[int, ...],
        code: ErrorCode,
        after: PartitionState,
    ) -> None:
        image = many(before, brokers=live)
        decision = decide_elections(image, [TopicPartition("t", 0)], election_type)
        assert decision.results == (("t", 0, code),)
        assert decision.image.topics["t"].partitions == (after,)
        assert (decision.image is image) == (code is not ErrorCode.NONE)

    def test_preferred_leader_is_not_available_when_it_is_about_to_stop(self) -> None:
        image = many(state(2, (1, 2)), stopping=1)
        decision = decide_elections(image, [TopicPartition("t", 0)], PREFERRED)
        assert decision.results[0].code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    def test_every_partition_is_answered_when_none_is_named(self) -> None:
        image = many(state(1, (1, 2)), state(2, (1, 2)), state(2, (2,)))
        decision = decide_elections(image, None, PREFERRED)
        assert [result.code for result in decision.results] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.NONE,
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ]

    def test_second_election_is_not_needed_when_a_request_names_a_partition_twice(self) -> None:
        decision = decide_elections(many(state(2, (1, 2))), [TopicPartition("t", 0)] * 2, PREFERRED)
        assert [result.code for result in decision.results] == [ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED]
        assert decision.image.topics["t"].partitions == (elected(1, (1, 2)),)

    @pytest.mark.parametrize("partition", [TopicPartition("t", 1), TopicPartition("u", 0)])
    def test_partition_is_unknown_when_it_is_not_there(self, partition: TopicPartition) -> None:
        decision = decide_elections(many(state(1, (1,))), [partition], UNCLEAN)
        assert decision.results == ((*partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),)


class TestBalance:
    def test_nothing_changes_when_a_broker_lacks_no_more_than_the_share_allowed(self) -> None:
        image = many(*[state(1, (1, 2))] * 9, state(2, (1, 2)))
        assert decide_balance(image, 10).image is image

    def test_preferred_leader_leads_all_it_can_when_it_lacks_more_than_the_share_allowed(self) -> None:
        image = many(*[state(1, (1, 2))] * 8, state(2, (2, 1)), state(2, (2,)))
        states = decide_balance(image, 10).image.topics["t"].partitions
        assert states[8] == elected(1, (2, 1))._replace(partition=8)
        assert states[9] is image.topics["t"].partitions[9]

    def test_only_the_broker_that_lacks_leadership_gets_it_when_others_are_in_balance(self) -> None:
        balanced = [state(2, (1, 2), (2, 1))] * 19
        image = many(*balanced, state(1, (1, 2), (2, 1)), state(2, (1, 2)))
        after = decide_balance(image, 10).image.topics["t"].partitions
        assert [each.leader for each in after[19:]] == [1, 1]

    @pytest.mark.parametrize(("brokers", "stopping"), [((2, 3), None), ((1, 2), 1)])
    def test_leader_stays_when_the_preferred_one_is_away_or_about_to_stop(
        self, brokers: tuple[int, ...], stopping: int | None
    ) -> None:
        image = many(state(2, (1, 2)), brokers=brokers, stopping=stopping)
        assert decide_balance(image, 10).image is image
