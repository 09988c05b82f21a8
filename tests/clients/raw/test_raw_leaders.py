"""ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments on a single broker."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.clients.raw.wire import Topic, Wire, create_topic, error_of, errors_of, new_name

PREFERRED, UNCLEAN = 0, 1
NOBODY = 99
NONE = ErrorCode.NONE
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
INVALID_ASSIGNMENT = ErrorCode.INVALID_REPLICA_ASSIGNMENT


def elect(wire: Wire, named: dict[str, list[int]] | None, election_type: int = PREFERRED, version: int = 2) -> Any:
    topics = None
    if named is not None:
        topics = [TopicPartitions(topic=topic, partitions=partitions) for topic, partitions in named.items()]
    return wire(ElectLeadersRequest(election_type=election_type, topic_partitions=topics), version)


class TestElections:
    @pytest.mark.parametrize(
        ("version", "election_type"), [(0, PREFERRED), (1, PREFERRED), (1, UNCLEAN), (2, PREFERRED), (2, UNCLEAN)]
    )
    def test_no_election_is_needed_when_the_only_replica_leads(
        self, wire: Wire, version: int, election_type: int
    ) -> None:
        topic = create_topic(wire, 2)
        answer = elect(wire, {topic.name: [0, 1]}, election_type, version)
        assert error_of(answer) is NONE
        (result,) = answer.replica_election_results
        assert result.topic == topic.name
        assert [each.partition_id for each in result.partition_result] == [0, 1]
        assert errors_of(result.partition_result) == [NOT_NEEDED] * 2

    def test_partition_is_unknown_when_topic_or_index_do_not_exist(self, wire: Wire, topic: Topic) -> None:
        missing = new_name()
        answer = elect(wire, {topic.name: [1, 0, -1], missing: [0], "not a name!": [0]})
        known, *unknown = answer.replica_election_results
        assert errors_of(known.partition_result) == [UNKNOWN, NOT_NEEDED, UNKNOWN]
        assert known.partition_result[0].error_message == f"No such partition as {topic.name}-1"
        assert [errors_of(each.partition_result) for each in unknown] == [[UNKNOWN], [UNKNOWN]]
        assert unknown[0].partition_result[0].error_message == f"No such topic as {missing}"

    @pytest.mark.parametrize("version", range(3))
    def test_topics_are_listed_without_partitions_when_all_are_asked_for_and_none_needs_it(
        self, wire: Wire, topic: Topic, version: int
    ) -> None:
        answer = elect(wire, None, version=version)
        assert error_of(answer) is NONE
        results = {result.topic: result.partition_result for result in answer.replica_election_results}
        assert results[topic.name] == []

    def test_each_mention_is_answered_when_a_partition_is_named_twice(self, wire: Wire, topic: Topic) -> None:
        (result,) = elect(wire, {topic.name: [0, 0]}).replica_election_results
        assert errors_of(result.partition_result) == [NOT_NEEDED] * 2

    @pytest.mark.parametrize("version", [1, 2])
    def test_request_is_invalid_when_the_election_type_is_unknown(self, wire: Wire, topic: Topic, version: int) -> None:
        answer = elect(wire, {topic.name: [0, 7]}, 5, version)
        assert error_of(answer) is ErrorCode.INVALID_REQUEST
        (result,) = answer.replica_election_results
        assert errors_of(result.partition_result) == [ErrorCode.INVALID_REQUEST] * 2
        assert result.partition_result[0].error_message == "Unknown election type 5"


@pytest.fixture
def node(node: str) -> int:
    return int(node)


def reassign(wire: Wire, topic: str, rows: list[tuple[int, list[int] | None]], version: int = 1, **more: Any) -> Any:
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in rows]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=partitions)], **more)
    return wire(request, version)


class TestReassignments:
    @pytest.mark.parametrize("version", range(2))
    def test_reassignment_succeeds_when_the_replicas_stay_where_they_are(
        self, wire: Wire, topic: Topic, node: int, version: int
    ) -> None:
        answer = reassign(wire, topic.name, [(0, [node])], version)
        assert error_of(answer) is NONE
        (result,) = answer.responses
        assert (result.name, errors_of(result.partitions)) == (topic.name, [NONE])

    @pytest.mark.parametrize("version", range(2))
    def test_assignment_is_invalid_when_its_brokers_are_not_possible(
        self, wire: Wire, topic: Topic, node: int, version: int
    ) -> None:
        rows: list[tuple[int, list[int] | None]] = [
            (0, [NOBODY]),
            (0, [node, NOBODY]),
            (0, [NOBODY, node]),
            (0, [-1]),
            (0, []),
            (0, [node, node]),
        ]
        (result,) = reassign(wire, topic.name, rows, version).responses
        assert errors_of(result.partitions) == [INVALID_ASSIGNMENT] * 6
        texts = [each.error_message for each in result.partitions]
        assert f"includes broker {NOBODY}, but no such broker is registered." in texts[0]
        assert "includes an empty replica list." in texts[4]
        assert f"includes the broker {node} more than once." in texts[5]

    def test_partition_is_unknown_when_topic_or_index_do_not_exist(self, wire: Wire, topic: Topic, node: int) -> None:
        (result,) = reassign(wire, topic.name, [(1, [node]), (-1, None)]).responses
        assert errors_of(result.partitions) == [UNKNOWN] * 2
        (result,) = reassign(wire, new_name(), [(0, [node]), (0, None)]).responses
        assert errors_of(result.partitions) == [UNKNOWN] * 2

    def test_nothing_is_cancelled_when_no_reassignment_is_under_way(self, wire: Wire, topic: Topic) -> None:
        (result,) = reassign(wire, topic.name, [(0, None)]).responses
        assert errors_of(result.partitions) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]

    @pytest.mark.parametrize("is_allowed", [True, False])
    def test_flag_is_repeated_when_a_change_of_the_replication_factor_is_allowed_or_not(
        self, wire: Wire, topic: Topic, node: int, is_allowed: bool
    ) -> None:
        answer = reassign(
            wire, topic.name, [(0, [node]), (0, [node, NOBODY])], allow_replication_factor_change=is_allowed
        )
        assert answer.allow_replication_factor_change is is_allowed
        assert errors_of(answer.responses[0].partitions) == [NONE, INVALID_ASSIGNMENT]

    def test_no_reassignment_is_listed_when_none_is_under_way(self, wire: Wire, topic: Topic, node: int) -> None:
        reassign(wire, topic.name, [(0, [node])])
        named = [
            ListPartitionReassignmentsTopics(name=topic.name, partition_indexes=[0, 1]),
            ListPartitionReassignmentsTopics(name=new_name(), partition_indexes=[0]),
        ]
        for topics in (None, [], named):
            answer = wire(ListPartitionReassignmentsRequest(topics=topics))
            assert (error_of(answer), answer.topics) == (NONE, [])
