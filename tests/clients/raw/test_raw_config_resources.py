"""Configuration of groups, loggers and client metrics, and ListConfigResources."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
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
    SESSION,
    SET,
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

    @pytest.mark.parametrize("kind", [0, 1, 77])
    def test_kind_is_unsupported_when_unknown(self, wire: Wire, kind: int) -> None:
        assert self.listed(wire, [kind])[0] == ErrorCode.UNSUPPORTED_VERSION

    def test_groups_are_listed_when_they_have_settings_of_their_own(self, wire: Wire) -> None:
        group = new_name("group")
        change(wire, GROUP, group, (SESSION, SET, "50000"))
        eventually(lambda: (GROUP, group) in self.listed(wire, [GROUP])[1], True)
        change(wire, GROUP, group, (SESSION, DELETE, None))
        eventually(lambda: (GROUP, group) in self.listed(wire, [GROUP])[1], False)
