"""Kafka's tools for access rules, leaders, reassignments, quotas and passwords, on one broker without security."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.conftest import KafkaTool, MakeTopic

RULE = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")


@pytest.mark.parametrize("arguments", [("--list",), ("--add", *RULE), ("--remove", "--force", *RULE)])
def test_acl_tool_says_that_security_is_disabled_when_there_is_no_authorizer(
    kafka_tool: KafkaTool, arguments: tuple[str, ...]
) -> None:
    refused = kafka_tool("kafka-acls", *arguments, must_succeed=False)
    assert refused.return_code == 1
    assert "SecurityDisabledException: No Authorizer is configured" in refused.output


def test_leader_is_there_already_when_one_is_elected(kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str) -> None:
    make_topic(topic, 2)
    for election_type in ("preferred", "unclean"):
        arguments = ("--election-type", election_type, "--topic", topic, "--partition", "1")
        assert kafka_tool("kafka-leader-election", *arguments).lines == [
            f"Valid replica already elected for partitions {topic}-1"
        ]
    assert kafka_tool("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions").lines == []


def test_election_fails_when_the_topic_does_not_exist(kafka_tool: KafkaTool, topic: str) -> None:
    arguments = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    refused = kafka_tool("kafka-leader-election", *arguments, must_succeed=False)
    assert refused.return_code == 1
    assert f"UnknownTopicOrPartitionException: No such topic as {topic[:50]}" in refused.output


def test_reassignment_is_complete_at_once_when_the_replicas_stay(
    kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    make_topic(topic)
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    arguments = ("--reassignment-json-file", str(plan))
    started = kafka_tool("kafka-reassign-partitions", *arguments, "--execute").stdout
    assert f"Successfully started partition reassignment for {topic}-0" in started
    assert kafka_tool("kafka-reassign-partitions", "--list").lines == ["No partition reassignments found."]
    verified = kafka_tool("kafka-reassign-partitions", *arguments, "--verify").stdout
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    cancelled = kafka_tool("kafka-reassign-partitions", *arguments, "--cancel").stdout
    assert "None of the specified partition reassignments are active." in cancelled


@pytest.mark.parametrize("entity_type", ["users", "clients", "ips", "client-metrics"])
def test_nothing_is_described_when_nobody_has_set_anything(kafka_tool: KafkaTool, entity_type: str) -> None:
    assert kafka_tool("kafka-configs", "--describe", "--entity-type", entity_type).lines == []


def test_user_without_settings_is_described_as_nothing_when_named(kafka_tool: KafkaTool) -> None:
    assert kafka_tool("kafka-configs", "--describe", "--entity-type", "users", "--entity-name", "alice").lines == []


def test_no_subscription_is_listed_when_nobody_wants_metrics_of_clients(kafka_tool: KafkaTool) -> None:
    assert kafka_tool("kafka-client-metrics", "--list").lines == []
    assert kafka_tool("kafka-client-metrics", "--describe").lines == []


@pytest.mark.parametrize(
    ("entity", "key", "other"),
    [
        (("--entity-type", "users", "--entity-name", "carol"), "producer_byte_rate", "request_percentage"),
        (("--entity-type", "users", "--entity-default"), "consumer_byte_rate", "controller_mutation_rate"),
        (("--entity-type", "clients", "--entity-name", "app"), "producer_byte_rate", "consumer_byte_rate"),
        (
            ("--entity-type", "users", "--entity-name", "carol", "--entity-type", "clients", "--entity-default"),
            "producer_byte_rate",
            "consumer_byte_rate",
        ),
    ],
)
def test_quotas_are_described_when_set_and_gone_when_deleted(
    kafka_tool: KafkaTool, entity: tuple[str, ...], key: str, other: str
) -> None:
    """Far above what any test does: other tests use the same broker."""
    kafka_tool("kafka-configs", "--alter", *entity, "--add-config", f"{key}=1000000000,{other}=1000000")
    described = kafka_tool("kafka-configs", "--describe", *entity).stdout
    assert f"{key}=1.0E9" in described
    assert f"{other}=1000000.0" in described
    kafka_tool("kafka-configs", "--alter", *entity, "--delete-config", f"{key},{other}")
    assert key not in kafka_tool("kafka-configs", "--describe", *entity).stdout


def test_address_has_a_rate_of_connections_when_it_was_given_one(kafka_tool: KafkaTool) -> None:
    entity = ("--entity-type", "ips", "--entity-name", "192.0.2.55")
    kafka_tool("kafka-configs", "--alter", *entity, "--add-config", "connection_creation_rate=500")
    assert "connection_creation_rate=500.0" in kafka_tool("kafka-configs", "--describe", *entity).stdout
    kafka_tool("kafka-configs", "--alter", *entity, "--delete-config", "connection_creation_rate")
    assert "500" not in kafka_tool("kafka-configs", "--describe", *entity).stdout


def test_quota_is_refused_in_the_same_words_when_it_makes_no_sense(kafka_tool: KafkaTool) -> None:
    entity = ("--entity-type", "users", "--entity-name", "carol")
    refused = kafka_tool(
        "kafka-configs", "--alter", *entity, "--add-config", "producer_byte_rate=-5", must_succeed=False
    )
    assert "must be greater than 0" in refused.stdout + refused.stderr


@pytest.mark.parametrize(
    "asked",
    [
        ("--create", "--max-life-time-period", "-1"),
        ("--describe",),
        ("--renew", "--renew-time-period", "-1", "--hmac", "bm9uZQ=="),
    ],
    ids=["create", "describe", "renew"],
)
def test_token_is_refused_in_the_same_words_when_nobody_has_logged_in(
    kafka_tool: KafkaTool, asked: tuple[str, ...], tmp_path: Path
) -> None:
    nothing = tmp_path / "client.properties"
    nothing.touch()
    refused = kafka_tool("kafka-delegation-tokens", *asked, "--command-config", str(nothing), must_succeed=False)
    assert "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels" in refused.output
