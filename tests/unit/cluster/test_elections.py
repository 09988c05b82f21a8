from __future__ import annotations

import pytest

from penstock.cluster.decisions.elections import ElectionType, decide_election
from penstock.cluster.decisions.reassignments import check_reassignment
from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState, TopicImage
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.cluster.harness import cluster

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def image(leader: int = 1, replicas: tuple[int, ...] = (1,)) -> MetadataImage:
    state = PartitionState(0, replicas, replicas, leader)
    return cluster(1, 2).with_topics({"t": TopicImage("t", bytes(16), (state,))})


class TestElections:
    @pytest.mark.parametrize("election_type", list(ElectionType))
    def test_no_election_is_needed_when_the_preferred_replica_leads(self, election_type: ElectionType) -> None:
        assert decide_election(image(), "t", 0, election_type) is ErrorCode.ELECTION_NOT_NEEDED

    @pytest.mark.parametrize("election_type", list(ElectionType))
    @pytest.mark.parametrize(("topic", "index"), [("t", 1), ("t", -1), ("other", 0)])
    def test_partition_is_unknown_when_it_does_not_exist(
        self, topic: str, index: int, election_type: ElectionType
    ) -> None:
        assert decide_election(image(), topic, index, election_type) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_nobody_can_take_over_when_there_is_no_leader(self) -> None:
        offline = image(NO_LEADER)
        assert decide_election(offline, "t", 0, PREFERRED) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        assert decide_election(offline, "t", 0, UNCLEAN) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class TestReassignments:
    def test_nothing_is_wrong_when_the_replicas_stay(self) -> None:
        check_reassignment(image(replicas=(1, 2)), "t", 0, (1, 2), may_change_replication_factor=False)

    def test_replication_factor_is_kept_when_its_change_is_not_allowed(self) -> None:
        with pytest.raises(ApiError) as caught:
            check_reassignment(image(), "t", 0, (1, 2), may_change_replication_factor=False)
        assert caught.value.code is ErrorCode.INVALID_REPLICATION_FACTOR

    @pytest.mark.parametrize("replicas", [(2,), (1, 2)])
    def test_move_is_refused_with_a_reason_when_another_broker_would_get_a_replica(
        self, replicas: tuple[int, ...]
    ) -> None:
        with pytest.raises(ApiError, match="does not move replicas") as caught:
            check_reassignment(image(), "t", 0, replicas)
        assert caught.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
