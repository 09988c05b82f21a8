from __future__ import annotations

import re

import pytest

from tests.interop.conftest import KafkaTool, MakeTopic

READ_ALL = ("--from-beginning", "--timeout-ms", "20000")


def consume(kafka_tool: KafkaTool, topic: str, count: int, *arguments: str) -> list[str]:
    return kafka_tool("kafka-console-consumer", "--topic", topic, "--max-messages", str(count), *arguments).lines


def test_lines_come_back_in_order_when_written_with_the_console_producer(kafka_tool: KafkaTool, topic: str) -> None:
    lines = [f"line {number}" for number in range(200)]
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="\n".join(lines))
    assert consume(kafka_tool, topic, 200, *READ_ALL) == lines


def test_keys_headers_and_timestamps_come_back_when_written(kafka_tool: KafkaTool, topic: str) -> None:
    parse = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    kafka_tool("kafka-console-producer", "--topic", topic, *parse, standard_input="h1:v1,h2:v2\tkey-1\tvalue-1\n")
    shown = [
        f"--formatter-property=print.{part}=true" for part in ("key", "headers", "timestamp", "offset", "partition")
    ]
    line = consume(kafka_tool, topic, 1, *READ_ALL, *shown)[0]
    assert re.fullmatch(r"CreateTime:\d{13}\tPartition:0\tOffset:0\th1:v1,h2:v2\tkey-1\tvalue-1", line)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_when_sent_with_acks(
    kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, acks: str
) -> None:
    make_topic(topic)
    idempotence = ("--command-property", "enable.idempotence=false")
    arguments = ("--topic", topic, "--request-required-acks", acks, *idempotence)
    kafka_tool("kafka-console-producer", *arguments, standard_input="a\nb\nc\n")
    assert consume(kafka_tool, topic, 3, *READ_ALL) == ["a", "b", "c"]


def test_reading_starts_at_the_offset_when_one_is_given(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="a\nb\nc\nd\n")
    at_offset = ("--partition", "0", "--offset", "2", "--timeout-ms", "20000")
    assert consume(kafka_tool, topic, 2, *at_offset) == ["c", "d"]


def test_reading_goes_on_where_the_group_stopped_when_it_comes_back(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="a\nb\nc\nd\n")
    group = ("--group", f"{topic}-group", "--timeout-ms", "20000")
    assert consume(kafka_tool, topic, 3, *group, "--from-beginning") == ["a", "b", "c"]
    assert consume(kafka_tool, topic, 1, *group) == ["d"]


def test_all_topics_of_a_pattern_are_read_when_it_matches(kafka_tool: KafkaTool, topic: str) -> None:
    for suffix in ("x", "y"):
        kafka_tool("kafka-console-producer", "--topic", f"{topic}.{suffix}", standard_input=f"from {suffix}\n")
    arguments = ("--include", rf"{topic}\..", "--max-messages", "2", *READ_ALL)
    assert sorted(kafka_tool("kafka-console-consumer", *arguments).lines) == ["from x", "from y"]


def test_record_that_is_too_large_is_refused_when_the_topic_has_a_limit(
    kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic, max_message_bytes="1000")
    refused = kafka_tool(
        "kafka-console-producer", "--topic", topic, standard_input="x" * 2000 + "\n", must_succeed=False
    )
    assert "RecordTooLargeException" in refused.output


def test_read_committed_sees_plain_records_when_there_are_no_transactions(kafka_tool: KafkaTool, topic: str) -> None:
    kafka_tool("kafka-console-producer", "--topic", topic, standard_input="a\nb\n")
    assert consume(kafka_tool, topic, 2, *READ_ALL, "--isolation-level", "read_committed") == ["a", "b"]
