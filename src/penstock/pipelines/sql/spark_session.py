"""The Spark session that answers queries: quick to start, and with Hive's tables where the user wants them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import takewhile
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.pipelines.runtime.spark.session import DEFAULT_MASTER, LOCAL_DEFAULTS, start_session
from penstock.pipelines.sql.pushdown import pushdown_of
from penstock.pipelines.sql.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEFAULTS = {
    "spark.app.name": "penstock-sql",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}
# A task is tried once: a row that does not decode will not the next time, and the reader has waited for the broker
# already. The user can repeat a query. A stream has no user to do so, and tries four times, as pipelines do.
_MASTER, _MASTER_OF_STREAMS = "local[*]", DEFAULT_MASTER
_HIVE = {"spark.sql.catalogImplementation": "hive"}

# The warm-up is a query over a topic that does not exist, which goes the way of every query: markers, the plan as
# JSON, views, workers and Arrow. Java loads and compiles classes when they are first needed, and workers take a moment
# to start. The workers make the rows themselves, and no broker gets a request.
_NAME = "warm"
_QUESTION = (
    "SELECT name, count(*) AS n, sum(price) AS total, max(_timestamp) AS last FROM warm"
    " WHERE _offset >= 0 AND name IS NOT NULL GROUP BY name ORDER BY n DESC"
)
_EVERYTHING = "SELECT * FROM warm"
_SCHEMA = pa.schema(
    {
        "name": pa.string(),
        "price": pa.float64(),
        "_key": pa.string(),
        "_partition": pa.int32(),
        "_offset": pa.int64(),
        "_timestamp": pa.timestamp("us", "UTC"),
    }
)
_FEW = 10


def sql_settings(
    given: Mapping[str, str], *, is_hive: bool = False, is_stream: bool = False, cores: int | None = None
) -> dict[str, str]:
    """Settings of the user win. `cores` of this machine."""
    ours = _MASTER_OF_STREAMS if is_stream else _MASTER
    master = given.get("spark.master") or ("" if "PYSPARK_GATEWAY_PORT" in os.environ else ours)
    chosen = dict(_DEFAULTS)
    if master.startswith("local"):
        chosen |= LOCAL_DEFAULTS
        chosen["spark.python.daemon.module"] = "penstock.pipelines.tables.worker_daemon"
        chosen["spark.sql.shuffle.partitions"] = str(cores or os.cpu_count() or 1)
    if is_hive:
        chosen |= _HIVE
    return chosen | dict(given) | ({"spark.master": master} if master else {})


def open_spark_session(given: Mapping[str, str], *, is_hive: bool = False, is_stream: bool = False) -> SparkSession:
    return start_session(sql_settings(given, is_hive=is_hive, is_stream=is_stream))


def warm_up(spark: SparkSession, is_over: Callable[[], bool] = lambda: False) -> None:
    """Ends between two steps when `is_over`: a question that has come does the rest itself, and needs the cores.
    Fails silently: the session may be closed again, or jobs cancelled."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with suppress(PySparkException, Py4JError, OSError):
        for _ in takewhile(lambda _: not is_over(), _steps(spark)):
            pass


def _steps(spark: SparkSession) -> Iterator[None]:
    from pyspark.sql.pandas.types import from_arrow_schema

    sessions, schema = Sessions(spark), from_arrow_schema(_SCHEMA)
    cores = spark.sparkContext.defaultParallelism
    few = spark.createDataFrame(pa.Table.from_batches(_rows(iter([pa.record_batch({"id": [0]})]))), schema)
    session = sessions.open()
    session.parse(_QUESTION)
    session.is_known(_NAME)
    session.put_view(_NAME, sessions.marker(_NAME, schema))
    pushdown_of(*session.optimized_json(session.analyze(_QUESTION)))
    yield
    rows = spark.range(0, cores, 1, cores).mapInArrow(_rows, schema)
    read = [name for name in rows.columns if name != "_key"]
    session.put_view(_NAME, rows.selectExpr(*read, "CAST(NULL AS STRING) AS _key"))
    session.frame(session.analyze(_QUESTION)).limit(_FEW).toArrow()
    yield
    session.put_view(_NAME, few)
    session.frame(session.analyze(_EVERYTHING)).limit(_FEW).toArrow()


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each of the batches' rows, in a worker."""
    import penstock.pipelines.tables.scan  # noqa: F401  # where no daemon of ours has imported it

    for batch in batches:
        row = {"name": "a", "price": 1.0, "_key": None, "_partition": 0, "_offset": 0, "_timestamp": 0}
        yield pa.RecordBatch.from_pylist([row] * batch.num_rows, _SCHEMA)
