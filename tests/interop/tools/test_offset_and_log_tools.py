from __future__ import annotations

import json
from pathlib import Path

import confluent_kafka
import pytest

from penstock.testing.processes import ServerProcess
from tests.interop.conftest import KafkaTool, MakeTopic


@pytest.fixture
def filled_topic(broker: ServerProcess, make_topic: MakeTopic, topic: str) -> str:
    """Two partitions with ten records each, a second apart from time 1_000_000 on; the newest is not the last."""
    make_topic(topic, 2)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in [0, 1, 2, 3, 4, 5, 6, 9, 7, 8]:
        for partition in range(2):
            producer.produce(topic, str(number), partition=partition, timestamp=1_000_000 + number * 1000)
    assert producer.flush(30) == 0
    return topic


@pytest.mark.parametrize(
    ("time", "offset"),
    [("latest", 10), ("earliest", 0), ("max-timestamp", 7), ("1004500", 5), ("1000000", 0), ("1006001", 7)],
)
def test_offset_is_found_when_asked_for_by_time(
    kafka_tool: KafkaTool, filled_topic: str, time: str, offset: int
) -> None:
    found = kafka_tool("kafka-get-offsets", "--topic", filled_topic, "--time", time).lines
    assert found == [f"{filled_topic}:0:{offset}", f"{filled_topic}:1:{offset}"]


def test_no_offset_is_found_when_the_time_is_past_the_last_record(kafka_tool: KafkaTool, filled_topic: str) -> None:
    found = kafka_tool("kafka-get-offsets", "--topic", filled_topic, "--time", "2000000").lines
    assert found == []


def delete_records(kafka_tool: KafkaTool, directory: Path, topic: str, offset: int) -> str:
    request = {"partitions": [{"topic": topic, "partition": 0, "offset": offset}], "version": 1}
    path = directory / "delete.json"
    path.write_text(json.dumps(request))
    return kafka_tool("kafka-delete-records", "--offset-json-file", str(path), must_succeed=False).output


def test_log_starts_later_when_records_are_deleted(kafka_tool: KafkaTool, filled_topic: str, tmp_path: Path) -> None:
    assert "low_watermark: 4" in delete_records(kafka_tool, tmp_path, filled_topic, 4)
    earliest = kafka_tool("kafka-get-offsets", "--topic", filled_topic, "--time", "earliest").lines
    assert earliest == [f"{filled_topic}:0:4", f"{filled_topic}:1:0"]
    read = ("--topic", filled_topic, "--partition", "0", "--offset", "earliest", "--max-messages", "6")
    assert kafka_tool("kafka-console-consumer", *read).lines == ["4", "5", "6", "9", "7", "8"]


def test_all_records_go_when_deleted_up_to_the_high_watermark(
    kafka_tool: KafkaTool, filled_topic: str, tmp_path: Path
) -> None:
    assert "low_watermark: 10" in delete_records(kafka_tool, tmp_path, filled_topic, -1)


def test_deletion_is_refused_when_the_offset_is_past_the_end(
    kafka_tool: KafkaTool, filled_topic: str, tmp_path: Path
) -> None:
    assert "OffsetOutOfRangeException" in delete_records(kafka_tool, tmp_path, filled_topic, 11)


def test_sizes_are_shown_when_log_directories_are_described(
    broker: ServerProcess, kafka_tool: KafkaTool, filled_topic: str
) -> None:
    lines = kafka_tool("kafka-log-dirs", "--describe", "--topic-list", filled_topic).lines
    report = json.loads(next(line for line in lines if line.startswith("{")))
    directories = report["brokers"][0]["logDirs"]
    assert [directory["error"] for directory in directories] == [None]
    partitions = {row["partition"]: row for row in directories[0]["partitions"]}
    assert set(partitions) == {f"{filled_topic}-0", f"{filled_topic}-1"}
    assert all(row["size"] > 0 and row["offsetLag"] == 0 and not row["isFuture"] for row in partitions.values())
