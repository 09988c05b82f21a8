"""The data of the questions: a day of orders as a topic in Avro, framed for the registry, and the same as Parquet.

Batches have 16 KiB, the most that a Java producer makes by default: an hour is cut out of the day no finer than out of
a real one.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from bench.errors import BenchError
from penstock.schemas.parsing import parse
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.encoding.open_encoding import open_encoding

TOPIC = "orders"
PARTITIONS = 4
HOURS = 24
HOUR_MS = 3_600_000
BATCH_BYTES = 16_384
CUSTOMERS = 20_000
COUNTRIES = ("at", "be", "ch", "de", "dk", "es", "fr", "it", "nl", "pl", "pt", "se")
NOTES = (
    "leave it at the neighbours' door, please",
    "ring twice; the bell is the one without a name on it",
    "a present",
)
PATIENCE_S = 60.0
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "bench",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "country", "type": "string"},
            {"name": "quantity", "type": "int"},
            {"name": "amount", "type": "double"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "ordered", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
)


@dataclass(frozen=True, slots=True)
class Day:
    """What the questions are asked about."""

    count: int
    start_ms: int

    @property
    def end_ms(self) -> int:
        return self.start_ms + HOURS * HOUR_MS


def write_day(bootstrap: str, registry: str, parquet: Path, count: int) -> Day:
    """The day ends about now."""
    day = Day(count, int(time.time()) // 60 * 60_000 - HOURS * HOUR_MS)
    columns, keys, timestamps = make_orders(day)
    schema_id = SchemaRegistryClient({"url": registry}).register_schema(f"{TOPIC}-value", Schema(SCHEMA, "AVRO"))
    encoded = open_encoding(parse(SchemaType.AVRO, SCHEMA)).encode(columns)
    if encoded.errors:
        raise BenchError(f"the orders do not fit their schema: {next(iter(encoded.errors.values()))}")
    prefix = b"\x00" + schema_id.to_bytes(4, "big")
    partitions = np.arange(count) % PARTITIONS
    _create_topic(bootstrap)
    _send(bootstrap, keys, [prefix + each for each in encoded.payloads.to_pylist()], timestamps, partitions)
    _write_parquet(parquet, columns, keys, timestamps, partitions)
    return day


def make_orders(day: Day) -> tuple[pa.StructArray, list[bytes], Any]:
    """The orders, their keys and their timestamps. A customer's orders are all in one partition."""
    chance = np.random.default_rng(1)
    customers = chance.integers(0, CUSTOMERS // PARTITIONS, day.count) * PARTITIONS + np.arange(day.count) % PARTITIONS
    timestamps = day.start_ms + np.arange(day.count) * (HOURS * HOUR_MS) // day.count
    names = ("id", "country", "quantity", "amount", "note", "ordered")
    columns = [
        pa.array([str(UUID(int=number << 64 | number)) for number in range(day.count)]),
        pa.array(COUNTRIES).take(pa.array(chance.integers(0, len(COUNTRIES), day.count))),
        pa.array(chance.integers(1, 10, day.count), pa.int32()),
        pa.array(np.round(chance.random(day.count) * 1000, 2)),
        # An index that is null gives a null.
        pa.array(NOTES).take(pa.array(chance.integers(0, len(NOTES), day.count), mask=chance.random(day.count) < 0.1)),
        pa.array(timestamps, pa.timestamp("ms", "UTC")),
    ]
    return pa.StructArray.from_arrays(columns, names), [b"customer-%05d" % each for each in customers], timestamps


def _create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_S)


def _send(bootstrap: str, keys: list[bytes], values: list[bytes], timestamps: Any, partitions: Any) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 50}
    producer = confluent_kafka.Producer(settings | {"batch.size": BATCH_BYTES, "acks": "1"})
    records = zip(keys, values, timestamps.tolist(), partitions.tolist(), strict=True)
    for key, value, timestamp, partition in records:
        while True:
            try:
                producer.produce(TOPIC, value, key, partition, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.1)
    if left := producer.flush(PATIENCE_S):
        raise BenchError(f"{left} orders were not acknowledged within {PATIENCE_S:.0f} s")


def _write_parquet(
    directory: Path, columns: pa.StructArray, keys: list[bytes], timestamps: Any, partitions: Any
) -> None:
    """With our columns, too; a file for each partition."""
    directory.mkdir(parents=True)
    names = [columns.type.field(number).name for number in range(columns.type.num_fields)]
    table = pa.table(dict(zip(names, columns.flatten(), strict=True)))
    table = table.append_column("_key", pa.array([key.decode() for key in keys]))
    table = table.append_column("_partition", pa.array(partitions, pa.int32()))
    table = table.append_column("_offset", pa.array(np.arange(len(keys)) // PARTITIONS))
    table = table.append_column("_timestamp", pa.array(timestamps, pa.timestamp("ms", "UTC")))
    for partition in range(PARTITIONS):
        part = table.take(pa.array(np.flatnonzero(partitions == partition)))
        pq.write_table(part, directory / f"part-{partition}.parquet", compression="snappy")
