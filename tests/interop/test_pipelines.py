"""Tests of the Spark source and sink once more, against Apache Kafka: what holds there is Kafka's
behaviour and not just ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from apache_kafka.node import ApacheKafkaNode

REPOSITORY = Path(__file__).parents[2]
FILES = (
    "test_source_batch.py",
    "test_topic_sink.py",
    "test_topic_sink_transactions.py",
)
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
