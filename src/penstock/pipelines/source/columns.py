"""The columns of a record as Spark wants them, in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.types import TopicPartition

HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS_TYPE))
# The same for Spark, as it writes schemas.
DDL = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
DDL_WITH_HEADERS = f"{DDL}, headers array<struct<key: string, value: binary>>"

CREATE_TIME = 0
LOG_APPEND_TIME = 1

# Spark keeps times in microseconds, Kafka in milliseconds; what a producer made up beyond that range is held at its
# edge.
_MAX_TIMESTAMP_MS = (2**63 - 1) // 1000


def build_rows(
    partition: TopicPartition,
    keys: pa.Array,
    values: pa.Array,
    offsets: NDArray[np.int64],
    timestamps_ms: NDArray[np.int64],
    timestamp_types: NDArray[np.int32],
    headers: pa.Array | None = None,
) -> pa.RecordBatch:
    count = len(offsets)
    microseconds = np.clip(timestamps_ms, -_MAX_TIMESTAMP_MS, _MAX_TIMESTAMP_MS) * 1000
    columns = [
        keys,
        values,
        pa.repeat(pa.scalar(partition.topic, pa.string()), count),
        pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
        pa.array(offsets, pa.int64()),
        pa.array(microseconds, pa.int64()).view(pa.timestamp("us", tz="UTC")),
        pa.array(timestamp_types, pa.int32()),
    ]
    if headers is None:
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    return pa.RecordBatch.from_arrays([*columns, headers], schema=SCHEMA_WITH_HEADERS)


def bare_rows(partition: TopicPartition, count: int) -> pa.RecordBatch:
    """Rows of which only the topic and the partition are known."""
    known = {"topic": pa.scalar(partition.topic), "partition": pa.scalar(partition.partition, pa.int32())}
    columns = [
        pa.repeat(known[each.name], count) if each.name in known else pa.nulls(count, each.type) for each in SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
