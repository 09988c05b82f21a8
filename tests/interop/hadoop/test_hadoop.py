"""A pipeline whose files are in HDFS, as Hadoop's own shell finds them, and one that runs on YARN."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from apache_kafka.jars import PeerUnavailableError
from hadoop.jars import fetch_hadoop_jars
from hadoop.node import HdfsProcess, YarnCluster
from penstock.testing.processes import BrokerProcess
from proof.pipeline.spark_cluster import SPARK_HOME
from tests.pipelines.committed import committed_values, make_topic, unique
from tests.pipelines.test_cluster import JOB as CLUSTER_JOB
from tests.pipelines.test_cluster import SPARK, produce_addresses

JOB = Path(__file__).with_name("hdfs_job.py")
LIMIT_S = 400.0  # on a machine that is busy with other tests


@pytest.fixture(scope="module", autouse=True)
def hadoop() -> None:
    try:
        fetch_hadoop_jars()
    except PeerUnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[HdfsProcess]:
    with HdfsProcess(tmp_path / "hdfs") as process:
        yield process


@pytest.fixture
def yarn(tmp_path: Path) -> Iterator[YarnCluster]:
    with YarnCluster(tmp_path / "yarn") as cluster:
        yield cluster


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


@pytest.mark.timeout(LIMIT_S + 120)
def test_every_row_is_there_once_when_the_pipeline_runs_on_yarn(
    penstock_broker: BrokerProcess, yarn: YarnCluster, tmp_path: Path
) -> None:
    bootstrap = penstock_broker.bootstrap_servers
    source, target = make_topic(bootstrap, "addresses", 2), unique("suspicious")
    expected = produce_addresses(bootstrap, source, range(100))
    sets = {
        "source": source,
        "target": target,
        "bootstrap_servers": bootstrap,
        "max_records_per_batch": "40",
        "checkpoint": str(tmp_path / "checkpoint"),
        **SPARK,
        "spark.executor.instances": "2",
        "spark.yarn.am.memory": "512m",
        "spark.yarn.jars": f"local:{SPARK_HOME}/jars/*",  # or Spark uploads all of them first
        "spark.yarn.stagingDir": (tmp_path / "staging").as_uri(),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "penstock", "pipeline", "run", str(CLUSTER_JOB), "--master", "yarn", "--once"),
            *(part for name, value in sets.items() for part in ("--set", f"{name}={value}")),
        ],
        cwd=tmp_path,
        env=os.environ | {"HADOOP_CONF_DIR": str(yarn.config), "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
    assert committed_values(bootstrap, target) == sorted(expected)
    assert len(yarn.containers()) >= 3  # its master and the executors
