"""kafka-reassign-partitions and kafka-log-dirs move a partition between the data directories of one broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from apache_kafka.commands import run_command
from penstock.testing.processes import BrokerProcess
from tests.clients.confluent import create_topic, produce, producer_of, read_topic, values
from tests.clients.support import eventually

PROPERTIES = {"replica.high.watermark.checkpoint.interval.ms": "100"}


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def process(disks: list[Path]) -> Iterator[BrokerProcess]:
    config = {"log.dirs": ",".join(map(str, disks)), **PROPERTIES}
    with BrokerProcess(disks[0], config=config) as broker:
        yield broker


def shown(servers: str, topic: str) -> dict[str, list[str]]:
    lines = run_command("kafka-log-dirs", "--bootstrap-server", servers, "--describe", "--topic-list", topic).lines
    report = json.loads(next(line for line in lines if line.startswith("{")))
    (broker,) = report["brokers"]
    return {Path(each["logDir"]).name: [row["partition"] for row in each["partitions"]] for each in broker["logDirs"]}


def test_partition_is_in_the_other_directory_when_the_tool_has_moved_it(
    process: BrokerProcess, disks: list[Path], tmp_path: Path
) -> None:
    servers = process.bootstrap_servers
    topic = create_topic(servers)
    produce(producer_of(servers), topic, [b"%d" % number for number in range(50)])
    assert shown(servers, topic) == {"a": [f"{topic}-0"], "b": []}
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [str(disks[1])]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    arguments = ("--bootstrap-server", servers, "--reassignment-json-file", str(plan))
    done = run_command("kafka-reassign-partitions", *arguments, "--execute")
    started = f"Successfully started moving log directory to {disks[1]} for replica {topic}-0 with broker 1"
    assert started in done.output
    eventually(
        lambda: (
            f"Reassignment of replica {topic}-0-1 completed successfully."
            in run_command("kafka-reassign-partitions", *arguments, "--verify").output
        ),
        "the end of the move",
    )
    assert shown(servers, topic) == {"a": [], "b": [f"{topic}-0"]}
    assert values(read_topic(servers, topic, 50)) == [b"%d" % number for number in range(50)]
