"""Elsewhere than on local[*]: a standalone cluster with a real master and two workers, and spark-submit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer

from proof.pipeline.spark_cluster import ENVIRONMENT, SPARK_HOME, SparkCluster
from tests.pipelines.committed import committed_values, make_topic, unique

JOB = Path(__file__).with_name("cluster_job.py")
# An executor on each worker: one core and about the least memory that Spark starts with.
SPARK = {
    "spark.pyspark.python": sys.executable,
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
# Idle it takes fifteen seconds; a machine that is busy with other tests is given its time.
RUN_S = 400.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    directory = tmp_path / "cluster"
    directory.mkdir()
    with SparkCluster(directory, workers=2, cores=1) as running:
        yield running


def produce_addresses(bootstrap: str, topic: str, numbers: range) -> list[str]:
    """Every other one suspicious, and those are returned."""
    producer = Producer({"bootstrap.servers": bootstrap})
    addresses = [f"{10 if number % 2 else 172}.0.0.{number}" for number in numbers]
    for number, address in enumerate(addresses):
        producer.produce(topic, address, partition=number % 2)
    assert producer.flush(30) == 0
    return [address for address in addresses if address.startswith("10.")]


def finish(command: list[str], directory: Path) -> str:
    """In a process group of its own, so that nothing of a driver that hangs is left behind: neither Python nor JVM."""
    # Which Python the executors run is said by SPARK alone.
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"} | ENVIRONMENT
    with subprocess.Popen(
        command,
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    ) as process:
        try:
            said, complained = process.communicate(timeout=RUN_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said[-2000:] + complained[-4000:]
    return said


@pytest.mark.timeout(1000)
def test_every_row_is_there_once_when_a_cluster_repeats_a_batch_under_spark_submit(
    cluster: SparkCluster, bootstrap: str, tmp_path: Path
) -> None:
    source, target, checkpoint = make_topic(bootstrap, "addresses", 2), unique("suspicious"), tmp_path / "checkpoint"
    expected = produce_addresses(bootstrap, source, range(100))
    named = {"source": source, "target": target, "bootstrap_servers": bootstrap, "checkpoint": str(checkpoint)}
    sets = [f"{name}={value}" for name, value in (named | SPARK | {"max_records_per_batch": "40"}).items()]
    finish(
        [
            *(sys.executable, "-m", "penstock", "pipeline", "run", str(JOB), "--master", cluster.url, "--once"),
            *(part for each in sets for part in ("--set", each)),
        ],
        tmp_path,
    )
    assert committed_values(bootstrap, target) == sorted(expected)
    assert [len(applications) for applications in cluster.applications()] == [1, 1], "both workers took part"

    commits = sorted((checkpoint / "main" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) >= 3
    # As if the driver had died between the sink's commit and the checkpoint's: the batch comes again.
    for path in (commits[-1], commits[-1].with_name(f".{commits[-1].name}.crc")):
        path.unlink(missing_ok=True)
    expected += produce_addresses(bootstrap, source, range(100, 120))
    settings = [part for key, value in SPARK.items() for part in ("--conf", f"{key}={value}")]
    said = finish(
        [
            *(str(SPARK_HOME / "bin" / "spark-submit"), "--master", cluster.url, *settings),
            *(str(JOB), bootstrap, source, target, str(checkpoint)),
        ],
        tmp_path,
    )
    assert f"done on {cluster.url}" in said
    assert committed_values(bootstrap, target) == sorted(expected)
