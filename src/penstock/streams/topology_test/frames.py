"""Records of a test as frames of Spark, as the source of topics gives them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

from penstock.streams.topology_test.records import RawRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PARTITION = 0  # a topic of a test has one partition, so that offsets order its records
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HEADERS = "headers"
_HEADERS_TYPE = "array<struct<key: string, value: binary>>"


def arrow_table(topic: str, records: Sequence[RawRecord], first_offset: int = 0) -> pa.Table:
    """With headers."""
    import pyarrow as pa

    from penstock.pipelines.source.columns import CREATE_TIME, SCHEMA_WITH_HEADERS

    rows = [
        {
            "key": each.key,
            "value": each.value,
            "topic": topic,
            "partition": _PARTITION,
            "offset": offset,
            "timestamp": each.timestamp_ms * 1000,
            "timestampType": CREATE_TIME,
            _HEADERS: [{"key": name, "value": value} for name, value in each.headers],
        }
        for offset, each in enumerate(records, first_offset)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA_WITH_HEADERS)


def columns_ddl(with_headers: bool) -> str:
    """Of a topic's frame, with headers if the source wants them."""
    from penstock.pipelines.source.columns import DDL, DDL_WITH_HEADERS

    return DDL_WITH_HEADERS if with_headers else DDL


def frame(spark: SparkSession, topics: Mapping[str, Sequence[RawRecord]], with_headers: bool) -> DataFrame:
    """Records by topic. Small enough to be a part of the plan: Spark reads nothing for it."""
    tables = [arrow_table(topic, records) for topic, records in topics.items() if records]
    if not tables:
        return spark.createDataFrame([], columns_ddl(with_headers))
    import pyarrow as pa

    table = pa.concat_tables(tables)
    return spark.createDataFrame(table if with_headers else table.drop_columns([_HEADERS]))


def united(outputs: Iterable[DataFrame]) -> DataFrame:
    """Records of several outputs of a query in one frame, so that they are one job: each with the output's number."""
    from pyspark.sql import functions as F

    frames = []
    for number, rows in enumerate(outputs):
        timestamp = F.col("timestamp") if "timestamp" in rows.columns else F.lit(None)
        headers = F.col(_HEADERS) if _HEADERS in rows.columns else F.lit(None)
        topic = F.col("topic") if "topic" in rows.columns else F.lit(None)
        frames.append(
            rows.select(
                F.lit(number).alias("output"),
                F.col("key").cast("binary").alias("key"),
                F.col("value").cast("binary").alias("value"),
                timestamp.cast("timestamp").alias("timestamp"),
                headers.cast(_HEADERS_TYPE).alias(_HEADERS),
                topic.cast("string").alias("topic"),
            )
        )
    return reduce(lambda left, right: left.unionAll(right), frames)


def collected(rows: DataFrame, count: int) -> list[list[RawRecord]]:
    """The records of a frame from `united`, per output and in its order."""
    outputs: list[list[RawRecord]] = [[] for _ in range(count)]
    for row in rows.toArrow().to_pylist():
        time, headers = _milliseconds(row["timestamp"]), _headers(row[_HEADERS])
        outputs[row["output"]].append(RawRecord(row["key"], row["value"], time, headers, row["topic"]))
    return outputs


def _milliseconds(time: datetime | None) -> int:
    """Dead letters have no time of their own: the producer's would be now."""
    return 0 if time is None else (time - _EPOCH) // timedelta(milliseconds=1)


def _headers(given: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    return tuple((each["key"], each["value"]) for each in given or ())
