"""Kafka Streams as the judge of penstock.streams."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.streams.oracle import compile_oracle
from tests.pipelines.conftest import spark, spark_home

__all__ = ["oracle_classes", "spark", "spark_home"]


@pytest.fixture(scope="session")
def oracle_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_oracle(tmp_path_factory.mktemp("oracle-classes"))
