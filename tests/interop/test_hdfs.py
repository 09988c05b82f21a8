"""A pipeline whose checkpoint, lake and Hive table are in HDFS, and what Hadoop's own shell finds there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from apache_kafka.jars import PeerUnavailableError
from hadoop.node import HdfsProcess
from penstock.testing.processes import BrokerProcess

JOB = Path(__file__).with_name("hdfs_job.py")
LIMIT_S = 200.0


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[HdfsProcess]:
    try:
        process = HdfsProcess(tmp_path / "hdfs")
    except PeerUnavailableError as error:
        pytest.skip(str(error))
    with process:
        yield process


def run_job(*arguments: str, directory: Path) -> dict[str, Any]:
    command = [sys.executable, str(JOB), *arguments]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def produce(bootstrap: str, topic: str, numbers: range) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for n in numbers:
        producer.produce(topic, json.dumps({"n": n, "day": f"2026-01-0{1 + n % 2}"}))
    assert producer.flush(30) == 0


def numbers_in_lake(hdfs: HdfsProcess) -> list[int]:
    return sorted(json.loads(line)["n"] for line in hdfs.shell("-cat", "/lake/date=*/*.json").splitlines())


@pytest.mark.timeout(2 * LIMIT_S + 60)
def test_every_row_is_in_hdfs_once_when_a_batch_comes_again(
    penstock_broker: BrokerProcess, topic: str, hdfs: HdfsProcess, tmp_path: Path
) -> None:
    bootstrap = penstock_broker.bootstrap_servers
    produce(bootstrap, topic, range(50))
    first = run_job(bootstrap, topic, hdfs.url, directory=tmp_path)
    assert first["hive"] == numbers_in_lake(hdfs) == list(range(50))
    before, after = first["compacted"]
    assert before > after == 2  # a file for each day
    commits = hdfs.shell("-ls", "-C", "/checkpoint/main/commits").split()
    assert len(commits) >= 3
    # As if the driver had died between the last sink and the checkpoint: the batch comes again.
    hdfs.shell("-rm", max(commits, key=lambda path: int(path.rpartition("/")[2])))
    produce(bootstrap, topic, range(50, 60))
    again = run_job(bootstrap, topic, hdfs.url, directory=tmp_path)
    assert again["hive"] == numbers_in_lake(hdfs) == list(range(60))
    directories = {path.split("/")[3] for path in hdfs.shell("-ls", "-C", "-R", "/warehouse/numbers").split()}
    assert {"day=2026-01-01", "day=2026-01-02"} <= directories
