"""One Spark session and one broker a test process. PENSTOCK_TEST_BOOTSTRAP points the tests at another Kafka broker."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from penstock.pipelines.spark_home import leave_out_archive
from penstock.testing.processes import BrokerProcess
from tests.shared_brokers import SHARED_BROKER

# For every JVM that the tests start: none lives long enough for the second compiler to pay, and there are two cores.
# Spark's classes are those of the locked wheel: verifying them again takes 3 of the 17 s of CPU time of a start.
# An archive of the classes would save 3 s more of each start, and takes 50 s to make.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)
# Long enough for a busy machine: the JVM removes its temporary directories when it ends.
JAVA_END_TIMEOUT_S = 60


@pytest.fixture(scope="session", autouse=True)
def spark_home() -> None:
    """Also for sessions that a test starts by itself, and for drivers in processes of their own."""
    leave_out_archive()


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    given = os.environ.get("PENSTOCK_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    with BrokerProcess(tmp_path_factory.mktemp("broker"), config=SHARED_BROKER) as process:
        yield process.bootstrap_servers


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # not whichever python3 comes first
    home = tmp_path_factory.mktemp("spark")
    settings: dict[str, str | Path | int] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": home / "local",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": home / "warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={home}",
        # On a TCP port a client of another test, whose broker had that port before, can be the first one to connect.
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("penstock-tests")
    for key, value in settings.items():
        builder = builder.config(key, str(value))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
    end_java()


def end_java() -> None:
    """The CPU time of a process that nobody waits for is in no sum. PySpark leaves its JVM behind, and the JVM takes
    most of what these tests take.
    """
    gateway: Any = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()  # at which the JVM ends
    gateway.proc.wait(JAVA_END_TIMEOUT_S)
