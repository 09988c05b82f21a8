from __future__ import annotations

import re

import pytest

from tests.interop.conftest import KafkaTool, MakeTopic


def test_topic_is_listed_and_described_when_created(kafka_tool: KafkaTool, topic: str) -> None:
    created = kafka_tool("kafka-topics", "--create", "--topic", topic, "--partitions", "3", "--replication-factor", "1")
    assert f"Created topic {topic}." in created.stdout
    assert topic in kafka_tool("kafka-topics", "--list").lines

    described = kafka_tool("kafka-topics", "--describe", "--topic", topic).lines
    assert re.search(rf"Topic: {topic}\s+TopicId: \S{{22}}\s+PartitionCount: 3\s+ReplicationFactor: 1\b", described[0])
    assert [
        re.search(r"Partition: (\d+)\s+Leader: 1\s+Replicas: 1\s+Isr: 1", line) is not None for line in described[1:]
    ] == [
        True,
        True,
        True,
    ]


def test_topic_has_its_own_settings_when_created_with_them(kafka_tool: KafkaTool, topic: str) -> None:
    settings = ("--config", "retention.ms=3600000", "--config", "cleanup.policy=delete")
    kafka_tool("kafka-topics", "--create", "--topic", topic, *settings)
    described = kafka_tool("kafka-topics", "--describe", "--topic", topic).lines[0]
    assert "retention.ms=3600000" in described
    assert "cleanup.policy=delete" in described


def test_creation_is_refused_when_the_topic_exists(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-topics", "--create", "--topic", topic)
    refused = kafka_tool("kafka-topics", "--create", "--topic", topic, must_succeed=False)
    assert refused.return_code != 0
    assert f"Topic '{topic}' already exists." in refused.output
    kafka_tool("kafka-topics", "--create", "--if-not-exists", "--topic", topic)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--config", "no.such.setting=1"), "Unknown topic config name: no.such.setting"),
        (("--replication-factor", "2"), "InvalidReplicationFactorException"),
    ],
)
def test_creation_is_refused_when_an_argument_is_wrong(
    kafka_tool: KafkaTool, topic: str, arguments: tuple[str, ...], error: str
) -> None:
    refused = kafka_tool("kafka-topics", "--create", "--topic", topic, *arguments, must_succeed=False)
    assert refused.return_code != 0
    assert error in refused.output
    assert topic not in kafka_tool("kafka-topics", "--list").lines


def test_creation_is_refused_when_the_name_is_invalid(kafka_tool: KafkaTool) -> None:
    refused = kafka_tool("kafka-topics", "--create", "--topic", "a topic", must_succeed=False)
    assert refused.return_code != 0
    assert "InvalidTopicException" in refused.output


def test_topic_has_more_partitions_when_altered(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-topics", "--create", "--topic", topic, "--partitions", "1")
    kafka_tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "4")
    assert "PartitionCount: 4" in kafka_tool("kafka-topics", "--describe", "--topic", topic).stdout


def test_alteration_is_refused_when_partitions_would_be_fewer(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-topics", "--create", "--topic", topic, "--partitions", "3")
    refused = kafka_tool("kafka-topics", "--alter", "--topic", topic, "--partitions", "2", must_succeed=False)
    assert refused.return_code != 0
    assert "InvalidPartitionsException" in refused.output


def test_topic_is_gone_when_deleted(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-topics", "--create", "--topic", topic)
    kafka_tool("kafka-topics", "--delete", "--topic", topic)
    assert topic not in kafka_tool("kafka-topics", "--list").lines
    again = kafka_tool("kafka-topics", "--delete", "--topic", topic, must_succeed=False)
    assert again.return_code != 0
    assert "does not exist" in again.output


def test_topic_is_new_when_created_again_under_a_deleted_name(kafka_tool: KafkaTool, topic: str) -> None:
    def topic_id() -> str:
        kafka_tool("kafka-topics", "--create", "--topic", topic)
        found = re.search(r"TopicId: (\S+)", kafka_tool("kafka-topics", "--describe", "--topic", topic).stdout)
        assert found is not None
        return found.group(1)

    first = topic_id()
    kafka_tool("kafka-topics", "--delete", "--topic", topic)
    assert topic_id() != first


def test_topic_is_described_when_asked_for_by_id(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-topics", "--create", "--topic", topic, "--partitions", "2")
    found = re.search(r"TopicId: (\S+)", kafka_tool("kafka-topics", "--describe", "--topic", topic).stdout)
    assert found is not None
    described = kafka_tool("kafka-topics", "--describe", f"--topic-id={found.group(1)}")
    assert f"Topic: {topic}" in described.stdout


def test_filter_finds_what_it_names_when_all_is_well(kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str) -> None:
    make_topic(topic)
    for filter_name in ("under-replicated", "unavailable", "under-min-isr", "at-min-isr"):
        described = kafka_tool("kafka-topics", "--describe", f"--{filter_name}-partitions")
        # One replica with min.insync.replicas=1 is exactly at its minimum, and nothing else is wrong.
        assert (topic in described.stdout) == (filter_name == "at-min-isr")
