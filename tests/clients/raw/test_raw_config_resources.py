"""Configuration of groups, loggers and client metrics, and ListConfigResources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import incremental_alter_configs
from penstock.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.clients.raw.configuring import (
    APPEND,
    ASSIGNMENT,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DEFAULT,
    DELETE,
    GROUP,
    GROUP_CONFIG,
    HEARTBEAT,
    INT,
    INTERVAL,
    LOGGER_CONFIG,
    SESSION,
    SET,
    SUBTRACT,
    TOPIC,
    change,
    config,
    describe,
    replace,
)
from tests.clients.raw.transactional import PASSING, find_coordinator
from tests.clients.raw.wire import (
    Topic,
    Wire,
    error_of,
    errors_of,
    eventually,
    new_name,
    until_settled,
)


class TestGroups:
    def values(self, wire: Wire, group: str) -> dict[str, tuple[str, int]]:
        rows = describe(wire, GROUP, group, [SESSION, HEARTBEAT, ASSIGNMENT]).configs
        return {row.name: (row.value, row.config_source) for row in rows}

    def test_defaults_are_the_brokers_when_nobody_knows_the_group(self, wire: Wire) -> None:
        assert self.values(wire, new_name("group")) == {
            SESSION: ("45000", DEFAULT),
            HEARTBEAT: ("5000", DEFAULT),
            ASSIGNMENT: ("1000", DEFAULT),
        }

    def test_broker_key_is_a_synonym_when_the_group_has_a_value_of_its_own(self, wire: Wire) -> None:
        group = new_name("group")
        assert error_of(change(wire, GROUP, group, (HEARTBEAT, SET, "6000"))) == ErrorCode.NONE
        eventually(lambda: self.values(wire, group)[HEARTBEAT], ("6000", GROUP_CONFIG))
        row = config(wire, GROUP, group, HEARTBEAT, include_synonyms=True, include_documentation=True)
        assert [(each.name, each.value, each.source) for each in row.synonyms] == [
            (HEARTBEAT, "6000", GROUP_CONFIG),
            ("group.consumer.heartbeat.interval.ms", "5000", DEFAULT),
        ]
        assert (row.config_type, row.read_only, row.is_sensitive) == (INT, False, False)
        assert row.documentation

    def test_value_is_the_brokers_again_when_deleted(self, wire: Wire) -> None:
        group = new_name("group/with .. odd % letters")
        change(wire, GROUP, group, (SESSION, SET, "50000"), (ASSIGNMENT, SET, "0"))
        eventually(lambda: self.values(wire, group)[SESSION], ("50000", GROUP_CONFIG))
        assert error_of(change(wire, GROUP, group, (SESSION, DELETE, None))) == ErrorCode.NONE
        eventually(lambda: self.values(wire, group)[SESSION], ("45000", DEFAULT))
        assert self.values(wire, group)[ASSIGNMENT] == ("0", GROUP_CONFIG)

    def test_other_values_go_when_the_configs_are_replaced(self, wire: Wire) -> None:
        group = new_name("group")
        change(wire, GROUP, group, (SESSION, SET, "50000"))
        assert error_of(replace(wire, GROUP, group, {HEARTBEAT: "7000"})) == ErrorCode.NONE
        eventually(lambda: self.values(wire, group)[HEARTBEAT], ("7000", GROUP_CONFIG))
        assert self.values(wire, group)[SESSION] == ("45000", DEFAULT)

    def test_nothing_changes_when_only_validated(self, wire: Wire) -> None:
        group = new_name("group")
        assert error_of(change(wire, GROUP, group, (SESSION, SET, "50000"), validate_only=True)) == ErrorCode.NONE
        assert self.values(wire, group)[SESSION] == ("45000", DEFAULT)

    @pytest.mark.parametrize(
        ("key", "value", "message"),
        [
            (SESSION, "44999", f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"),
            (SESSION, "60001", f"{SESSION} must be less than or equal to group.consumer.max.session.timeout.ms"),
            (SESSION, "soon", f"Invalid value soon for configuration {SESSION}: Not a number of type INT"),
            (SESSION, "0", f"Invalid value 0 for configuration {SESSION}: Value must be at least 1"),
            (HEARTBEAT, "4999", f"{HEARTBEAT} must be greater than or equal to group.consumer.min.{INTERVAL}"),
            (HEARTBEAT, "15001", f"{HEARTBEAT} must be less than or equal to group.consumer.max.{INTERVAL}"),
            (ASSIGNMENT, "15001", f"{ASSIGNMENT} must be less than or equal to group.consumer.max.{ASSIGNMENT[9:]}"),
            ("no.such.key", "1", "Unknown group config name: no.such.key"),
        ],
    )
    def test_config_is_invalid_when_the_broker_does_not_allow_the_value(
        self, wire: Wire, key: str, value: str, message: str
    ) -> None:
        answer = change(wire, GROUP, new_name("group"), (key, SET, value))
        assert (error_of(answer), answer.error_message) == (ErrorCode.INVALID_CONFIG, message)

    def test_config_is_invalid_when_appended_to(self, wire: Wire) -> None:
        assert error_of(change(wire, GROUP, new_name("group"), (SESSION, APPEND, "1"))) == ErrorCode.INVALID_CONFIG

    def test_request_is_invalid_when_the_group_has_no_name(self, wire: Wire) -> None:
        assert error_of(describe(wire, GROUP, "")) == ErrorCode.INVALID_REQUEST
        assert error_of(change(wire, GROUP, "", (SESSION, SET, "50000"))) == ErrorCode.INVALID_REQUEST

    def test_request_is_invalid_when_the_value_is_null(self, wire: Wire) -> None:
        assert error_of(change(wire, GROUP, new_name("group"), (SESSION, SET, None))) == ErrorCode.INVALID_REQUEST

    def test_members_are_told_another_interval_when_their_group_gets_one(self, wire: Wire, topic: Topic) -> None:
        group, member = new_name("group"), new_name("member")
        find_coordinator(wire, group, 0)
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            rebalance_timeout_ms=30_000,
            subscribed_topic_names=[topic.name],
            topic_partitions=[],
        )
        joined = until_settled(lambda: wire(request, 1), *PASSING)
        assert (joined.error_code, joined.heartbeat_interval_ms) == (0, 5000)
        change(wire, GROUP, group, (HEARTBEAT, SET, "8000"))
        beat = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=joined.member_epoch)
        eventually(lambda: wire(beat, 1).heartbeat_interval_ms, 8000)


@pytest.fixture
def some_logger(wire: Wire, node: str) -> Iterator[str]:
    """A logger that has others neither above nor below it, but for the root."""
    names = sorted(row.name for row in describe(wire, BROKER_LOGGER, node).configs)
    name = next(name for name in names if name.count(".") >= 2 and sum(each.startswith(name) for each in names) == 1)
    yield name
    change(wire, BROKER_LOGGER, node, (name, DELETE, None))
    change(wire, BROKER_LOGGER, node, ("root", SET, "INFO"))


class TestLoggers:
    def levels(self, wire: Wire, node: str, *names: str) -> list[str]:
        rows = {row.name: row.value for row in describe(wire, BROKER_LOGGER, node, list(names)).configs}
        return [rows[name] for name in names]

    def test_loggers_are_described_with_their_levels_when_the_broker_is_named(self, wire: Wire, node: str) -> None:
        answer = describe(wire, BROKER_LOGGER, node, include_synonyms=True, include_documentation=True)
        assert error_of(answer) == ErrorCode.NONE
        rows = {row.name: row for row in answer.configs}
        assert len(rows) > 10
        assert {row.value for row in rows.values()} <= {"TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"}
        root = rows["root"]
        assert (root.value, root.config_source, root.config_type, root.synonyms) == ("INFO", LOGGER_CONFIG, 0, [])
        assert (root.read_only, root.is_sensitive) == (False, False)

    @pytest.mark.parametrize("level", ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"])
    def test_level_is_the_new_one_when_changed(self, wire: Wire, node: str, some_logger: str, level: str) -> None:
        assert error_of(change(wire, BROKER_LOGGER, node, (some_logger, SET, level))) == ErrorCode.NONE
        assert self.levels(wire, node, some_logger, "root") == [level, "INFO"]

    def test_level_is_the_roots_again_when_deleted(self, wire: Wire, node: str, some_logger: str) -> None:
        change(wire, BROKER_LOGGER, node, (some_logger, SET, "ERROR"), ("root", SET, "WARN"))
        assert self.levels(wire, node, some_logger, "root") == ["ERROR", "WARN"]
        for _ in range(2):  # the second time there is nothing to delete, which is no mistake
            assert error_of(change(wire, BROKER_LOGGER, node, (some_logger, DELETE, None))) == ErrorCode.NONE
            assert self.levels(wire, node, some_logger, "root") == ["WARN", "WARN"]

    @pytest.mark.parametrize(
        ("operation", "value", "error"),
        [
            (SET, "debug", ErrorCode.INVALID_CONFIG),
            (SET, "WARNING", ErrorCode.INVALID_CONFIG),
            (SET, "OFF", ErrorCode.INVALID_CONFIG),
            (SET, "", ErrorCode.INVALID_CONFIG),
            (SET, None, ErrorCode.INVALID_REQUEST),
            (APPEND, "DEBUG", ErrorCode.INVALID_REQUEST),
            (SUBTRACT, "DEBUG", ErrorCode.INVALID_REQUEST),
        ],
    )
    def test_level_stays_when_the_change_is_not_possible(
        self, wire: Wire, node: str, some_logger: str, operation: int, value: str | None, error: ErrorCode
    ) -> None:
        answer = change(wire, BROKER_LOGGER, node, ("root", SET, "WARN"), (some_logger, operation, value))
        assert error_of(answer) == error
        assert answer.error_message
        assert self.levels(wire, node, some_logger, "root") == ["INFO", "INFO"]

    @pytest.mark.parametrize("name", ["no.such.logger", ""])
    @pytest.mark.parametrize(("operation", "value"), [(SET, "DEBUG"), (DELETE, None)])
    def test_config_is_invalid_when_the_logger_does_not_exist(
        self, wire: Wire, node: str, name: str, operation: int, value: str | None
    ) -> None:
        answer = change(wire, BROKER_LOGGER, node, (name, operation, value))
        assert (error_of(answer), answer.error_message) == (
            ErrorCode.INVALID_CONFIG,
            f"Logger {name} does not exist!",
        )

    def test_roots_level_stays_when_it_is_to_be_deleted(self, wire: Wire, node: str) -> None:
        assert error_of(change(wire, BROKER_LOGGER, node, ("root", DELETE, None))) == ErrorCode.INVALID_REQUEST
        assert self.levels(wire, node, "root") == ["INFO"]

    def test_nothing_changes_when_only_validated(self, wire: Wire, node: str, some_logger: str) -> None:
        answer = change(wire, BROKER_LOGGER, node, (some_logger, SET, "DEBUG"), validate_only=True)
        assert error_of(answer) == ErrorCode.NONE
        assert self.levels(wire, node, some_logger) == ["INFO"]

    @pytest.mark.parametrize("name", ["", "4711", "abc"])
    def test_request_is_invalid_when_the_resource_is_not_this_broker(self, wire: Wire, name: str) -> None:
        assert error_of(describe(wire, BROKER_LOGGER, name)) == ErrorCode.INVALID_REQUEST
        assert error_of(change(wire, BROKER_LOGGER, name, ("root", SET, "INFO"))) == ErrorCode.INVALID_REQUEST

    def test_request_is_invalid_when_levels_are_replaced_as_a_whole(self, wire: Wire, node: str) -> None:
        assert error_of(replace(wire, BROKER_LOGGER, node, {"root": "DEBUG"})) == ErrorCode.INVALID_REQUEST
        assert self.levels(wire, node, "root") == ["INFO"]

    def test_request_is_invalid_when_a_resource_is_named_twice(self, wire: Wire, node: str) -> None:
        row = incremental_alter_configs.AlterableConfig(name="root", config_operation=SET, value="WARN")
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=BROKER_LOGGER, resource_name=node, configs=[row]
        )
        request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource, resource])
        assert errors_of(wire(request).responses) == [ErrorCode.INVALID_REQUEST] * 2
        assert self.levels(wire, node, "root") == ["INFO"]


class TestClientMetrics:
    def test_request_is_invalid_when_the_subscription_has_no_name(self, wire: Wire) -> None:
        assert error_of(describe(wire, CLIENT_METRICS, "")) == ErrorCode.INVALID_REQUEST
        answer = change(wire, CLIENT_METRICS, "", ("interval.ms", SET, "1000"), validate_only=True)
        assert error_of(answer) == ErrorCode.INVALID_REQUEST

    def test_nothing_is_set_when_a_subscription_is_described(self, wire: Wire) -> None:
        answer = describe(wire, CLIENT_METRICS, new_name())
        assert error_of(answer) == ErrorCode.NONE
        assert {row.config_source for row in answer.configs} <= {DEFAULT}


class TestListConfigResources:
    def listed(self, wire: Wire, kinds: list[int], version: int = 1) -> tuple[ErrorCode, set[tuple[int, str]]]:
        answer = wire(ListConfigResourcesRequest(resource_types=kinds), version)
        return error_of(answer), {(one.resource_type, one.resource_name) for one in answer.config_resources}

    def test_topics_and_brokers_are_listed_when_asked_for(self, wire: Wire, topic: Topic, node: str) -> None:
        error, resources = self.listed(wire, [TOPIC, BROKER])
        assert error == ErrorCode.NONE
        assert resources >= {(TOPIC, topic.name), (BROKER, node)}

    def test_every_kind_is_listed_when_none_is_named(self, wire: Wire, topic: Topic, node: str) -> None:
        error, resources = self.listed(wire, [])
        assert error == ErrorCode.NONE
        assert resources >= {(TOPIC, topic.name), (BROKER, node), (BROKER_LOGGER, node)}

    def test_only_client_metrics_are_listed_when_the_version_is_0(self, wire: Wire, topic: Topic) -> None:
        error, resources = self.listed(wire, [], 0)
        assert error == ErrorCode.NONE
        assert {kind for kind, _ in resources} <= {CLIENT_METRICS}

    def test_no_client_metrics_are_listed_when_there_is_no_subscription(self, wire: Wire) -> None:
        assert self.listed(wire, [CLIENT_METRICS]) == (ErrorCode.NONE, set())

    @pytest.mark.parametrize("kind", [0, 1, 77])
    def test_kind_is_unsupported_when_unknown(self, wire: Wire, kind: int) -> None:
        assert self.listed(wire, [kind])[0] == ErrorCode.UNSUPPORTED_VERSION

    def test_groups_are_listed_when_they_have_settings_of_their_own(self, wire: Wire) -> None:
        group = new_name("group")
        change(wire, GROUP, group, (SESSION, SET, "50000"))
        eventually(lambda: (GROUP, group) in self.listed(wire, [GROUP])[1], True)
        change(wire, GROUP, group, (SESSION, DELETE, None))
        eventually(lambda: (GROUP, group) in self.listed(wire, [GROUP])[1], False)
