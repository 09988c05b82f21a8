"""Spark once more, against Apache Kafka: the tests of source and sink, since what holds there is Kafka's behaviour and
not just ours, and some kills, since a pipeline's promises must not need our broker."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from apache_kafka.cluster import ApacheKafkaCluster
from apache_kafka.node import ApacheKafkaNode
from proof.pipeline.brokers import Broker
from proof.pipeline.rounds import PipelineRounds

REPOSITORY = Path(__file__).parents[3]
FILES = (
    "test_source_batch.py",
    "test_source_stream.py",
    "test_topic_sink.py",
    "test_topic_sink_delivery.py",
    "test_topic_sink_transactions.py",
    "test_runner.py",
    "tables/test_sql_questions.py",
    "tables/test_table_source.py",
)
KILLS = 20
LIMIT_S = 900


@pytest.mark.timeout(LIMIT_S + 60)
def test_the_pipeline_tests_pass_when_the_broker_is_apache_kafka(apache_kafka: ApacheKafkaNode) -> None:
    """In a process of its own: a JVM has one Spark context, and the connector's tests have another."""
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *(f"tests/pipelines/{name}" for name in FILES),
    ]
    environment = os.environ | {"PENSTOCK_TEST_BOOTSTRAP": apache_kafka.bootstrap_servers}
    ended = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("apache_kafka")  # where it cannot be had, this says so
@pytest.mark.parametrize("make_broker", [ApacheKafkaNode, ApacheKafkaCluster])
def test_each_record_is_there_once_when_kills_meet_a_pipeline_on_apache_kafka(
    tmp_path: Path, make_broker: Callable[[Path], Broker]
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"pipeline rounds with seed {seed}")
    rounds = PipelineRounds(tmp_path / "rounds", KILLS, seed, say=print, make_broker=make_broker)
    report = rounds.run()
    assert report.is_sound, str(report)
    assert sum(report.kills.values()) == KILLS
