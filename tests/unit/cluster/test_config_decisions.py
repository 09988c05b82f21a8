"""Codes and texts are those that a running Kafka 4.3.1 answered with."""

from __future__ import annotations

import pytest

from penstock.cluster.decisions.configs import (
    decide_alter_configs,
    decide_incremental_alter_configs,
)
from penstock.cluster.decisions.decision import FullChange, IncrementalChange, NewTopic, RequestedChange
from penstock.cluster.decisions.topics import decide_create_topics
from penstock.cluster.deltas.nodes import write_operations
from penstock.cluster.image import MetadataImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import CompareAndSet, Delete, check_operation
from penstock.core.config.resources import ConfigResourceType
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.harness import choices, cluster, config

TOPIC, BROKER, GROUP = ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP
SESSION = "consumer.session.timeout.ms"
SET, DELETE, APPEND, SUBTRACT = range(4)
Keys = list[tuple[str, int, str | None]]


def image() -> MetadataImage:
    topic = NewTopic("t", 1, 1, configs=(("retention.ms", "5"), ("segment.ms", "6")))
    return decide_create_topics(cluster(), config(), [topic], choices()).image


def incremental(resource_type: int, name: str, keys: Keys) -> IncrementalChange:
    return IncrementalChange(resource_type, name, tuple(RequestedChange(*key) for key in keys))


def test_topic_settings_change_key_by_key_when_altered_incrementally() -> None:
    changes: Keys = [("retention.ms", DELETE, None), ("segment.ms", SET, "7"), ("cleanup.policy", APPEND, "compact")]
    decision = decide_incremental_alter_configs(image(), config(), [incremental(TOPIC, "t", changes)])
    assert decision.results == ((TOPIC, "t", ErrorCode.NONE, None),)
    assert decision.image.topics["t"].configs == {"segment.ms": "7", "cleanup.policy": "delete,compact"}
    (operation,) = write_operations(image(), decision.image)
    assert operation.path == "/config/topics/t"


def test_other_settings_go_back_to_default_when_altered_in_full() -> None:
    decision = decide_alter_configs(image(), config(), [FullChange(TOPIC, "t", (("retention.bytes", "100"),))])
    assert decision.results[0].code is ErrorCode.NONE
    assert decision.image.topics["t"].configs == {"retention.bytes": "100"}


def test_nothing_changes_when_a_request_only_validates() -> None:
    before = image()
    change = incremental(TOPIC, "t", [("retention.ms", SET, "9")])
    decision = decide_incremental_alter_configs(before, config(), [change], validate_only=True)
    assert (decision.image, decision.results[0].code) == (before, ErrorCode.NONE)
    full = decide_alter_configs(before, config(), [FullChange(TOPIC, "t", ())], validate_only=True)
    assert full.image is before


@pytest.mark.parametrize(
    ("resource_type", "name", "keys", "code", "message"),
    [
        (
            TOPIC,
            "t",
            [("retention.ms", APPEND, "5")],
            40,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (TOPIC, "t", [("foo", SET, "5")], 40, "Unknown topic config name: foo"),
        (TOPIC, "t", [("foo", APPEND, "a")], 40, "Can't APPEND to key foo because its type is not LIST."),
        (TOPIC, "t", [("retention.ms", SET, None)], 42, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("", SET, None)], 42, "Null value not supported for : "),
        (
            TOPIC,
            "t",
            [("retention.ms", SET, "1"), ("retention.ms", SET, "2")],
            42,
            "Error due to duplicate config keys",
        ),
        (TOPIC, "t", [("retention.ms", 9, "1")], 42, "Unknown operations type 9"),
        (TOPIC, "nope", [("retention.ms", SET, "5")], 3, "The topic 'nope' does not exist."),
        (TOPIC, "nope", [("foo", SET, "5")], 40, "Unknown topic config name: foo"),
        (TOPIC, "", [("retention.ms", SET, "5")], 42, "Default topic resources are not allowed."),
        (
            TOPIC,
            "a b",
            [("retention.ms", SET, "5")],
            17,
            (
                "Topic name is invalid: 'a b' contains one or more characters "
                "other than ASCII alphanumerics, '.', '_' and '-'"
            ),
        ),
        (99, "t", [("a", SET, "5")], 42, "Unknown resource type 99"),
        (0, "t", [("a", SET, "5")], 42, "Unknown resource type 0"),
        (
            BROKER,
            "1",
            [("log.retention.hours", SET, "5")],
            42,
            "Cannot update these configs dynamically: [log.retention.hours]",
        ),
        (BROKER, "x", [("log.retention.ms", SET, "5")], 42, "Node id must be an integer, but it is: x"),
        (
            BROKER,
            "1",
            [("log.retention.ms", SET, "x")],
            42,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            BROKER,
            "1",
            [("log.retention.ms", APPEND, "5")],
            40,
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (BROKER, "1", [("foo.baz", APPEND, "x")], 40, "Unknown config name: foo.baz"),
        (
            BROKER,
            "1",
            [("message.max.bytes", SET, "-3")],
            42,
            "Invalid value -3 for configuration message.max.bytes: Value must be at least 0",
        ),
        (BROKER, "1", [("message.max.bytes", SET, None)], 42, "Null value not supported for : message.max.bytes"),
    ],
)
def test_resource_is_refused_as_by_kafka_when_wrong(
    resource_type: int, name: str, keys: Keys, code: int, message: str
) -> None:
    before = image()
    decision = decide_incremental_alter_configs(before, config(), [incremental(resource_type, name, keys)])
    assert decision.results == ((resource_type, name, ErrorCode(code), message),)
    assert decision.image is before


@pytest.mark.parametrize(
    "keys",
    [
        [("foo", DELETE, None)],
        [("cleanup.policy", SUBTRACT, "delete")],
        [],
    ],
)
def test_resource_is_accepted_as_by_kafka_when_nothing_is_wrong(keys: Keys) -> None:
    decision = decide_incremental_alter_configs(image(), config(), [incremental(TOPIC, "t", keys)])
    assert decision.results[0].code is ErrorCode.NONE


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (FullChange(TOPIC, "t", (("retention.bytes", None),)), 42, "Null value not supported for : retention.bytes"),
        (FullChange(TOPIC, "t", (("x", "100"),)), 40, "Unknown topic config name: x"),
        (
            FullChange(TOPIC, "t", (("retention.ms", "1"), ("retention.ms", "2"))),
            42,
            "Error due to duplicate config keys",
        ),
        (FullChange(8, "1", (("a", "INFO"),)), 42, "Unknown resource type 8"),
        (FullChange(TOPIC, "nope", (("retention.ms", "1"),)), 3, "The topic 'nope' does not exist."),
        (
            FullChange(BROKER, "1", (("log.retention.hours", "1"),)),
            42,
            "Cannot update these configs dynamically: [log.retention.hours]",
        ),
    ],
)
def test_full_change_is_refused_as_by_kafka_when_wrong(change: FullChange, code: int, message: str) -> None:
    (result,) = decide_alter_configs(image(), config(), [change]).results
    assert (int(result.code), result.message) == (code, message)


def test_broker_settings_are_stored_per_broker_and_for_all_when_dynamic() -> None:
    changes = [
        incremental(BROKER, "1", [("log.retention.ms", SET, "5"), ("my.plugin", SET, "x")]),
        incremental(BROKER, "", [("log.retention.ms", SET, "7")]),
    ]
    decision = decide_incremental_alter_configs(image(), config(), changes)
    assert [result.code for result in decision.results] == [ErrorCode.NONE, ErrorCode.NONE]
    assert decision.image.broker_configs == {1: {"log.retention.ms": "5", "my.plugin": "x"}}
    assert decision.image.default_broker_config == {"log.retention.ms": "7"}
    assert [each.path for each in write_operations(image(), decision.image)] == [
        "/config/brokers/1",
        "/config/brokers/<default>",
    ]


def test_both_are_refused_when_a_resource_appears_twice() -> None:
    change = incremental(TOPIC, "t", [("retention.ms", SET, "9")])
    decision = decide_incremental_alter_configs(image(), config(), [change, change])
    assert [(int(result.code), result.message) for result in decision.results] == [
        (42, "Each resource must appear at most once.")
    ] * 2


def test_others_go_through_when_one_resource_is_bad() -> None:
    changes = [incremental(TOPIC, "nope", []), incremental(TOPIC, "t", [("retention.ms", SET, "9")])]
    decision = decide_incremental_alter_configs(image(), config(), changes)
    assert [int(result.code) for result in decision.results] == [3, 0]
    assert decision.image.topics["t"].configs["retention.ms"] == "9"


def test_settings_are_refused_when_they_would_not_fit_the_store() -> None:
    replicas = ",".join(f"{index}:1" for index in range(9_000))
    keys: Keys = [("leader.replication.throttled.replicas", SET, replicas)]
    assert decide_incremental_alter_configs(image(), config(), [incremental(TOPIC, "t", keys)]).results[0].code == 0
    huge: Keys = [(f"my.key.{index}", SET, "x" * 99_000) for index in range(11)]
    (result,) = decide_incremental_alter_configs(image(), config(), [incremental(BROKER, "1", huge)]).results
    assert result.code is ErrorCode.INVALID_CONFIG


# ------------------------------------------------------------------------------------------------------ groups


def group_image(group: str = "g", **settings: str) -> MetadataImage:
    keys: Keys = [(name, SET, value) for name, value in (settings or {SESSION: "50000"}).items()]
    return decide_incremental_alter_configs(cluster(), config(), [incremental(GROUP, group, keys)]).image


@pytest.mark.parametrize("group", ["g", "../x/ y%2F.", ".", "grüße"])
def test_group_settings_are_stored_under_a_name_of_one_part_when_the_group_has_any(group: str) -> None:
    change = incremental(GROUP, group, [(SESSION, SET, "50000")])
    decision = decide_incremental_alter_configs(cluster(), config(), [change])
    assert decision.image.group_configs == {group: {SESSION: "50000"}}
    (operation,) = write_operations(cluster(), decision.image)
    check_operation(operation)
    assert znodes.group_of_config(operation.path.removeprefix("/config/groups/")) == group


def test_group_setting_is_written_over_when_there_is_one() -> None:
    change = FullChange(GROUP, "g", (("consumer.heartbeat.interval.ms", "6000"),))
    decision = decide_alter_configs(group_image(), config(), [change])
    assert decision.image.group_configs == {"g": {"consumer.heartbeat.interval.ms": "6000"}}
    assert [type(operation) for operation in write_operations(group_image(), decision.image)] == [CompareAndSet]


def test_nothing_is_left_when_a_group_loses_its_last_setting() -> None:
    change = incremental(GROUP, "g", [(SESSION, DELETE, None)])
    decision = decide_incremental_alter_configs(group_image(), config(), [change])
    assert decision.image.group_configs == {}
    assert write_operations(group_image(), decision.image) == [Delete("/config/groups/g")]
    again = decide_incremental_alter_configs(decision.image, config(), [change])
    assert (again.results[0].code, write_operations(decision.image, again.image)) == (ErrorCode.NONE, [])


@pytest.mark.parametrize(
    ("group", "key", "code", "message"),
    [
        ("", SESSION, 42, "Default group resources are not allowed."),
        ("g" * 2_000, SESSION, 42, "the group's name is too long to have settings"),
        ("g", "retention.ms", 40, "Unknown group config name: retention.ms"),
    ],
)
def test_group_settings_are_refused_when_name_or_key_is_wrong(group: str, key: str, code: int, message: str) -> None:
    change = incremental(GROUP, group, [(key, SET, "50000")])
    decision = decide_incremental_alter_configs(cluster(), config(), [change])
    assert decision.results == ((GROUP, group, code, message),)
    assert decision.image == cluster()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("clients", "Client metrics subscriptions are not served: this broker does not collect metrics of clients."),
        ("", "Subscription name can't be empty"),
    ],
)
def test_client_metrics_are_refused_with_the_reason_when_changed(name: str, message: str) -> None:
    kind = ConfigResourceType.CLIENT_METRICS
    change = incremental(kind, name, [("interval.ms", SET, "1000")])
    decision = decide_incremental_alter_configs(cluster(), config(), [change])
    assert decision.results == ((kind, name, ErrorCode.INVALID_REQUEST, message),)
    full = decide_alter_configs(cluster(), config(), [FullChange(kind, name, (("interval.ms", "1000"),))])
    assert full.results == decision.results
