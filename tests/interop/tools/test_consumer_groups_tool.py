from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import confluent_kafka
import pytest

from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic


@pytest.fixture
def group(topic: str) -> str:
    return f"{topic}-group"


@pytest.fixture
def filled_topic(broker: ServerProcess, make_topic: MakeTopic, topic: str) -> str:
    """Two partitions with ten records each, at one record a second from time 1_000_000 on."""
    make_topic(topic, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(10):
        for partition in range(2):
            producer.produce(topic, str(number), partition=partition, timestamp=1_000_000 + number * 1000)
    assert producer.flush(30) == 0
    return topic


@contextmanager
def consuming(
    broker: ServerProcess, topic: str, group: str, count: int, protocol: str = "classic"
) -> Iterator[confluent_kafka.Consumer]:
    """A member that has read `count` records and committed them, and is still in the group."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(
        {**settings, "enable.auto.commit": False, "client.id": "reader", "group.protocol": protocol}
    )
    consumer.subscribe([topic])
    messages: list[confluent_kafka.Message] = []
    while len(messages) < count:
        messages += consumer.consume(count - len(messages), timeout=30)
    consumer.commit(asynchronous=False)
    try:
        yield consumer
    finally:
        consumer.close()


def describe(kafka_tool: KafkaTool, group: str) -> dict[str, list[str]]:
    """Partition -> the columns of `kafka-consumer-groups --describe`."""
    rows = [line.split() for line in kafka_tool("kafka-consumer-groups", "--describe", "--group", group).lines]
    header = next(row for row in rows if row[:2] == ["GROUP", "TOPIC"])
    return {row[2]: row for row in rows if row[0] == group and len(row) >= len(header) - 1}


def offsets_after_reset(kafka_tool: KafkaTool, group: str, topic: str, *arguments: str) -> dict[str, str]:
    command = ("--reset-offsets", "--group", group, "--topic", topic, *arguments)
    rows = [line.split() for line in kafka_tool("kafka-consumer-groups", *command).lines]
    return {row[2]: row[3] for row in rows if row[0] == group}


def test_lag_is_shown_when_a_member_has_read_a_part(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 20):
        producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(filled_topic, "one more", partition=1)
        assert producer.flush(30) == 0
        rows = describe(kafka_tool, group)
        assert rows["0"][3:6] == ["10", "10", "0"]
        assert rows["1"][3:6] == ["10", "11", "1"]
        assert rows["0"][6].startswith("reader-")
        assert rows["0"][8] == "reader"


def test_members_and_state_are_shown_when_the_group_is_active(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 20):
        arguments = ("kafka-consumer-groups", "--describe", "--group", group)
        members = kafka_tool(*arguments, "--members", "--verbose").stdout
        assert "reader-" in members
        assert f"{filled_topic}:0,1" in members
        state = kafka_tool(*arguments, "--state").lines[-1].split()
        assert state[0] == group
        assert "Stable" in state
        assert "range" in state
    emptied = kafka_tool("kafka-consumer-groups", "--describe", "--group", group, "--state").output
    assert "Empty" in emptied


def test_group_is_listed_with_its_state_when_it_exists(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 1):
        assert group in kafka_tool("kafka-consumer-groups", "--list").lines
        stable = [line.split() for line in kafka_tool("kafka-consumer-groups", "--list", "--state", "stable").lines]
        assert [group, "Stable"] in stable
        groups = [line.split() for line in kafka_tool("kafka-groups", "--list").lines]
        assert [group, "Classic", "consumer"] in groups


def test_offsets_move_when_reset(broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str) -> None:
    with consuming(broker, filled_topic, group, 20):
        pass
    planned = offsets_after_reset(kafka_tool, group, filled_topic, "--to-earliest", "--dry-run")
    assert planned == {"0": "0", "1": "0"}
    assert describe(kafka_tool, group)["0"][3] == "10"

    def after(*arguments: str) -> dict[str, str]:
        return offsets_after_reset(kafka_tool, group, filled_topic, *arguments, "--execute")

    assert after("--to-earliest") == {"0": "0", "1": "0"}
    assert after("--to-datetime", "1970-01-01T00:16:44.500") == {"0": "5", "1": "5"}
    assert after("--shift-by", "-2") == {"0": "3", "1": "3"}
    assert after("--to-latest") == {"0": "10", "1": "10"}
    assert after("--to-offset", "7") == {"0": "7", "1": "7"}
    assert describe(kafka_tool, group)["1"][3:6] == ["7", "10", "3"]


def test_reset_is_refused_when_the_group_is_active(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 1):
        arguments = ("--reset-offsets", "--group", group, "--topic", filled_topic, "--to-earliest", "--execute")
        refused = kafka_tool("kafka-consumer-groups", *arguments, must_succeed=False)
        assert "Assignments can only be reset if the group" in refused.output


def test_group_is_gone_when_deleted_and_kept_while_active(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 1):
        refused = kafka_tool("kafka-consumer-groups", "--delete", "--group", group, must_succeed=False)
        assert "GroupNotEmptyException" in refused.output
    kafka_tool("kafka-consumer-groups", "--delete", "--group", group)
    assert group not in kafka_tool("kafka-consumer-groups", "--list").lines


def test_offsets_of_a_topic_are_gone_when_deleted(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 20):
        pass
    kafka_tool("kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", f"{filled_topic}:0")
    assert list(describe(kafka_tool, group)) == ["1"]


def test_group_is_reported_missing_when_it_does_not_exist(kafka_tool: KafkaTool, group: str) -> None:
    arguments = ("--describe", "--group", group)
    assert "GroupIdNotFoundException" in kafka_tool("kafka-consumer-groups", *arguments, must_succeed=False).output


def test_group_is_described_when_its_members_speak_the_consumer_protocol(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str, group: str
) -> None:
    with consuming(broker, filled_topic, group, 20, protocol="consumer"):
        rows = describe(kafka_tool, group)
        assert rows["0"][3:6] == ["10", "10", "0"]
        assert rows["0"][8] == "reader"
        states = kafka_tool("kafka-consumer-groups", "--describe", "--group", group, "--state", "--verbose").lines
        (state,) = [line.split() for line in states if line.startswith(group)]
        assert state[-5:] == ["uniform", "Stable", "2", "2", "1"]
        members = kafka_tool("kafka-consumer-groups", "--describe", "--group", group, "--members", "--verbose").lines
        (member,) = [line.split() for line in members if line.startswith(group)]
        assert f"{filled_topic}:0,1" in member
        listed = kafka_tool("kafka-consumer-groups", "--list", "--type", "consumer").lines
        assert group in {line.split()[0] for line in listed if line}
    kafka_tool("kafka-consumer-groups", "--delete", "--group", group)
