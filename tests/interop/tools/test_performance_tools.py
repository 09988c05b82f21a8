"""Kafka's load generators, with every codec: here for what they check (counts, errors), not for their figures."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from apache_kafka.commands import ToolResult, run_command
from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic

RECORD_COUNT = 20_000


def produce(broker: ServerProcess, topic: str, *properties: str, size: int = 200) -> ToolResult:
    return run_command(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", str(RECORD_COUNT), "--record-size", str(size), "--throughput", "-1"),
        *("--bootstrap-server", broker.bootstrap_servers),
        *(argument for setting in properties for argument in ("--command-property", setting)),
    )


def consume(kafka_tool: KafkaTool, topic: str) -> int:
    arguments = ("--topic", topic, "--num-records", str(RECORD_COUNT), "--timeout", "20000")
    rows = [line.split(", ") for line in kafka_tool("kafka-consumer-perf-test", *arguments).lines]
    return int(dict(zip(rows[0], rows[-1], strict=False))["data.consumed.in.nMsg"])


@pytest.mark.parametrize(
    ("codec", "idempotence"),
    [("none", "true"), ("none", "false"), ("gzip", "true"), ("snappy", "true"), ("lz4", "true"), ("zstd", "true")],
)
def test_every_record_is_read_when_a_load_is_written(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, codec: str, idempotence: str
) -> None:
    make_topic(topic, 3)
    written = produce(broker, topic, f"compression.type={codec}", f"enable.idempotence={idempotence}", "acks=all")
    assert f"{RECORD_COUNT} records sent" in written.lines[-1]
    assert "Exception" not in written.output
    assert consume(kafka_tool, topic) >= RECORD_COUNT


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_every_record_is_read_when_the_topic_asks_for_another_codec(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, codec: str
) -> None:
    make_topic(topic, compression_type=codec, message_timestamp_type="LogAppendTime")
    produce(broker, topic, "compression.type=lz4" if codec != "lz4" else "compression.type=gzip")
    assert consume(kafka_tool, topic) >= RECORD_COUNT


def test_round_trips_are_measured_when_records_go_one_by_one(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str
) -> None:
    make_topic(topic)
    arguments = ("--topic", topic, "--num-records", "200", "--producer-acks", "all", "--record-size", "100")
    measured = kafka_tool("kafka-e2e-latency", *arguments).stdout
    assert re.search(r"Percentiles: 50th = \d+", measured)


def test_each_send_is_confirmed_when_the_verifiable_clients_run(
    broker: ServerProcess, kafka_tool: KafkaTool, make_topic: MakeTopic, topic: str, tmp_path: Path
) -> None:
    make_topic(topic, 2)
    sent = kafka_tool("kafka-verifiable-producer", "--topic", topic, "--max-messages", "500", "--acks", "-1")
    events = [json.loads(line) for line in sent.lines]
    confirmed = {(event["partition"], event["offset"]) for event in events if event["name"] == "producer_send_success"}
    assert len(confirmed) == 500
    read = ("--topic", topic, "--group-id", f"{topic}-group", "--max-messages", "500", "--reset-policy", "earliest")
    received = [json.loads(line) for line in kafka_tool("kafka-verifiable-consumer", *read).lines]
    assert sum(event["count"] for event in received if event["name"] == "records_consumed") == 500
    commits = [event for event in received if event["name"] == "offsets_committed"]
    assert commits
    assert all(event["success"] for event in commits)
