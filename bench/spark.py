"""Spark on the same broker through our data source and through Spark's own Kafka connector, and the main job.

Every figure comes from a driver process of its own; the two connectors take turns, round by round.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from apache_kafka.jars import PeerUnavailableError
from bench.errors import BenchError
from bench.spark_works import CORES, OFFICIAL, OWN_WORKS, PENSTOCK, VALUE_BYTES, Figures, Spec
from demo_lines import LogLines
from penstock.pipelines.jobs.ip_fraud import DEFAULT_OCTETS
from penstock.testing.processes import BrokerProcess, ServerProcess
from spark_connector.jars import fetch_connector_jars

# Name -> module that does it. The first ones are asked of both connectors, the jobs are ours alone.
WORKS = {
    "read-batch": "bench.spark_works",
    "read-stream": "bench.spark_works",
    "write": "bench.spark_works",
    "write-once": "bench.spark_works",
    "latency": "bench.spark_works",
    "latency-once": "bench.spark_works",
    "latency-pipeline": "bench.spark_works",
    "job": "bench.spark_job",
    "job-whole": "bench.spark_job",
    "job-latency": "bench.job_latency",
}
# Jobs that work off a topic which is full before they start.
FULL_TOPIC_JOBS = frozenset({"job", "job-whole"})
OURS_ALONE = OWN_WORKS | FULL_TOPIC_JOBS | {"job-latency"}
# What `--only` takes.
NAMES = tuple(f"spark-{name}" for name in WORKS)

PARTITIONS = 2 * CORES
PATIENCE_S = 60.0
WORK_TIMEOUT_S = 900.0
CHUNK = 5000

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class SparkScale:
    rows: int
    lines: int
    records: int
    steady_seconds: int


FULL = SparkScale(rows=1_200_000, lines=2_400_000, records=30, steady_seconds=60)
QUICK = SparkScale(rows=120_000, lines=60_000, records=5, steady_seconds=6)


@dataclass(slots=True)
class SparkResult:
    # Connector -> figure key -> one value per round.
    samples: dict[str, dict[str, list[float]]] = field(
        default_factory=lambda: {PENSTOCK: defaultdict(list), OFFICIAL: defaultdict(list)}
    )
    # The main job's, of the last round: work -> what -> figure, whose unit `bench.spark_report` knows.
    profiles: dict[str, dict[str, float]] = field(default_factory=dict)
    # Why there is nothing to compare with, where that is so.
    missing: str = ""


def measure(names: list[str], scale: SparkScale, rounds: int) -> SparkResult:
    result = SparkResult()
    jars = find_jars(result)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as home, BrokerProcess(Path(home) / "data") as server:
        topics = preload(server, names, scale)
        for number, name in itertools.product(range(rounds), names):
            work = name.removeprefix("spark-")
            for connector in choose_connectors(work, number, is_alone=bool(result.missing)):
                with tempfile.TemporaryDirectory(dir=home) as own:
                    spec = plan(server, work, connector, topics, scale, Path(own), jars)
                    keep(result, spec, run(spec), number)
    return result


def find_jars(result: SparkResult) -> tuple[str, ...]:
    try:
        return tuple(map(str, fetch_connector_jars()))
    except PeerUnavailableError as error:
        result.missing = str(error).partition("\n")[0]
        print(f"bench: no comparison with Spark's own connector: {result.missing}", file=sys.stderr)
        return ()


def choose_connectors(work: str, round_number: int, *, is_alone: bool) -> tuple[str, ...]:
    """Each goes first in every other round."""
    if work in OURS_ALONE or is_alone:
        return (PENSTOCK,)
    return (PENSTOCK, OFFICIAL) if round_number % 2 == 0 else (OFFICIAL, PENSTOCK)


def plan(
    server: ServerProcess,
    work: str,
    connector: str,
    topics: dict[str, str],
    scale: SparkScale,
    directory: Path,
    jars: tuple[str, ...],
) -> Spec:
    is_job = work in FULL_TOPIC_JOBS
    is_small = work.startswith("latency")
    source = topics["lines" if is_job else "rows"] if not is_small else create_topic(server, 1)
    return Spec(
        work=work,
        connector=connector,
        bootstrap=server.bootstrap_servers,
        source=source,
        target=create_topic(server, 1 if is_small else PARTITIONS),
        rows=scale.lines if is_job else scale.rows,
        records=scale.records,
        directory=str(directory),
        jars=jars,
        steady_seconds=scale.steady_seconds,
    )


def run(spec: Spec) -> dict[str, Any]:
    command = [sys.executable, "-m", WORKS[spec.work], spec.to_json()]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=WORK_TIMEOUT_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{spec.work} with {spec.connector} took more than {WORK_TIMEOUT_S:.0f} s") from None
    if ended.returncode != 0:
        raise BenchError(f"{spec.work} with {spec.connector} failed:\n{ended.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def keep(result: SparkResult, spec: Spec, found: dict[str, Any], number: int) -> None:
    if profile := found.pop("profile", None):
        result.profiles[spec.work] = profile
    figures: Figures = found
    for key, value in figures.items():
        result.samples[spec.connector][key].append(value)
    shown = "  ".join(f"{key} {value:,.1f}" for key, value in figures.items())
    print(f"Spark, {spec.connector}: round {number + 1}: {shown}", flush=True)


def preload(server: ServerProcess, names: list[str], scale: SparkScale) -> dict[str, str]:
    """Both connectors read the same log, so how it was cut into batches is the same for both."""
    topics: dict[str, str] = {}
    if any(name.startswith("spark-read") for name in names):
        topics["rows"] = create_topic(server, PARTITIONS)
        padding = bytes(VALUE_BYTES - 10)
        rows = (b"%010d" % number + padding for number in range(scale.rows))
        fill(server, topics["rows"], rows)
    else:
        topics["rows"] = ""
    if any(name.removeprefix("spark-") in FULL_TOPIC_JOBS for name in names):
        topics["lines"] = create_topic(server, PARTITIONS)
        lines = LogLines([str(octet) for octet in DEFAULT_OCTETS])
        chunks = (lines.take(CHUNK) for _ in range(scale.lines // CHUNK))
        fill(server, topics["lines"], itertools.chain.from_iterable(chunks))
    return topics


def fill(server: ServerProcess, topic: str, values: Any) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": server.bootstrap_servers, "log_level": 0, "linger.ms": 50}
    producer = confluent_kafka.Producer(settings)
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, partition=number // CHUNK % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(PATIENCE_S):
        raise BenchError(f"{left} records of the preload were not acknowledged within {PATIENCE_S:.0f} s")


def create_topic(server: ServerProcess, partitions: int) -> str:
    name = f"bench-spark-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
    return name
