"""Topics with payloads of every kind, for the tests of tables: written with confluent-kafka and fastavro."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from penstock.pipelines.payloads.formats import RegistryAddress
from penstock.pipelines.tables.catalog import Catalog
from penstock.pipelines.tables.connection import KafkaConnection
from penstock.pipelines.tables.scan import TableScan, plan_tasks
from tests.pipelines.topics import Topics

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "_offset", "type": "double"},
    ],
}


def avro(schema: Mapping[str, Any], schema_id: int, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, dict(schema), value)
    return b"\0" + struct.pack(">I", schema_id) + out.getvalue()


class TableTopics(Topics):
    """A broker and its registry."""

    def __init__(self, bootstrap: str, registry_url: str) -> None:
        super().__init__(bootstrap)
        self.registry = SchemaRegistryClient({"url": registry_url})
        self.connection = KafkaConnection(bootstrap, registry=RegistryAddress.of({"schema.registry.url": registry_url}))

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        return int(self.registry.register_schema(subject, Schema(json.dumps(schema), "AVRO")))

    def write(self, topic: str, records: Iterable[Mapping[str, Any]]) -> None:
        """What confluent-kafka's `produce` takes."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5})
        for record in records:
            producer.produce(topic, **record)
        assert producer.flush(30) == 0

    def orders(self, topic: str, count: int, partitions: int = 1) -> int:
        """Orders with even keys, one after the other over partitions. Returns the schema's id."""
        schema_id = self.register(f"{topic}-value", ORDER)
        values: Iterator[dict[str, Any]]
        values = ({"id": each, "customer": f"c{each % 7}", "_offset": each / 4} for each in range(count))
        self.write(
            topic,
            (
                {
                    "value": avro(ORDER, schema_id, value),
                    "key": f"k{value['id'] % 10}",
                    "partition": value["id"] % partitions,
                    "timestamp": 1_700_000_000_000 + value["id"],
                }
                for value in values
            ),
        )
        return schema_id

    def scan(self, name: str, columns: Iterable[str] | None = None, cores: int = 1, **changes: Any) -> TableScan:
        with Catalog(replace(self.connection, **changes.pop("connection", {}))) as catalog:
            table = catalog.table(name)
            ranges = catalog.ranges([table.topic])
            fetch = catalog.connection.fetch_options()
        wanted = tuple(each.name for each in table.columns) if columns is None else tuple(columns)
        return TableScan(table, wanted, plan_tasks(ranges, cores), fetch, **changes)

    def rows(self, name: str, columns: Iterable[str] | None = None, **changes: Any) -> list[dict[str, Any]]:
        """Without Spark."""
        scan = self.scan(name, columns, **changes)
        numbers = pa.RecordBatch.from_pydict({"id": list(range(len(scan.tasks)))})
        batches = list(scan.read(iter([numbers])))
        assert all(each.schema == scan.schema for each in batches)
        return [row for each in batches for row in each.to_pylist()]
