"""Batches of Protobuf payloads as columns, by the quick reader and by protobuf's runtime."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import message_factory

from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import Reference, ResolvedReference, SchemaType
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


def decoded(decoder: ProtobufColumns, rows: Sequence[bytes | None]) -> Columns:
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


WIDE = " ".join(f"int32 x{number} = {number};" for number in range(1, 101))
HOSTILE = f"""
syntax = "proto3";
message M {{ repeated Wide wides = 1; repeated int32 plain = 2 [packed = false]; M inner = 3; }}
message Wide {{ {WIDE} }}
"""


def test_rows_are_unharmed_when_one_has_more_of_anything_than_others() -> None:
    schema = parse(SchemaType.PROTOBUF, HOSTILE)
    assert isinstance(schema, ProtobufSchema)
    deep = b""
    for _ in range(150):
        deep = b"\x1a" + _size(len(deep)) + deep
    hostile = [
        b"\x10\x05" * 100_000,
        b"\xa0\x06\x05" * 100_000,
        b"\x0a\x00" * 200_000,
        b"\x0a" + b"\xff" * 8 + b"\x7f",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x12" + b"\xff" * 100_000,
        b"\x80" * 100_000,
        deep,
    ]
    good = b"\x0a\x02\x08\x07\x10\x01\x10\x02"
    rows = [prefix(7) + b"\0" + each for bad in hostile for each in (good, bad, good)]
    columns = decoded(ProtobufColumns(schema), rows)
    goods = columns.values.take(pa.array([row for row in range(len(rows)) if row % 3 != 1]))
    assert goods.field("plain").to_pylist() == [[1, 2]] * len(goods)
    assert [error is None for error in columns.errors.to_pylist()[1::3]] == [True] * 2 + [False] * 6
    assert columns.errors[7].as_py() == "schema 7: the messages in a list have more than 16777216 values"
    assert len(columns.values[1]["plain"]) == 100_000


def _size(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80, number >> 7])


def versions(old: str, new: str) -> tuple[ProtobufSchema, ProtobufSchema]:
    schemas = [parse(SchemaType.PROTOBUF, f'syntax = "proto3"; package shop; {text}') for text in (old, new)]
    assert all(isinstance(each, ProtobufSchema) for each in schemas)
    return schemas[0], schemas[1]  # type: ignore[return-value]


def test_fields_are_the_readers_when_the_writer_has_others() -> None:
    writer, reader = versions(
        "message Other {} message M { int32 a = 1; string gone = 2; bytes c = 3; }",
        "message M { int64 a = 1; string c = 3; optional string added = 4; repeated int32 d = 5; }",
    )
    payload = new(writer, "shop.M", a=-1, gone="x", c=b"text").SerializeToString()
    decoder = ProtobufColumns(writer, reader=reader)
    found = decoded(decoder, [prefix(7) + write_indexes([1]) + payload, prefix(7) + write_indexes([0])])
    assert found.values.to_pylist() == [{"a": -1, "c": "text", "added": None, "d": []}, None]
    assert found.errors[1].as_py() == "schema 7: the payload has the message shop.Other, not shop.M"


def test_a_row_is_an_error_when_it_has_a_field_whose_type_became_another() -> None:
    writer, reader = versions(
        "message M { N n = 1; int32 b = 2; } message N { sint32 x = 1; }",
        "message M { N n = 1; int32 b = 2; } message N { int32 x = 1; }",
    )
    has, has_not = new(writer, "shop.M", b=1), new(writer, "shop.M", b=2)
    has.n.x = 5
    rows = [prefix(7) + b"\0" + each.SerializeToString() for each in (has, has_not)]
    found = decoded(ProtobufColumns(writer, reader=reader), rows)
    assert found.values.to_pylist() == [None, {"n": None, "b": 2}]
    assert found.errors[0].as_py() == "schema 7: sint32 was written, and the reader's schema has int32, at n.x"


def test_every_row_is_an_error_when_the_writer_does_not_have_the_message() -> None:
    writer, reader = versions("message A { int32 a = 1; }", "message B { int32 a = 1; }")
    found = decoded(ProtobufColumns(writer, reader=reader), [prefix(7) + b"\0\x08\x01"])
    assert found.errors.to_pylist() == ["schema 7: the payload has the message shop.A, not shop.B"]


def test_only_wanted_fields_are_columns_and_others_are_not_looked_at() -> None:
    schema = proto()
    usual = prefix(7) + write_indexes([1])
    rows = [usual + each.SerializeToString() for each in orders(schema)]
    rows.append(usual + b"\x08\x09\x12\x01\xff\x2a\x01t\x32\x00")  # `name` is no UTF-8, `inner` comes after `text`
    found = decoded(ProtobufColumns(schema, "Order", fields=frozenset({"id", "text"})), rows)
    texts = ["t", None, None, None]
    assert found.values.to_pylist() == [
        {"id": number, "text": text} for number, text in zip([1, 0, 0, 9], texts, strict=True)
    ]


def test_some_fields_are_columns_when_the_schema_imports_a_file_of_our_name() -> None:
    name = "penstock/fields.proto"
    text = f'syntax = "proto3"; import "{name}"; message Order {{ int32 id = 1; Fields inner = 2; int32 n = 3; }}'
    inner = 'syntax = "proto3"; message Fields { int32 x = 1; }'
    schema = parse(SchemaType.PROTOBUF, text, [Reference(name, "s", 1)], [ResolvedReference(name, inner)])
    assert isinstance(schema, ProtobufSchema)
    found = decoded(
        ProtobufColumns(schema, fields=frozenset({"id", "inner"})), [prefix(7) + b"\x00\x08\x05\x12\x02\x08\x09"]
    )
    assert found.values.to_pylist() == [{"id": 5, "inner": {"x": 9}}]
