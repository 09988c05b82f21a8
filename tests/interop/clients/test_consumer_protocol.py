"""KIP-848 groups with Kafka's own consumer and tools. Members that come and go are in test_java_client.py."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from apache_kafka.commands import COMMANDS
from apache_kafka.jars import TOOL_OPTIONS, java_command
from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic
from tests.interop.tools.test_configs_tool import alter, describe

CONSUMER = ("--command-property", "group.protocol=consumer")


@pytest.fixture
def group(topic: str) -> str:
    return f"{topic}-group"


def write(kafka_tool: KafkaTool, topic: str, *lines: str) -> None:
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="\n".join(lines) + "\n")


def read(kafka_tool: KafkaTool, count: int, *arguments: str) -> list[str]:
    limits = ("--max-messages", str(count), "--timeout-ms", "30000")
    return kafka_tool("kafka-console-consumer", *CONSUMER, *limits, *arguments).lines


def rows(kafka_tool: KafkaTool, group: str, *arguments: str) -> list[dict[str, str]]:
    """What `kafka-consumer-groups --describe` says of the group, by the names of its columns."""
    lines = kafka_tool("kafka-consumer-groups", "--describe", "--group", group, *arguments).lines
    header = next(line for line in lines if line.startswith("GROUP")).split()
    return [dict(zip(header, line.split(), strict=False)) for line in lines if line.startswith(group)]


@contextmanager
def reading(broker: ServerProcess, topic: str, group: str, *properties: str) -> Iterator[subprocess.Popen[str]]:
    """A console consumer that has read a first record and stays in its group."""
    settings = [each for item in ("group.protocol=consumer", *properties) for each in ("--command-property", item)]
    arguments = ("--bootstrap-server", broker.bootstrap_servers, "--topic", topic, "--group", group)
    command = java_command(
        COMMANDS["kafka-console-consumer"], *arguments, "--from-beginning", *settings, options=TOOL_OPTIONS
    )
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_reading_goes_on_where_the_group_stopped_when_it_comes_back(
    kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, group: str
) -> None:
    make_topic(topic)
    write(kafka_tool, topic, "a", "b", "c", "d")
    assert read(kafka_tool, 3, "--topic", topic, "--group", group, "--from-beginning") == ["a", "b", "c"]
    assert read(kafka_tool, 1, "--topic", topic, "--group", group) == ["d"]
    listed = kafka_tool("kafka-groups", "--list", "--group-type", "consumer").lines
    assert group in {line.split()[0] for line in listed}


def test_all_topics_of_a_pattern_are_read_when_it_matches(
    kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, group: str
) -> None:
    for suffix in ("x", "y"):
        make_topic(f"{topic}.{suffix}")
        write(kafka_tool, f"{topic}.{suffix}", f"from {suffix}")
    found = read(kafka_tool, 2, "--include", rf"{topic}\..", "--group", group, "--from-beginning")
    assert sorted(found) == ["from x", "from y"]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_and_state_are_shown_when_the_member_names_its_assignor(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, group: str, assignor: str
) -> None:
    make_topic(topic, 3)
    write(kafka_tool, topic, *"abcdef")
    with reading(broker, topic, group, f"group.remote.assignor={assignor}", "client.id=reader"):
        (state,) = rows(kafka_tool, group, "--state")
        assert (state["ASSIGNMENT-STRATEGY"], state["STATE"], state["#MEMBERS"]) == (assignor, "Stable", "1")
        (member,) = rows(kafka_tool, group, "--members", "--verbose")
        assert (member["CLIENT-ID"], member["#PARTITIONS"]) == ("reader", "3")
        assert f"{topic}:0,1,2" in member.values()
    (state,) = rows(kafka_tool, group, "--state")
    assert state["STATE"] == "Empty"


def test_group_setting_is_shown_when_altered_and_gone_when_deleted(kafka_tool: KafkaTool, group: str) -> None:
    entity = ("--entity-type", "groups", "--entity-name", group)
    alter(kafka_tool, entity, "--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")
    described = describe(kafka_tool, entity)
    assert "consumer.session.timeout.ms=50000 sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:consumer" in described
    assert "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000" in described
    assert f"Dynamic configs for group {group} are" in describe(kafka_tool, ("--entity-type", "groups"))
    alter(kafka_tool, entity, "--delete-config", "consumer.session.timeout.ms")
    described = describe(kafka_tool, entity)
    assert "consumer.session.timeout.ms" not in described
    assert "consumer.heartbeat.interval.ms=6000" in described
    assert "consumer.session.timeout.ms=45000" in describe(kafka_tool, entity, "--all")


@pytest.mark.parametrize("setting", ["consumer.session.timeout.ms=1", "consumer.heartbeat.interval.ms=x", "no.key=1"])
def test_alteration_is_refused_when_the_group_setting_is_wrong(kafka_tool: KafkaTool, group: str, setting: str) -> None:
    arguments = ("--alter", "--entity-type", "groups", "--entity-name", group, "--add-config", setting)
    refused = kafka_tool("kafka-configs", *arguments, must_succeed=False)
    assert "InvalidConfigurationException" in refused.output
