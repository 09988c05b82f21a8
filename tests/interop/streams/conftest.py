"""Kafka Streams as the judge of penstock.streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.streams import Settings
from penstock.streams.topology_test.session import session_for_tests
from tests.interop.streams.oracle import compile_oracle

# The workers of several queries start at once, on two cores that other tests use, too.
PATIENT = {"spark.python.authenticate.socketTimeout": "120s", "spark.python.unix.domain.socket.enabled": "true"}


@pytest.fixture(scope="session")
def oracle_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_oracle(tmp_path_factory.mktemp("oracle-classes"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = session_for_tests(None, Settings(parallelism=1, spark=PATIENT))
    yield session
    session.stop()
