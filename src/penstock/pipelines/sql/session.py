"""The Spark session that answers questions: quick to start, quiet, and with Hive's tables where they are asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.pipelines.running.session import DEFAULT_MASTER, LOCAL_DEFAULTS, start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.app.name": "penstock-sql",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Questions that come by the data source, in streams and views, tell it their bounds.
    "spark.sql.python.filterPushdown.enabled": "true",
}
_TOLD_BY_US = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.api.python",
    "org.apache.spark.util.Utils",
    "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
    # A metastore that does not answer: ten thousand lines.
    "DataNucleus",
    "org.apache.hadoop.hive",
    "org.apache.spark.sql.hive",
    "hive",
)
# A task is tried once: a row that does not decode will not the next time, and the broker was waited for already.
# Whoever asks can ask again. A stream has nobody who does, and tries four times, as pipelines do.
_MASTER, _MASTER_OF_STREAMS = "local[*]", DEFAULT_MASTER
_HIVE = {"spark.sql.catalogImplementation": "hive"}


def sql_settings(
    given: Mapping[str, str], *, is_hive: bool = False, is_stream: bool = False, cores: int | None = None
) -> dict[str, str]:
    """Settings of the user win. `cores` of this machine."""
    ours = _MASTER_OF_STREAMS if is_stream else _MASTER
    master = given.get("spark.master") or ("" if "PYSPARK_GATEWAY_PORT" in os.environ else ours)
    chosen = dict(_DEFAULTS)
    if master.startswith("local"):
        chosen |= LOCAL_DEFAULTS
        chosen["spark.python.daemon.module"] = "penstock.pipelines.sql.worker_daemon"
        chosen["spark.sql.shuffle.partitions"] = str(cores or os.cpu_count() or 1)
    if is_hive:
        chosen |= _HIVE
    return chosen | dict(given) | ({"spark.master": master} if master else {})


def open_sql_session(given: Mapping[str, str], *, is_hive: bool = False, is_stream: bool = False) -> SparkSession:
    spark = start_session(sql_settings(given, is_hive=is_hive, is_stream=is_stream))
    _be_quiet(spark)
    return spark


def _be_quiet(spark: SparkSession) -> None:
    """A task that fails is told by the error of its question, once and without Java's stack."""
    java: Any = spark._jvm
    off, levels = java.org.apache.logging.log4j.Level.OFF, java.org.apache.logging.log4j.core.config.Configurator
    for name in _TOLD_BY_US:
        levels.setLevel(name, off)
