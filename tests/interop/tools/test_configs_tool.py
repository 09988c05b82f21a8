from __future__ import annotations

import pytest

from penstock.testing.processes import BrokerProcess, ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic


def alter(kafka_tool: KafkaTool, entity: tuple[str, ...], *arguments: str) -> str:
    return kafka_tool("kafka-configs", "--alter", *entity, *arguments).stdout


def describe(kafka_tool: KafkaTool, entity: tuple[str, ...], *arguments: str) -> str:
    return kafka_tool("kafka-configs", "--describe", *entity, *arguments).stdout


@pytest.fixture
def topic_entity(make_topic: MakeTopic, topic: str) -> tuple[str, ...]:
    make_topic(topic)
    return ("--entity-type", "topics", "--entity-name", topic)


BROKER = ("--entity-type", "brokers", "--entity-name", "1")
EVERY_BROKER = ("--entity-type", "brokers", "--entity-default")


def test_topic_setting_is_shown_when_altered_and_gone_when_deleted(
    kafka_tool: KafkaTool, topic_entity: tuple[str, ...]
) -> None:
    alter(kafka_tool, topic_entity, "--add-config", "retention.ms=5000,max.message.bytes=2000")
    described = describe(kafka_tool, topic_entity)
    assert "retention.ms=5000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5000" in described
    assert "max.message.bytes=2000" in described
    alter(kafka_tool, topic_entity, "--delete-config", "retention.ms")
    described = describe(kafka_tool, topic_entity)
    assert "retention.ms" not in described
    assert "max.message.bytes=2000" in described


def test_every_topic_setting_is_shown_when_all_are_asked_for(
    kafka_tool: KafkaTool, topic_entity: tuple[str, ...]
) -> None:
    described = describe(kafka_tool, topic_entity, "--all")
    for expected in (
        "cleanup.policy=delete",
        "compression.type=producer",
        "retention.ms=604800000",
        "segment.bytes=1073741824",
        "max.message.bytes=1048588",
        "min.insync.replicas=1",
        "message.timestamp.type=CreateTime",
        "DEFAULT_CONFIG:log.segment.bytes=1073741824",
    ):
        assert expected in described


def test_value_is_appended_and_removed_when_the_setting_is_a_list(
    kafka_tool: KafkaTool, topic_entity: tuple[str, ...]
) -> None:
    alter(kafka_tool, topic_entity, "--add-config", "cleanup.policy=[compact,delete]")
    assert "cleanup.policy=compact,delete" in describe(kafka_tool, topic_entity)


@pytest.mark.parametrize(
    "setting", ["retention.ms=soon", "no.such.setting=1", "segment.bytes=100", "cleanup.policy=burn"]
)
def test_alteration_is_refused_when_the_topic_setting_is_wrong(
    kafka_tool: KafkaTool, topic_entity: tuple[str, ...], setting: str
) -> None:
    arguments = ("--alter", *topic_entity, "--add-config", setting)
    refused = kafka_tool("kafka-configs", *arguments, must_succeed=False)
    assert "InvalidConfigurationException" in refused.output or "InvalidConfig" in refused.output
    assert setting.split("=")[0] not in describe(kafka_tool, topic_entity)


def test_alteration_is_refused_when_the_topic_does_not_exist(kafka_tool: KafkaTool, topic: str) -> None:
    arguments = ("--alter", "--entity-type", "topics", "--entity-name", topic, "--add-config", "retention.ms=5000")
    refused = kafka_tool("kafka-configs", *arguments, must_succeed=False)
    assert "UnknownTopicOrPartitionException" in refused.output


def test_broker_setting_is_shown_when_altered_for_one_broker(kafka_tool: KafkaTool) -> None:
    alter(kafka_tool, BROKER, "--add-config", "log.index.interval.bytes=8192")
    described = describe(kafka_tool, BROKER)
    assert "log.index.interval.bytes=8192 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:" in described
    alter(kafka_tool, BROKER, "--delete-config", "log.index.interval.bytes")
    assert "log.index.interval.bytes" not in describe(kafka_tool, BROKER)


def test_topics_inherit_when_a_setting_is_altered_for_every_broker(
    kafka_tool: KafkaTool, topic_entity: tuple[str, ...]
) -> None:
    alter(kafka_tool, EVERY_BROKER, "--add-config", "log.retention.ms=123456789")
    try:
        assert "log.retention.ms=123456789" in describe(kafka_tool, EVERY_BROKER)
        assert "retention.ms=123456789" in describe(kafka_tool, topic_entity, "--all")
    finally:
        alter(kafka_tool, EVERY_BROKER, "--delete-config", "log.retention.ms")
    assert "retention.ms=604800000" in describe(kafka_tool, topic_entity, "--all")


def test_minimum_of_replicas_is_stored_for_all_brokers_when_there_are_eligible_leader_replicas(
    kafka_tool: KafkaTool, broker: ServerProcess
) -> None:
    """KIP-966, which Kafka has from the first start on. The guide to Kafka's tools says why we answer otherwise."""
    is_kafka = not isinstance(broker, BrokerProcess)
    stored = "min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1}"
    assert (stored in describe(kafka_tool, EVERY_BROKER)) == is_kafka
    for change in (("--add-config", "min.insync.replicas=1"), ("--delete-config", "min.insync.replicas")):
        answer = kafka_tool("kafka-configs", "--alter", *BROKER, *change, must_succeed=False)
        assert ("cannot be altered while ELR is enabled" in answer.output) == is_kafka
        assert (answer.return_code != 0) == is_kafka


def test_alteration_is_refused_when_the_broker_setting_is_not_dynamic(kafka_tool: KafkaTool) -> None:
    arguments = ("--alter", *BROKER, "--add-config", "num.partitions=3")
    refused = kafka_tool("kafka-configs", *arguments, must_succeed=False)
    assert "InvalidRequestException" in refused.output or "InvalidConfigurationException" in refused.output


def test_broker_defaults_are_shown_when_all_are_asked_for(kafka_tool: KafkaTool) -> None:
    described = describe(kafka_tool, BROKER, "--all")
    for expected in ("log.retention.hours=168", "num.partitions=1", "auto.create.topics.enable=true"):
        assert expected in described


LOGGERS = ("--entity-type", "broker-loggers", "--entity-name", "1")


def test_log_level_is_shown_when_altered_and_the_roots_again_when_deleted(kafka_tool: KafkaTool) -> None:
    described = describe(kafka_tool, LOGGERS)
    assert "  root=INFO sensitive=false synonyms={}" in described
    name = next(
        line.strip().split("=")[0]
        for line in described.splitlines()
        if ".log." in line and "=INFO " in line and line.startswith("  ")
    )
    alter(kafka_tool, LOGGERS, "--add-config", f"{name}=DEBUG")
    assert f"  {name}=DEBUG sensitive=false" in describe(kafka_tool, LOGGERS)
    alter(kafka_tool, LOGGERS, "--delete-config", name)
    assert f"  {name}=INFO sensitive=false" in describe(kafka_tool, LOGGERS)


def test_alteration_is_refused_when_the_log_level_does_not_exist(kafka_tool: KafkaTool) -> None:
    """The tool itself refuses a logger that the broker does not describe."""
    refused = kafka_tool("kafka-configs", "--alter", *LOGGERS, "--add-config", "root=LOUD", must_succeed=False)
    assert refused.return_code == 1
    assert "InvalidConfigurationException" in refused.output
