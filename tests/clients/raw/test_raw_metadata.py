"""Metadata, DescribeCluster and DescribeTopicPartitions."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
    TopicRequest,
)
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients.raw.wire import Topic, Wire, create_topic, error_of, errors_of, new_name, wait_for_leaders

NOT_ASKED_FOR = -(2**31)
INVALID_NAMES = ["", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\0b"]


def ask(wire: Wire, *topics: MetadataRequestTopic, version: int | None = None, auto_create: bool = False) -> Any:
    return wire(MetadataRequest(topics=list(topics), allow_auto_topic_creation=auto_create), version)


def by_name(name: str) -> MetadataRequestTopic:
    return MetadataRequestTopic(name=name)


class TestMetadata:
    @pytest.mark.parametrize("version", range(14))
    def test_topic_and_broker_are_described_when_asked_in_any_version(
        self, wire: Wire, topic: Topic, version: int
    ) -> None:
        answer = ask(wire, by_name(topic.name), version=version, auto_create=True)
        (described,) = answer.topics
        (partition,) = described.partitions
        (broker,) = answer.brokers
        assert (described.error_code, described.name, described.is_internal) == (0, topic.name, False)
        assert (partition.error_code, partition.partition_index) == (0, 0)
        assert partition.leader_id == broker.node_id
        assert partition.replica_nodes == partition.isr_nodes == [broker.node_id]
        assert not partition.offline_replicas
        assert described.topic_id == (topic.id if version >= 10 else bytes(16))
        assert partition.leader_epoch == (0 if version >= 7 else -1)
        assert bool(answer.cluster_id) == (version >= 2)
        assert answer.controller_id == (broker.node_id if version >= 1 else -1)

    def test_host_is_an_ipv4_address_when_advertised_by_default(self, wire: Wire) -> None:
        """Some clients resolve localhost to ::1 alone, where nobody listens."""
        (broker,) = ask(wire).brokers
        assert ipaddress.ip_address(broker.host).version == 4

    def test_every_topic_is_described_when_the_list_is_null(self, wire: Wire, topic: Topic) -> None:
        other = create_topic(wire)
        for version in (1, 9, 12):
            answer = wire(MetadataRequest(topics=None, allow_auto_topic_creation=False), version)
            assert {topic.name, other.name} <= {described.name for described in answer.topics}

    def test_every_topic_is_described_when_the_list_is_empty_in_version_0(self, wire: Wire, topic: Topic) -> None:
        assert topic.name in {described.name for described in ask(wire, version=0).topics}

    def test_no_topic_is_described_when_the_list_is_empty(self, wire: Wire, topic: Topic) -> None:
        for version in (1, 8, 12):
            assert ask(wire, version=version).topics == []

    def test_topic_is_described_when_asked_by_id(self, wire: Wire, topic: Topic) -> None:
        (described,) = ask(wire, MetadataRequestTopic(topic_id=topic.id, name=None)).topics
        assert (described.error_code, described.name, described.topic_id) == (0, topic.name, topic.id)

    def test_topic_id_is_unknown_when_nobody_has_it(self, wire: Wire) -> None:
        (described,) = ask(wire, MetadataRequestTopic(topic_id=b"\x07" * 16, name=None)).topics
        assert error_of(described) == ErrorCode.UNKNOWN_TOPIC_ID
        assert (described.name, described.topic_id, described.partitions) == (None, b"\x07" * 16, [])

    def test_topic_is_unknown_when_absent_and_not_to_be_created(self, wire: Wire) -> None:
        name = new_name()
        for _ in range(2):
            (described,) = ask(wire, by_name(name)).topics
            assert error_of(described) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (described.name, described.topic_id, described.partitions) == (name, bytes(16), [])

    @pytest.mark.parametrize("version", [3, 4, 12])
    def test_topic_is_created_when_absent_and_to_be_created(self, wire: Wire, version: int) -> None:
        name = new_name()
        (described,) = ask(wire, by_name(name), version=version, auto_create=True).topics
        assert error_of(described) in {
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.LEADER_NOT_AVAILABLE,
            ErrorCode.NONE,
        }
        wait_for_leaders(wire, name, 1)

    @pytest.mark.parametrize("name", INVALID_NAMES)
    def test_topic_is_refused_when_its_name_is_invalid(self, wire: Wire, name: str) -> None:
        (described,) = ask(wire, by_name(name), auto_create=True).topics
        assert error_of(described) == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_unknown_topics_stand_beside_known_ones_when_mixed(self, wire: Wire, topic: Topic) -> None:
        missing = new_name()
        answer = ask(wire, by_name(missing), by_name(topic.name))
        assert {one.name: error_of(one) for one in answer.topics} == {
            topic.name: ErrorCode.NONE,
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }

    def test_topic_is_described_once_when_named_twice(self, wire: Wire, topic: Topic) -> None:
        assert len(ask(wire, by_name(topic.name), by_name(topic.name)).topics) == 1

    def test_operations_are_told_only_when_asked_for(self, wire: Wire, topic: Topic) -> None:
        request = MetadataRequest(topics=[by_name(topic.name)], allow_auto_topic_creation=False)
        assert wire(request).topics[0].topic_authorized_operations == NOT_ASKED_FOR
        request.include_topic_authorized_operations = True
        # read, write, create, delete, alter, describe, describe configs, alter configs: one bit each
        expected = sum(1 << operation for operation in (3, 4, 6, 7, 8, 5, 10, 11))
        assert wire(request).topics[0].topic_authorized_operations in {expected, expected & ~(1 << 5)}

    def test_partitions_are_all_described_when_there_are_many(self, wire: Wire) -> None:
        topic = create_topic(wire, partitions=20)
        (described,) = ask(wire, by_name(topic.name)).topics
        assert sorted(one.partition_index for one in described.partitions) == list(range(20))


class TestDescribeCluster:
    @pytest.mark.parametrize("version", range(3))
    def test_cluster_is_described_when_asked(self, wire: Wire, version: int) -> None:
        answer = wire(DescribeClusterRequest(), version)
        metadata = ask(wire)
        assert answer.error_code == 0
        assert answer.cluster_id == wire(MetadataRequest(topics=[]), 9).cluster_id
        assert answer.controller_id == metadata.controller_id
        assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [
            (one.node_id, one.host, one.port) for one in metadata.brokers
        ]
        assert answer.cluster_authorized_operations == NOT_ASKED_FOR
        assert answer.endpoint_type == 1

    @pytest.mark.parametrize(
        ("endpoint_type", "error"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
    )
    def test_endpoint_is_refused_when_it_is_not_a_broker(
        self, wire: Wire, endpoint_type: int, error: ErrorCode
    ) -> None:
        assert error_of(wire(DescribeClusterRequest(endpoint_type=endpoint_type))) == error

    def test_operations_are_told_when_asked_for(self, wire: Wire) -> None:
        answer = wire(DescribeClusterRequest(include_cluster_authorized_operations=True))
        assert answer.cluster_authorized_operations > 0


class TestDescribeTopicPartitions:
    def describe(self, wire: Wire, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
        start = None
        if cursor is not None:
            start = DescribeTopicPartitionsRequestCursor(topic_name=cursor[0], partition_index=cursor[1])
        topics = [TopicRequest(name=name) for name in names]
        return wire(DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=start))

    def test_lists_are_empty_and_not_null_when_there_are_no_eligible_leaders(self, wire: Wire, topic: Topic) -> None:
        """The Java admin client fails with a NullPointerException on null."""
        (described,) = self.describe(wire, topic.name).topics
        (partition,) = described.partitions
        assert (described.error_code, described.topic_id, described.is_internal) == (0, topic.id, False)
        assert partition.eligible_leader_replicas == []
        assert partition.last_known_elr == []
        assert partition.offline_replicas == []
        assert partition.replica_nodes == partition.isr_nodes == [partition.leader_id]
        assert partition.leader_epoch == 0

    def test_topic_is_unknown_when_absent(self, wire: Wire) -> None:
        (described,) = self.describe(wire, new_name()).topics
        assert error_of(described) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert described.partitions == []

    @pytest.mark.parametrize("name", ["a b", "x" * 250])
    def test_topic_is_unknown_or_invalid_when_its_name_is_invalid(self, wire: Wire, name: str) -> None:
        (described,) = self.describe(wire, name).topics
        assert error_of(described) == ErrorCode.INVALID_TOPIC_EXCEPTION

    def test_topics_are_sorted_when_asked_in_another_order(self, wire: Wire) -> None:
        names = [create_topic(wire).name for _ in range(3)]
        answer = self.describe(wire, *sorted(names, reverse=True))
        assert [described.name for described in answer.topics] == sorted(names)
        assert answer.next_cursor is None

    def test_every_topic_is_described_when_none_is_named(self, wire: Wire, topic: Topic) -> None:
        assert topic.name in {described.name for described in self.describe(wire).topics}

    def test_cursor_says_where_to_go_on_when_the_limit_is_reached(self, wire: Wire) -> None:
        first, second = sorted((create_topic(wire, partitions=3) for _ in range(2)), key=lambda one: one.name)
        pages = []
        cursor: tuple[str, int] | None = None
        for _ in range(3):
            answer = self.describe(wire, first.name, second.name, limit=2, cursor=cursor)
            pages.append([(one.name, [part.partition_index for part in one.partitions]) for one in answer.topics])
            if answer.next_cursor is not None:
                cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        assert pages == [
            [(first.name, [0, 1])],
            [(first.name, [2]), (second.name, [0])],
            [(second.name, [1, 2])],
        ]
        assert answer.next_cursor is None

    def test_cursor_points_to_the_next_topic_when_the_limit_ends_with_one(self, wire: Wire) -> None:
        first, second = sorted((create_topic(wire, partitions=2) for _ in range(2)), key=lambda one: one.name)
        answer = self.describe(wire, first.name, second.name, limit=2)
        assert [one.name for one in answer.topics] == [first.name]
        assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == (second.name, 0)

    def test_earlier_topics_are_left_out_when_the_cursor_is_past_them(self, wire: Wire) -> None:
        first, second = sorted((create_topic(wire) for _ in range(2)), key=lambda one: one.name)
        answer = self.describe(wire, first.name, second.name, cursor=(second.name, 0))
        assert [one.name for one in answer.topics] == [second.name]

    @pytest.mark.parametrize("limit", [0, -1])
    def test_limit_is_lifted_when_below_one(self, wire: Wire, topic: Topic, limit: int) -> None:
        assert errors_of(self.describe(wire, topic.name, limit=limit).topics) == [ErrorCode.NONE]
