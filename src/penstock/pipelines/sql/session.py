"""The Spark session that answers questions: quick to start, quiet, and with Hive's tables where they are asked for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from penstock.pipelines.running.session import DEFAULT_MASTER, LOCAL_DEFAULTS, start_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.app.name": "penstock-sql",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    # Questions that come by the data source, in streams and views, tell it their bounds.
    "spark.sql.python.filterPushdown.enabled": "true",
}
_HIVE = {"spark.sql.catalogImplementation": "hive"}


def sql_settings(given: Mapping[str, str], *, is_hive: bool = False, cores: int | None = None) -> dict[str, str]:
    """Settings of the user win. `cores` of this machine."""
    master = given.get("spark.master") or ("" if "PYSPARK_GATEWAY_PORT" in os.environ else DEFAULT_MASTER)
    chosen = dict(_DEFAULTS)
    if master.startswith("local"):
        chosen |= LOCAL_DEFAULTS
        chosen["spark.sql.shuffle.partitions"] = str(cores or os.cpu_count() or 1)
    if is_hive:
        chosen |= _HIVE
    return chosen | dict(given) | ({"spark.master": master} if master else {})


def open_sql_session(given: Mapping[str, str], *, is_hive: bool = False) -> SparkSession:
    return start_session(sql_settings(given, is_hive=is_hive))


def warm_up(spark: SparkSession) -> None:
    """Starts a Python worker for each core, and lets Java load and compile what the first question needs."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with contextlib.suppress(
        PySparkException, Py4JError, OSError
    ):  # the session is closed again, or a job is cancelled
        cores = spark.sparkContext.defaultParallelism
        rows = spark.range(0, cores, 1, cores).mapInArrow(_pass_on, "id long")
        spark.sql("SELECT id, count(*) AS n FROM {rows} WHERE id >= 0 GROUP BY id ORDER BY n", rows=rows).toArrow()
        rows.limit(10).toArrow()


def _pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import penstock.pipelines.tables.scan  # noqa: F401  # takes most of a worker's first start

    yield from batches
