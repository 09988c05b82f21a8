"""Batches of Protobuf payloads as columns, by the quick reader and by protobuf's runtime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.decoding import Columns, decode_batch
from penstock.serdes.columns.protobuf import ProtobufColumns
from penstock.serdes.framing import header_value, prefix, write_indexes

GUID = "6c8dd09e-3b93-4b4f-8a8c-0f0d6b1e8d11"
TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Other { message Inner { int32 x = 1; } }
enum Colour { RED = 0; BLUE = 1; }
message Order {
  int64 id = 1;
  string name = 2;
  repeated uint32 counts = 3;
  map<string, uint64> totals = 4;
  oneof choice { string text = 5; Other.Inner inner = 6; }
  optional int32 maybe = 7;
  Colour colour = 8;
  google.protobuf.Timestamp at = 9;
  google.protobuf.Duration took = 10;
  google.protobuf.StringValue wrapped = 11;
  bytes raw = 12;
  double price = 13;
  repeated Other.Inner inners = 14;
}
message Tree { int32 n = 1; repeated Tree children = 2; }
"""


def proto() -> ProtobufSchema:
    parsed = parse(SchemaType.PROTOBUF, TEXT)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


def new(schema: ProtobufSchema, kind: str, **fields: Any) -> Any:
    return message_factory.GetMessageClass(schema.described()[0].FindMessageTypeByName(kind))(**fields)


def orders(schema: ProtobufSchema) -> list[Any]:
    full = new(schema, "shop.Order", id=1, name="é", counts=[1, 2**32 - 1], text="t", maybe=0, colour=7, raw=b"\xff")
    full.totals["a"] = 2**64 - 1
    full.at.FromDatetime(datetime(1969, 1, 2, 3, 4, 5, 6, tzinfo=UTC))
    full.took.FromTimedelta(timedelta(seconds=-1, microseconds=-5))
    full.wrapped.value = ""
    full.inners.add(x=4)
    chosen = new(schema, "shop.Order", price=0.5, colour=1)
    chosen.inner.x = 3
    return [full, new(schema, "shop.Order"), chosen]


def decoded(decoder: ProtobufColumns, rows: list[bytes | None]) -> Columns:
    columns = decode_batch(pa.array(rows, pa.binary()), {7: decoder}, decoder.type)
    columns.values.validate(full=True)
    return columns


@pytest.mark.parametrize("is_quick", [True, False])
def test_values_are_those_of_the_messages(is_quick: bool) -> None:
    schema = proto()
    decoder = ProtobufColumns(schema, "Order", is_quick=is_quick)
    rows = [prefix(7) + write_indexes([1]) + each.SerializeToString() for each in orders(schema)]
    columns = decoded(decoder, rows)
    assert columns.errors.null_count == 3, columns.errors
    full, empty, chosen = columns.values.to_pylist()
    assert full["id"] == 1
    assert full["counts"] == [1, 2**32 - 1]
    assert full["totals"] == [("a", 2**64 - 1)]
    assert (full["text"], full["inner"], full["maybe"], full["colour"]) == ("t", None, 0, "7")
    assert full["at"] == datetime(1969, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert (full["took"], full["wrapped"], full["raw"]) == (timedelta(seconds=-1, microseconds=-5), "", b"\xff")
    assert full["inners"] == [{"x": 4}]
    assert (empty["maybe"], empty["colour"], empty["counts"], empty["totals"]) == (None, "RED", [], [])
    assert (chosen["inner"], chosen["text"], chosen["price"], chosen["colour"]) == ({"x": 3}, None, 0.5, "BLUE")


@pytest.mark.parametrize("is_quick", [True, False])
def test_rows_are_unharmed_when_others_do_not_parse_or_hold_another_message(is_quick: bool) -> None:
    schema = proto()
    decoder = ProtobufColumns(schema, "Order", is_quick=is_quick)
    good = [prefix(7) + write_indexes([1]) + each.SerializeToString() for each in orders(schema)]
    usual = prefix(7) + write_indexes([1])
    bad = [
        prefix(7),
        usual + b"\x12\x7f",
        usual + b"\x12\x02\xff\xfe",
        prefix(7) + b"\0\x08\x01",
        prefix(7) + b"\x02\x12",
    ]
    columns = decoded(decoder, [good[0], *bad, *good[1:]])
    assert columns.values.is_valid().to_pylist() == [True, *[False] * 5, True, True]
    assert columns.values.take(pa.array([0, 6, 7])).equals(decoded(decoder, list(good)).values)
    assert columns.errors.to_pylist()[1:6] == [
        "schema 7: the payload ends in its message indexes",
        "schema 7: the payload is not one of shop.Order: Wire format was corrupt",
        "schema 7: the payload is not one of shop.Order: String field had bad UTF-8",
        "schema 7: the payload has the message shop.Other, not shop.Order",
        "schema 7: the schema has no message at [9]",
    ]


def test_indexes_of_nested_messages_are_read_before_the_payload_and_in_headers() -> None:
    decoder = ProtobufColumns(proto(), "Other.Inner")
    inside = prefix(7) + write_indexes([0, 0]) + b"\x08\x05"
    header = header_value(GUID) + write_indexes([0, 0])
    columns = decode_batch(
        pa.array([inside, b"\x08\x06"], pa.binary()),
        {7: decoder, GUID: decoder},
        decoder.type,
        pa.array([None, header], pa.binary()),
    )
    assert columns.values.to_pylist() == [{"x": 5}, {"x": 6}]


def test_a_message_within_itself_is_json_text() -> None:
    schema = proto()
    tree = new(schema, "shop.Tree", n=1)
    tree.children.add(n=2).children.add(n=3)
    columns = decoded(ProtobufColumns(schema, "Tree"), [prefix(7) + write_indexes([2]) + tree.SerializeToString()])
    assert columns.values.to_pylist() == [{"n": 1, "children": ['{"n": 2, "children": [{"n": 3}]}']}]


def test_the_process_lives_when_a_payload_has_groups_in_groups() -> None:
    schema = proto()
    usual = prefix(7) + write_indexes([1])
    nested = [usual + b"\xfb\x01" * 500_000, usual + b"\xfb\x01" * 500_000 + b"\xfc\x01" * 500_000]
    columns = decoded(ProtobufColumns(schema, "Order"), [*nested, usual + b"\x08\x05"])
    assert columns.values.field("id").to_pylist()[2] == 5
    assert columns.errors[0].as_py() == "schema 7: the payload is not one of shop.Order: Wire format was corrupt"
