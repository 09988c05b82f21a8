"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.clients.raw.wire import (
    Topic,
    Wire,
    build_batch,
    create_topic,
    error_of,
    errors_of,
    eventually,
    new_name,
    produce,
    produce_ok,
    wait_for_leaders,
)

INVALID_NAMES = ["", ".", "..", "a b", "a/b", "ä", "x" * 250]


def creatable(
    name: str, partitions: int = 1, factor: int = 1, configs: Mapping[str, str | None] | None = None
) -> CreatableTopic:
    rows = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, configs=rows)


def create(wire: Wire, *topics: CreatableTopic, version: int | None = None, validate_only: bool = False) -> Any:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
    return wire(request, version).topics


def metadata_error(wire: Wire, name: str) -> ErrorCode:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return error_of(wire(request).topics[0])


def broker_id(wire: Wire) -> int:
    return int(wire(MetadataRequest(topics=[])).brokers[0].node_id)


class TestCreateTopics:
    @pytest.mark.parametrize("version", range(2, 8))
    def test_topic_is_created_when_asked_in_any_version(self, wire: Wire, version: int) -> None:
        name = new_name()
        (result,) = create(wire, creatable(name, 3), version=version)
        assert (result.error_code, result.name, result.error_message) == (0, name, None)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            assert {one.name for one in result.configs} >= {"cleanup.policy", "retention.ms", "max.message.bytes"}
        assert (result.topic_id != bytes(16)) == (version >= 7)
        wait_for_leaders(wire, name, 3)

    def test_broker_defaults_are_used_when_counts_are_minus_one(self, wire: Wire) -> None:
        (result,) = create(wire, creatable(new_name(), -1, -1))
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 1, 1)

    def test_configs_are_told_with_their_source_when_created(self, wire: Wire) -> None:
        (result,) = create(wire, creatable(new_name(), configs={"retention.ms": "1234567"}))
        configs = {one.name: one for one in result.configs}
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1234567", 1)
        assert configs["cleanup.policy"].config_source == 5
        assert not configs["retention.ms"].read_only
        assert not configs["retention.ms"].is_sensitive

    def test_topic_exists_already_when_created_twice(self, wire: Wire, topic: Topic) -> None:
        (result,) = create(wire, creatable(topic.name))
        assert error_of(result) == ErrorCode.TOPIC_ALREADY_EXISTS
        assert result.error_message
        assert result.topic_id == bytes(16)

    def test_request_is_invalid_for_a_topic_when_it_is_named_twice(self, wire: Wire) -> None:
        name, other = new_name(), new_name()
        results = create(wire, creatable(name), creatable(name), creatable(other))
        assert {one.name: error_of(one) for one in results} == {name: ErrorCode.INVALID_REQUEST, other: ErrorCode.NONE}

    @pytest.mark.parametrize("name", INVALID_NAMES)
    def test_topic_is_refused_when_its_name_is_invalid(self, wire: Wire, name: str) -> None:
        (result,) = create(wire, creatable(name))
        assert error_of(result) == ErrorCode.INVALID_TOPIC_EXCEPTION

    @pytest.mark.parametrize("name", ["a" * 249, "A.b_c-1", "__mine"])
    def test_topic_is_created_when_its_name_is_unusual_but_valid(self, wire: Wire, name: str) -> None:
        unique = new_name()
        wanted = (name[: 249 - len(unique)] if len(name) == 249 else name) + unique
        (result,) = create(wire, creatable(wanted))
        assert error_of(result) == ErrorCode.NONE

    def test_topic_is_refused_when_its_metric_name_collides(self, wire: Wire) -> None:
        """Names that differ only in dots and underscores would share their metrics."""
        stem = new_name()
        create(wire, creatable(f"{stem}.a_b"))
        wait_for_leaders(wire, f"{stem}.a_b", 1)
        (result,) = create(wire, creatable(f"{stem}_a.b"))
        assert error_of(result) == ErrorCode.INVALID_TOPIC_EXCEPTION

    @pytest.mark.parametrize("partitions", [0, -2])
    def test_partitions_are_invalid_when_not_positive(self, wire: Wire, partitions: int) -> None:
        (result,) = create(wire, creatable(new_name(), partitions))
        assert error_of(result) == ErrorCode.INVALID_PARTITIONS

    @pytest.mark.parametrize("factor", [0, -2, 2, 32767])
    def test_replication_factor_is_invalid_when_there_are_not_that_many_brokers(self, wire: Wire, factor: int) -> None:
        (result,) = create(wire, creatable(new_name(), 1, factor))
        assert error_of(result) == ErrorCode.INVALID_REPLICATION_FACTOR

    @pytest.mark.parametrize(
        "configs",
        [
            {"no.such.config": "1"},
            {"retention.ms": "soon"},
            {"retention.ms": "-2"},
            {"cleanup.policy": "shred"},
            {"segment.bytes": "10"},
            {"compression.type": "rar"},
            {"max.message.bytes": "-1"},
            {"min.insync.replicas": "0"},
            {"message.timestamp.type": "Never"},
            {"preallocate": "perhaps"},
            {"retention.ms": None},
        ],
        ids=lambda configs: "-".join(f"{key}={value}" for key, value in configs.items()),
    )
    def test_config_is_invalid_when_key_or_value_is_not_allowed(
        self, wire: Wire, configs: dict[str, str | None]
    ) -> None:
        name = new_name()
        (result,) = create(wire, creatable(name, configs=configs))
        assert error_of(result) == ErrorCode.INVALID_CONFIG
        assert result.error_message
        assert metadata_error(wire, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_nothing_is_created_when_only_validated(self, wire: Wire, topic: Topic) -> None:
        name = new_name()
        results = create(wire, creatable(name, 2), creatable(topic.name), validate_only=True)
        assert {one.name: error_of(one) for one in results} == {
            name: ErrorCode.NONE,
            topic.name: ErrorCode.TOPIC_ALREADY_EXISTS,
        }
        assert metadata_error(wire, name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_others_are_created_when_one_is_refused(self, wire: Wire) -> None:
        good = new_name()
        results = create(wire, creatable("a b"), creatable(good))
        assert {one.name: error_of(one) for one in results} == {
            "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            good: ErrorCode.NONE,
        }

    def test_answer_is_empty_when_no_topic_is_named(self, wire: Wire) -> None:
        assert create(wire) == []


class TestAssignments:
    def create(self, wire: Wire, assignments: Mapping[int, list[int]], partitions: int = -1, factor: int = -1) -> Any:
        wanted = creatable(new_name(), partitions, factor)
        wanted.assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
            for index, brokers in assignments.items()
        ]
        return create(wire, wanted)[0]

    def test_topic_is_created_when_every_partition_is_assigned(self, wire: Wire) -> None:
        node = broker_id(wire)
        result = self.create(wire, {0: [node], 1: [node]})
        assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)

    @pytest.mark.parametrize(
        ("partitions", "factor", "error"), [(2, -1, ErrorCode.INVALID_REQUEST), (-1, 1, ErrorCode.INVALID_REQUEST)]
    )
    def test_request_is_invalid_when_counts_are_given_as_well(
        self, wire: Wire, partitions: int, factor: int, error: ErrorCode
    ) -> None:
        assert error_of(self.create(wire, {0: [broker_id(wire)]}, partitions, factor)) == error

    def test_assignment_is_invalid_when_partitions_are_not_consecutive(self, wire: Wire) -> None:
        node = broker_id(wire)
        assert error_of(self.create(wire, {0: [node], 2: [node]})) == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    @pytest.mark.parametrize("brokers", [[], [4711], "twice"])
    def test_assignment_is_invalid_when_its_brokers_are(self, wire: Wire, brokers: list[int] | str) -> None:
        chosen = [broker_id(wire)] * 2 if isinstance(brokers, str) else brokers
        assert error_of(self.create(wire, {0: chosen})) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def delete(wire: Wire, *names: str, version: int = 6) -> Any:
    if version < 6:
        return wire(DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000), version).responses
    return wire(DeleteTopicsRequest(topics=[DeleteTopicState(name=one) for one in names], timeout_ms=10_000)).responses


class TestDeleteTopics:
    @pytest.mark.parametrize("version", range(1, 7))
    def test_topic_is_gone_when_deleted(self, wire: Wire, topic: Topic, version: int) -> None:
        (result,) = delete(wire, topic.name, version=version)
        assert (result.error_code, result.name) == (0, topic.name)
        assert result.topic_id == (topic.id if version >= 6 else bytes(16))
        eventually(lambda: metadata_error(wire, topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_topic_is_gone_when_deleted_by_id(self, wire: Wire, topic: Topic) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=topic.id)], timeout_ms=10_000)
        (result,) = wire(request).responses
        assert (result.error_code, result.name, result.topic_id) == (0, topic.name, topic.id)
        eventually(lambda: metadata_error(wire, topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def test_topic_is_unknown_when_absent(self, wire: Wire) -> None:
        (result,) = delete(wire, new_name())
        assert error_of(result) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_topic_id_is_unknown_when_nobody_has_it(self, wire: Wire) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=b"\x09" * 16)], timeout_ms=10_000)
        (result,) = wire(request).responses
        assert error_of(result) == ErrorCode.UNKNOWN_TOPIC_ID
        assert (result.name, result.topic_id) == (None, b"\x09" * 16)

    def test_request_is_invalid_when_name_and_id_are_both_given(self, wire: Wire, topic: Topic) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic.name, topic_id=topic.id)], timeout_ms=10_000)
        (result,) = wire(request).responses
        assert error_of(result) == ErrorCode.INVALID_REQUEST
        assert metadata_error(wire, topic.name) == ErrorCode.NONE

    def test_request_is_invalid_when_neither_name_nor_id_is_given(self, wire: Wire) -> None:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=None, topic_id=bytes(16))], timeout_ms=10_000)
        (result,) = wire(request).responses
        assert error_of(result) == ErrorCode.INVALID_REQUEST

    def test_request_is_invalid_for_a_topic_when_it_is_named_twice(self, wire: Wire, topic: Topic) -> None:
        results = delete(wire, topic.name, topic.name)
        assert set(errors_of(results)) == {ErrorCode.INVALID_REQUEST}
        assert metadata_error(wire, topic.name) == ErrorCode.NONE

    def test_records_are_gone_when_a_topic_is_created_anew_with_the_same_name(self, wire: Wire, topic: Topic) -> None:
        produce_ok(wire, topic, build_batch([b"old"] * 3))
        delete(wire, topic.name)
        (again,) = create(wire, creatable(topic.name))
        assert error_of(again) == ErrorCode.NONE
        assert again.topic_id != topic.id
        wait_for_leaders(wire, topic.name, 1)
        assert produce_ok(wire, Topic(topic.name, again.topic_id), build_batch()) == 0

    def test_topic_id_is_unknown_to_producers_when_the_topic_was_deleted(self, wire: Wire, topic: Topic) -> None:
        delete(wire, topic.name)
        eventually(lambda: error_of(produce(wire, topic, build_batch())), ErrorCode.UNKNOWN_TOPIC_ID)


def add_partitions(wire: Wire, name: str, count: int, *, version: int | None = None, **more: Any) -> Any:
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=more.get("assignments"))
    request = CreatePartitionsRequest(
        topics=[wanted], timeout_ms=10_000, validate_only=more.get("validate_only", False)
    )
    return wire(request, version).results[0]


class TestCreatePartitions:
    @pytest.mark.parametrize("version", range(4))
    def test_partitions_are_added_when_the_count_grows(self, wire: Wire, topic: Topic, version: int) -> None:
        produce_ok(wire, topic, build_batch())
        assert error_of(add_partitions(wire, topic.name, 3, version=version)) == ErrorCode.NONE
        wait_for_leaders(wire, topic.name, 3)
        assert produce_ok(wire, topic, build_batch()) == 1

    @pytest.mark.parametrize("count", [2, 1, 0, -1])
    def test_partitions_are_invalid_when_the_count_does_not_grow(self, wire: Wire, count: int) -> None:
        topic = create_topic(wire, partitions=2)
        assert error_of(add_partitions(wire, topic.name, count)) == ErrorCode.INVALID_PARTITIONS

    def test_topic_is_unknown_when_absent(self, wire: Wire) -> None:
        assert error_of(add_partitions(wire, new_name(), 3)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_nothing_is_added_when_only_validated(self, wire: Wire, topic: Topic) -> None:
        assert error_of(add_partitions(wire, topic.name, 3, validate_only=True)) == ErrorCode.NONE
        wait_for_leaders(wire, topic.name, 1)

    def test_partitions_are_added_when_assigned(self, wire: Wire, topic: Topic) -> None:
        assignments = [CreatePartitionsAssignment(broker_ids=[broker_id(wire)])] * 2
        assert error_of(add_partitions(wire, topic.name, 3, assignments=assignments)) == ErrorCode.NONE
        wait_for_leaders(wire, topic.name, 3)

    @pytest.mark.parametrize("case", ["unknown broker", "no broker", "one too few", "one broker twice"])
    def test_assignment_is_invalid_when_it_does_not_fit(self, wire: Wire, topic: Topic, case: str) -> None:
        node = broker_id(wire)
        brokers: dict[str, list[list[int]]] = {
            "unknown broker": [[4711], [4711]],
            "no broker": [[]],
            "one too few": [[node]],
            "one broker twice": [[node, node], [node]],
        }
        assignments = [CreatePartitionsAssignment(broker_ids=one) for one in brokers[case]]
        answer = add_partitions(wire, topic.name, 3, assignments=assignments)
        assert error_of(answer) == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    def test_request_is_invalid_when_a_topic_is_named_twice(self, wire: Wire, topic: Topic) -> None:
        twice = [CreatePartitionsTopic(name=topic.name, count=3, assignments=None)] * 2
        results = wire(CreatePartitionsRequest(topics=twice, timeout_ms=10_000)).results
        assert {error_of(one) for one in results} == {ErrorCode.INVALID_REQUEST}
