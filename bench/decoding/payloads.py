"""The records that are decoded: six fields, framed as serializers write them, and how others read them."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
from google.protobuf import message_factory

from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import ParsedSchema, SchemaType
from penstock.serdes.framing import prefix

SCHEMA_ID = 7
SEED = 1
STATES = ("NEW", "PAID", "SENT")

AVRO_TEXT = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "amount", "type": "double"},
            {"name": "note", "type": ["null", "string"]},
            {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "state", "type": {"type": "enum", "name": "State", "symbols": STATES}},
        ],
    }
)
PROTOBUF_TEXT = """
syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; double amount = 3; optional string note = 4; int64 placed = 5; State state = 6;
}
enum State { NEW = 0; PAID = 1; SENT = 2; }
"""
JSON_TEXT = json.dumps(
    {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "customer": {"type": "string"},
            "amount": {"type": "number"},
            "note": {"type": ["null", "string"]},
            "placed": {"type": "integer"},
            "state": {"type": "string"},
        },
    }
)


def orders(count: int) -> list[dict[str, Any]]:
    chosen = random.Random(SEED)
    return [
        {
            "id": number * 7919,
            "customer": f"customer-{chosen.randrange(10_000)}",
            "amount": chosen.random() * 100,
            "note": "left at the door" if number % 3 == 0 else None,
            "placed": 1_700_000_000_000 + number,
            "state": chosen.choice(STATES),
        }
        for number in range(count)
    ]


class AvroOrders:
    schema_type = SchemaType.AVRO

    def __init__(self) -> None:
        self.schema: ParsedSchema = parse(SchemaType.AVRO, AVRO_TEXT)
        self._parsed = fastavro.parse_schema(json.loads(AVRO_TEXT))

    def written(self, order: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._parsed, order)
        return prefix(SCHEMA_ID) + out.getvalue()

    def read_singly(self, payloads: pa.Array) -> pa.Array:
        """By fastavro."""
        read, parsed = fastavro.schemaless_reader, self._parsed
        return pa.array([read(io.BytesIO(each[5:]), parsed, None) for each in payloads.to_pylist()])


class ProtobufOrders:
    schema_type = SchemaType.PROTOBUF

    def __init__(self) -> None:
        schema = parse(SchemaType.PROTOBUF, PROTOBUF_TEXT)
        assert isinstance(schema, ProtobufSchema)
        self.schema: ParsedSchema = schema
        self._message: Any = message_factory.GetMessageClass(schema.described()[0].FindMessageTypeByName("Order"))

    def written(self, order: dict[str, Any]) -> bytes:
        payload: bytes = self._message(**order).SerializeToString()
        return prefix(SCHEMA_ID) + b"\0" + payload

    def read_singly(self, payloads: pa.Array) -> pa.Array:
        """By protobuf's runtime, which is written in C."""
        read = self._message.FromString
        names = STATES
        rows = []
        for each in payloads.to_pylist():
            found = read(each[6:])
            note = found.note if found.HasField("note") else None
            row = {"id": found.id, "customer": found.customer, "amount": found.amount, "note": note}
            rows.append({**row, "placed": found.placed, "state": names[found.state]})
        return pa.array(rows)


class JsonOrders:
    schema_type = SchemaType.JSON

    def __init__(self) -> None:
        self.schema: ParsedSchema = parse(SchemaType.JSON, JSON_TEXT)

    def written(self, order: dict[str, Any]) -> bytes:
        return prefix(SCHEMA_ID) + json.dumps(order).encode()

    def read_singly(self, payloads: pa.Array) -> pa.Array:
        """By msgspec."""
        return pa.array([msgspec.json.decode(each[5:]) for each in payloads.to_pylist()])


Orders = AvroOrders | ProtobufOrders | JsonOrders
ORDERS: tuple[type[Orders], ...] = (AvroOrders, ProtobufOrders, JsonOrders)
