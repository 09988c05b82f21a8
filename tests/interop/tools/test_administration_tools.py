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
