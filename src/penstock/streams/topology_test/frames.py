"""Records of a test as frames of Spark, as a source of topics gives them, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.streams.topology_test.records import RawRecord

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_PARTITION = 0  # a topic of a test has one partition, so that offsets order its records
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# As DDL, what `arrow_table` has.
RAW_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


def arrow_table(topic: str, records: Sequence[RawRecord], first_offset: int = 0) -> pa.Table:
    import pyarrow as pa

    count = len(records)
    headers = [[{"key": name, "value": value} for name, value in each.headers] for each in records]
    return pa.table(
        {
            "key": pa.array([each.key for each in records], pa.binary()),
            "value": pa.array([each.value for each in records], pa.binary()),
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([_PARTITION] * count, pa.int32()),
            "offset": pa.array(range(first_offset, first_offset + count), pa.int64()),
            "timestamp": pa.array([each.timestamp_ms * 1000 for each in records], pa.timestamp("us", "UTC")),
            "headers": pa.array(headers, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        }
    )


def frame(spark: SparkSession, topic: str, records: Sequence[RawRecord]) -> DataFrame:
    """Small enough to be a part of the plan: Spark reads nothing for it."""
    return spark.createDataFrame(arrow_table(topic, records)) if records else spark.createDataFrame([], RAW_COLUMNS)


def united(outputs: Iterable[DataFrame]) -> DataFrame:
    """Records of several outputs of a query in one frame, so that they are one job: each with the output's number."""
    from functools import reduce

    from pyspark.sql import functions as F

    frames = []
    for number, rows in enumerate(outputs):
        headers = F.col("headers") if "headers" in rows.columns else F.lit(None)
        frames.append(
            rows.select(
                F.lit(number).alias("output"),
                F.col("key").cast("binary").alias("key"),
                F.col("value").cast("binary").alias("value"),
                F.col("timestamp").cast("timestamp").alias("timestamp"),
                headers.cast("array<struct<key: string, value: binary>>").alias("headers"),
            )
        )
    return reduce(lambda left, right: left.unionAll(right), frames)


def collected(rows: DataFrame, count: int) -> list[list[RawRecord]]:
    """What `united` united, per output and in its order."""
    outputs: list[list[RawRecord]] = [[] for _ in range(count)]
    for row in rows.toArrow().to_pylist():
        outputs[row["output"]].append(
            RawRecord(row["key"], row["value"], _milliseconds(row["timestamp"]), _headers(row["headers"]))
        )
    return outputs


def _milliseconds(time: datetime) -> int:
    return (time - _EPOCH) // (datetime.resolution * 1000)


def _headers(given: list[dict[str, Any]] | None) -> tuple[tuple[str, bytes], ...]:
    return tuple((each["key"], each["value"]) for each in given or ())
