"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs of topics and brokers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import incremental_alter_configs
from penstock.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.clients.raw.configuring import (
    APPEND,
    BOOLEAN,
    BROKER,
    DEFAULT,
    DELETE,
    DOUBLE,
    DYNAMIC_BROKER,
    DYNAMIC_DEFAULT_BROKER,
    DYNAMIC_TOPIC,
    INT,
    LIST,
    LONG,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    config,
    describe,
    replace,
    value_of,
)
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
)


class TestDescribe:
    @pytest.mark.parametrize("version", range(1, 5))
    def test_every_config_of_a_topic_is_described_when_no_key_is_named(self, wire: Wire, version: int) -> None:
        topic = create_topic(wire, configs={"retention.ms": "4242"})
        answer = describe(wire, TOPIC, topic.name, version=version)
        assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, TOPIC, topic.name)
        rows = {row.name: row for row in answer.configs}
        assert (rows["retention.ms"].value, rows["retention.ms"].config_source) == ("4242", DYNAMIC_TOPIC)
        assert (rows["segment.bytes"].value, rows["segment.bytes"].config_source) == ("1073741824", DEFAULT)
        assert not rows["retention.ms"].read_only
        assert not rows["retention.ms"].is_sensitive
        if version >= 3:
            assert (rows["retention.ms"].config_type, rows["cleanup.policy"].config_type) == (LONG, LIST)
            assert (rows["preallocate"].config_type, rows["segment.bytes"].config_type) == (BOOLEAN, INT)
            assert rows["min.cleanable.dirty.ratio"].config_type == DOUBLE

    def test_topic_has_kafkas_configs_when_described(self, wire: Wire, topic: Topic) -> None:
        names = {row.name for row in describe(wire, TOPIC, topic.name).configs}
        assert {name for name in names if not name.startswith(("penstock.", "confluent."))} == {
            "cleanup.policy",
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "delete.retention.ms",
            "file.delete.delay.ms",
            "flush.messages",
            "flush.ms",
            "follower.replication.throttled.replicas",
            "index.interval.bytes",
            "leader.replication.throttled.replicas",
            "local.retention.bytes",
            "local.retention.ms",
            "max.compaction.lag.ms",
            "max.message.bytes",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "message.timestamp.type",
            "min.cleanable.dirty.ratio",
            "min.compaction.lag.ms",
            "min.insync.replicas",
            "preallocate",
            "remote.log.copy.disable",
            "remote.log.delete.on.disable",
            "remote.storage.enable",
            "retention.bytes",
            "retention.ms",
            "segment.bytes",
            "segment.index.bytes",
            "segment.jitter.ms",
            "segment.ms",
            "unclean.leader.election.enable",
        }

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("cleanup.policy", "delete"),
            ("compression.type", "producer"),
            ("max.message.bytes", "1048588"),
            ("retention.ms", "604800000"),
            ("retention.bytes", "-1"),
            ("flush.messages", "9223372036854775807"),
            ("message.timestamp.after.max.ms", "3600000"),
            ("min.cleanable.dirty.ratio", "0.5"),
            ("min.insync.replicas", "1"),
            ("unclean.leader.election.enable", "false"),
            ("segment.ms", "604800000"),
            ("delete.retention.ms", "86400000"),
            ("local.retention.bytes", "-2"),
            ("local.retention.ms", "-2"),
            ("remote.log.copy.disable", "false"),
            ("remote.log.delete.on.disable", "false"),
            ("remote.storage.enable", "false"),
        ],
    )
    def test_default_is_kafkas_when_nothing_is_set(self, wire: Wire, topic: Topic, key: str, value: str) -> None:
        assert config(wire, TOPIC, topic.name, key).value == value

    def test_only_named_keys_are_described_when_some_are(self, wire: Wire, topic: Topic) -> None:
        answer = describe(wire, TOPIC, topic.name, ["retention.ms", "no.such.key"])
        assert [row.name for row in answer.configs] == ["retention.ms"]

    @pytest.mark.parametrize("version", [1, 4])
    def test_every_config_is_described_when_the_list_is_empty(self, wire: Wire, topic: Topic, version: int) -> None:
        assert len(describe(wire, TOPIC, topic.name, [], version).configs) > 20

    def test_topic_is_unknown_when_absent(self, wire: Wire) -> None:
        assert error_of(describe(wire, TOPIC, new_name())) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_topic_is_invalid_when_its_name_is(self, wire: Wire) -> None:
        assert error_of(describe(wire, TOPIC, "a b")) == ErrorCode.INVALID_TOPIC_EXCEPTION

    @pytest.mark.parametrize(
        ("key", "layers"),
        [
            ("retention.ms", [("retention.ms", "4242", DYNAMIC_TOPIC)]),
            (
                "segment.bytes",
                [("segment.bytes", "2000000", DYNAMIC_TOPIC), ("log.segment.bytes", "1073741824", DEFAULT)],
            ),
            ("cleanup.policy", [("log.cleanup.policy", "delete", DEFAULT)]),
            ("max.message.bytes", [("message.max.bytes", "1048588", DEFAULT)]),
            ("segment.ms", []),
        ],
    )
    def test_synonyms_show_the_layers_when_asked_for(
        self, wire: Wire, key: str, layers: list[tuple[str, str, int]]
    ) -> None:
        topic = create_topic(wire, configs={"retention.ms": "4242", "segment.bytes": "2000000"})
        row = config(wire, TOPIC, topic.name, key, include_synonyms=True)
        assert [(one.name, one.value, one.source) for one in row.synonyms] == layers

    def test_synonyms_are_empty_when_not_asked_for(self, wire: Wire, topic: Topic) -> None:
        assert config(wire, TOPIC, topic.name, "retention.ms").synonyms == []

    def test_documentation_is_told_when_asked_for(self, wire: Wire, topic: Topic) -> None:
        assert config(wire, TOPIC, topic.name, "retention.ms", include_documentation=True).documentation
        assert config(wire, TOPIC, topic.name, "retention.ms").documentation is None

    def test_broker_is_described_when_named(self, wire: Wire, node: str) -> None:
        rows = {row.name: row for row in describe(wire, BROKER, node).configs}
        assert rows["log.retention.hours"].value == "168"
        assert rows["log.retention.hours"].config_source == DEFAULT
        assert rows["node.id"].read_only
        assert not rows["log.retention.ms"].read_only

    @pytest.mark.parametrize("name", ["4711", "abc"])
    def test_request_is_invalid_when_the_broker_is_another_or_no_number(self, wire: Wire, name: str) -> None:
        assert error_of(describe(wire, BROKER, name)) == ErrorCode.INVALID_REQUEST

    def test_cluster_wide_values_alone_are_described_when_no_broker_is_named(self, wire: Wire) -> None:
        answer = describe(wire, BROKER, "")
        assert answer.error_code == 0
        assert {row.config_source for row in answer.configs} <= {DYNAMIC_DEFAULT_BROKER}

    @pytest.mark.parametrize("kind", [0, 1, 3, 99])
    def test_request_is_invalid_when_the_resource_type_is_unknown(self, wire: Wire, kind: int) -> None:
        assert error_of(describe(wire, kind, "x")) == ErrorCode.INVALID_REQUEST

    def test_answers_keep_the_order_of_the_request_when_there_are_several(self, wire: Wire, topic: Topic) -> None:
        missing = new_name()
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=["segment.ms"])
            for name in (missing, topic.name)
        ]
        results = wire(DescribeConfigsRequest(resources=resources)).results
        assert {one.resource_name: error_of(one) for one in results} == {
            missing: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            topic.name: ErrorCode.NONE,
        }


class TestIncrementalAlter:
    def test_value_is_set_and_removed_when_changed_step_by_step(self, wire: Wire, topic: Topic) -> None:
        assert error_of(change(wire, TOPIC, topic.name, ("retention.ms", SET, "777"))) == ErrorCode.NONE
        assert error_of(change(wire, TOPIC, topic.name, ("segment.ms", SET, "888"))) == ErrorCode.NONE
        eventually(lambda: value_of(wire, topic, "retention.ms"), ("777", DYNAMIC_TOPIC))
        assert error_of(change(wire, TOPIC, topic.name, ("retention.ms", DELETE, None))) == ErrorCode.NONE
        eventually(lambda: value_of(wire, topic, "retention.ms"), ("604800000", DEFAULT))
        eventually(lambda: value_of(wire, topic, "segment.ms"), ("888", DYNAMIC_TOPIC))

    def test_list_grows_and_shrinks_when_appended_and_subtracted(self, wire: Wire, topic: Topic) -> None:
        change(wire, TOPIC, topic.name, ("cleanup.policy", APPEND, "compact"))
        eventually(lambda: value_of(wire, topic, "cleanup.policy"), ("delete,compact", DYNAMIC_TOPIC))
        change(wire, TOPIC, topic.name, ("cleanup.policy", APPEND, "compact"))
        eventually(lambda: value_of(wire, topic, "cleanup.policy"), ("delete,compact", DYNAMIC_TOPIC))
        change(wire, TOPIC, topic.name, ("cleanup.policy", SUBTRACT, "delete"))
        eventually(lambda: value_of(wire, topic, "cleanup.policy"), ("compact", DYNAMIC_TOPIC))

    def test_config_is_invalid_when_appended_to_what_is_no_list(self, wire: Wire, topic: Topic) -> None:
        answer = change(wire, TOPIC, topic.name, ("retention.ms", APPEND, "1"))
        assert error_of(answer) == ErrorCode.INVALID_CONFIG

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("retention.ms", "soon"),
            ("no.such.key", "1"),
            ("segment.bytes", "1"),
            ("cleanup.policy", "shred"),
            ("remote.storage.enable", "true"),
            ("remote.storage.enable", "maybe"),
            ("local.retention.ms", "-3"),
        ],
    )
    def test_config_is_invalid_when_key_or_value_is_not_allowed(
        self, wire: Wire, topic: Topic, key: str, value: str
    ) -> None:
        answer = change(wire, TOPIC, topic.name, (key, SET, value))
        assert error_of(answer) == ErrorCode.INVALID_CONFIG
        assert answer.error_message

    def test_neutral_values_are_kept_when_tiering_keys_are_written_out(self, wire: Wire, topic: Topic) -> None:
        """As tools do that copy every setting of a topic."""
        neutral = {"remote.storage.enable": "false", "local.retention.ms": "-2", "local.retention.bytes": "-2"}
        changes = [(key, SET, value) for key, value in neutral.items()]
        assert error_of(change(wire, TOPIC, topic.name, *changes)) == ErrorCode.NONE
        for key, value in neutral.items():
            eventually(partial(value_of, wire, topic, key), (value, DYNAMIC_TOPIC))
        copied = create_topic(wire, configs={**neutral, "remote.log.copy.disable": "false"})
        assert value_of(wire, copied, "remote.log.copy.disable") == ("false", DYNAMIC_TOPIC)

    def test_nothing_changes_when_one_of_several_is_invalid(self, wire: Wire, topic: Topic) -> None:
        change(wire, TOPIC, topic.name, ("retention.ms", SET, "777"), ("segment.bytes", SET, "1"))
        assert value_of(wire, topic, "retention.ms")[1] == DEFAULT

    @pytest.mark.parametrize(
        ("operations", "error"),
        [
            ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.INVALID_REQUEST),
            ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST),
        ],
        ids=["key twice", "null value"],
    )
    def test_request_is_invalid_when_it_makes_no_sense(
        self, wire: Wire, topic: Topic, operations: list[tuple[str, int, str | None]], error: ErrorCode
    ) -> None:
        assert error_of(change(wire, TOPIC, topic.name, *operations)) == error

    def test_request_is_refused_when_the_operation_is_unknown(self, wire: Wire, topic: Topic) -> None:
        """Kafka answers UNKNOWN_SERVER_ERROR here; any refusal will do."""
        assert error_of(change(wire, TOPIC, topic.name, ("retention.ms", 9, "1"))) != ErrorCode.NONE

    def test_nothing_changes_when_only_validated(self, wire: Wire, topic: Topic) -> None:
        answer = change(wire, TOPIC, topic.name, ("retention.ms", SET, "777"), validate_only=True)
        assert error_of(answer) == ErrorCode.NONE
        assert value_of(wire, topic, "retention.ms")[1] == DEFAULT
        bad = change(wire, TOPIC, topic.name, ("retention.ms", SET, "x"), validate_only=True)
        assert error_of(bad) == ErrorCode.INVALID_CONFIG

    def test_topic_is_unknown_when_absent(self, wire: Wire) -> None:
        answer = change(wire, TOPIC, new_name(), ("retention.ms", SET, "777"))
        assert error_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_request_is_invalid_when_a_resource_is_named_twice(self, wire: Wire, topic: Topic) -> None:
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC, resource_name=topic.name, configs=[]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource] * 2)
        assert set(errors_of(wire(request).responses)) == {ErrorCode.INVALID_REQUEST}

    def test_new_limit_holds_when_a_topic_is_changed(self, wire: Wire, topic: Topic) -> None:
        batch = build_batch([b"x" * 500])
        assert error_of(produce(wire, topic, batch)) == ErrorCode.NONE
        change(wire, TOPIC, topic.name, ("max.message.bytes", SET, "200"))
        eventually(lambda: error_of(produce(wire, topic, batch)), ErrorCode.MESSAGE_TOO_LARGE)
        change(wire, TOPIC, topic.name, ("max.message.bytes", DELETE, None))
        eventually(lambda: error_of(produce(wire, topic, batch)), ErrorCode.NONE)


class TestBrokerConfigs:
    @pytest.fixture(autouse=True)
    def clean(self, wire: Wire, node: str) -> Iterator[None]:
        yield
        for name in (node, ""):
            change(wire, BROKER, name, ("log.retention.ms", DELETE, None))

    @pytest.mark.parametrize(("own", "source"), [(True, DYNAMIC_BROKER), (False, DYNAMIC_DEFAULT_BROKER)])
    def test_value_is_changed_when_dynamic(self, wire: Wire, node: str, own: bool, source: int) -> None:
        answer = change(wire, BROKER, node if own else "", ("log.retention.ms", SET, "123456789"))
        assert error_of(answer) == ErrorCode.NONE

        def current() -> tuple[str, int]:
            row = config(wire, BROKER, node, "log.retention.ms")
            return row.value, row.config_source

        eventually(current, ("123456789", source))

    def test_topics_follow_when_the_default_of_the_brokers_changes(self, wire: Wire, topic: Topic) -> None:
        change(wire, BROKER, "", ("log.retention.ms", SET, "123456789"))
        eventually(lambda: value_of(wire, topic, "retention.ms"), ("123456789", DYNAMIC_DEFAULT_BROKER))

    @pytest.mark.parametrize("cluster_wide", [False, True])
    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("node.id", "7"),
            ("log.dirs", "/x"),
            ("num.partitions", "7"),
            ("auto.create.topics.enable", "false"),
            ("log.retention.ms", "soon"),
            ("message.max.bytes", "-5"),
        ],
    )
    def test_request_is_invalid_when_the_config_is_not_dynamic_or_the_value_not_allowed(
        self, wire: Wire, node: str, key: str, value: str, cluster_wide: bool
    ) -> None:
        answer = change(wire, BROKER, "" if cluster_wide else node, (key, SET, value))
        assert error_of(answer) == ErrorCode.INVALID_REQUEST
        assert answer.error_message

    def test_broker_is_unknown_when_another_is_named(self, wire: Wire) -> None:
        answer = change(wire, BROKER, "4711", ("log.retention.ms", SET, "1"))
        assert error_of(answer) == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("kind", [0, 1, 3, 99])
def test_request_is_invalid_when_the_type_of_the_changed_resource_is_unknown(wire: Wire, kind: int) -> None:
    assert error_of(change(wire, kind, "x", ("a", SET, "b"))) == ErrorCode.INVALID_REQUEST


class TestAlter:
    @pytest.mark.parametrize("version", range(3))
    def test_other_values_go_when_the_configs_are_replaced(self, wire: Wire, version: int) -> None:
        topic = create_topic(wire, configs={"retention.ms": "1000", "segment.ms": "2000"})
        answer = replace(wire, TOPIC, topic.name, {"segment.ms": "3000"}, version)
        assert (answer.error_code, answer.resource_type, answer.resource_name) == (0, TOPIC, topic.name)
        eventually(lambda: value_of(wire, topic, "segment.ms"), ("3000", DYNAMIC_TOPIC))
        eventually(lambda: value_of(wire, topic, "retention.ms"), ("604800000", DEFAULT))

    def test_config_is_invalid_when_the_value_is_not_allowed(self, wire: Wire, topic: Topic) -> None:
        assert error_of(replace(wire, TOPIC, topic.name, {"segment.ms": "x"})) == ErrorCode.INVALID_CONFIG

    def test_request_is_invalid_when_a_value_is_null(self, wire: Wire, topic: Topic) -> None:
        assert error_of(replace(wire, TOPIC, topic.name, {"segment.ms": None})) == ErrorCode.INVALID_REQUEST

    def test_topic_is_unknown_when_absent(self, wire: Wire) -> None:
        assert error_of(replace(wire, TOPIC, new_name(), {})) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
