"""Columns to payloads: rows that do not fit have an error that names the field, and do not touch the others."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.encoding.open_encoding import open_encoding
from penstock.serdes.columns.encoding.rows import ColumnEncoder
from penstock.serdes.errors import UnusableSchemaError


def avro(**fields: Any) -> tuple[Any, ColumnEncoder]:
    schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": each} for name, each in fields.items()]}
    return fastavro.parse_schema(schema), open_encoding(parse(SchemaType.AVRO, json.dumps(schema)))


def read_back(schema: Any, payloads: pa.Array) -> list[Any]:
    return [
        None if each is None else fastavro.schemaless_reader(io.BytesIO(each), schema, None)
        for each in payloads.to_pylist()
    ]


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([{"a": each} for each in values], pa.struct([("a", kind)]))


@pytest.mark.parametrize(
    ("kind", "arrow", "values", "bad", "reason"),
    [
        ("int", pa.int64(), [1, 2**31, -(2**31)], 1, "2147483648 is not between"),
        ("long", pa.decimal128(20, 0), [Decimal(2**63 - 1), Decimal(2**63)], 1, "is not between"),
        ("float", pa.float64(), [1e300, 0.5], 0, "too large for a number of 4 bytes"),
        ("int", pa.int32(), [1, None], 1, "null, where the schema takes no null"),
        ({"type": "enum", "name": "E", "symbols": ["X"]}, pa.string(), ["X", "Y"], 1, "'Y' is no symbol of E"),
        (
            {"type": "fixed", "name": "F", "size": 2},
            pa.binary(),
            [b"ab", b"abc"],
            1,
            "3 bytes, where the schema takes 2",
        ),
        ({"type": "string", "logicalType": "uuid"}, pa.string(), ["x"], 0, "'x' is no uuid"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            pa.decimal128(6, 2),
            [Decimal("1.50"), Decimal("1.55"), Decimal("999.90")],
            1,
            r"1.55 does not fit a decimal\(4, 1\)",
        ),
        (
            {"type": "long", "logicalType": "timestamp-nanos"},
            pa.timestamp("us", "UTC"),
            [2**62, 1],
            0,
            "does not fit ns",
        ),
    ],
)
def test_the_others_are_written_when_a_value_does_not_fit(
    kind: Any, arrow: pa.DataType, values: list[Any], bad: int, reason: str
) -> None:
    schema, encoder = avro(a=kind)
    encoded = encoder.encode(column(values, arrow))
    assert list(encoded.errors) == [bad]
    assert encoded.errors[bad].endswith(", at a")
    with pytest.raises(ValueError, match=reason):
        raise ValueError(encoded.errors[bad])
    read = read_back(schema, encoded.payloads)
    assert [row for row, each in enumerate(read) if each is None] == [bad]


def test_the_path_is_said_when_a_value_inside_does_not_fit() -> None:
    line = {"type": "record", "name": "L", "fields": [{"name": "count", "type": "int"}]}
    _, encoder = avro(lines={"type": "map", "values": {"type": "array", "items": ["null", line]}})
    kind = pa.map_(pa.string(), pa.list_(pa.struct([("count", pa.int64())])))
    rows = [
        {"lines": [("x", [{"count": 1}])]},
        {"lines": []},
        {"lines": [("x", []), ("y", [None, {"count": 1}, {"count": 2**40}])]},
    ]
    encoded = encoder.encode(pa.array(rows, pa.struct([("lines", kind)])))
    assert encoded.errors == {2: f"{2**40} is not between {-(2**31)} and {2**31 - 1}, at lines.y[2].count"}


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "read"),
    [
        ({"type": "int", "logicalType": "date"}, pa.date32(), dt.date(1, 1, 1), dt.date(1, 1, 1)),
        ({"type": "int", "logicalType": "time-millis"}, pa.time64("ns"), dt.time(1, 2, 3), dt.time(1, 2, 3)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.timestamp("us", "UTC"),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC),
            dt.datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC),
        ),
        (
            {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 10, "scale": 2},
            pa.decimal128(5, 1),
            Decimal("-1.5"),
            Decimal("-1.50"),
        ),
        (["string", "null", "bytes"], pa.binary(), b"\xff", b"\xff"),
        (["bytes", "string"], pa.string(), "x", "x"),
        (["null", "float", "double"], pa.float64(), 0.1, 0.1),
        (["int", "null", "long"], pa.int64(), 2**40, 2**40),
        ("double", pa.int32(), 3, 3.0),
        ("string", pa.large_string(), "ü", "ü"),
        ("null", pa.null(), None, None),
        (["null", "int"], pa.null(), None, None),
    ],
)
def test_a_value_is_what_another_library_reads_when_types_differ(kind: Any, arrow: Any, value: Any, read: Any) -> None:
    schema, encoder = avro(a=kind)
    assert read_back(schema, encoder.encode(column([value], arrow)).payloads) == [{"a": read}]


@pytest.mark.parametrize(
    ("kind", "arrow", "problem"),
    [
        ("int", pa.string(), "a: a column of string cannot be written as int"),
        ("long", pa.timestamp("us", "UTC"), r"a: a column of timestamp\[us, tz=UTC\] cannot be written as long"),
        (
            {"type": "long", "logicalType": "local-timestamp-micros"},
            pa.timestamp("us", "UTC"),
            "cannot be written as local-timestamp-micros on long",
        ),
        (["null", "int", "string"], pa.bool_(), "a: a column of bool can be written as none of int, string"),
        ({"type": "array", "items": "int"}, pa.list_(pa.string()), r"a\[\]: a column of string"),
        ({"type": "map", "values": "int"}, pa.map_(pa.int32(), pa.int32()), "a: a column of map<int32, int32>"),
    ],
)
def test_columns_are_refused_as_a_whole_when_their_type_does_not_fit(
    kind: Any, arrow: pa.DataType, problem: str
) -> None:
    _, encoder = avro(a=kind)
    with pytest.raises(UnusableSchemaError, match=problem):
        encoder.encode(column([], arrow))


def test_fields_have_their_defaults_when_there_is_no_column() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": "int"},
            {"name": "b", "type": {"type": "array", "items": "string"}, "default": ["x"]},
            {"name": "c", "type": ["string", "null"]},
            {"name": "d", "type": ["long", "null"], "default": 7},
        ],
    }
    encoder = open_encoding(parse(SchemaType.AVRO, json.dumps(schema)))
    encoded = encoder.encode(column([1, 2], pa.int32()))
    assert read_back(fastavro.parse_schema(schema), encoded.payloads) == [
        {"a": each, "b": ["x"], "c": None, "d": 7} for each in (1, 2)
    ]


def test_a_record_within_itself_is_written_when_it_is_text() -> None:
    schema, encoder = avro(a="int", next=["null", "R"])
    rows = [{"a": 1, "next": '{"a": 2, "next": {"R": {"a": 3, "next": null}}}'}, {"a": 1, "next": "{"}]
    encoded = encoder.encode(pa.array(rows, pa.struct([("a", pa.int32()), ("next", pa.string())])))
    assert read_back(schema, encoded.payloads)[0] == {"a": 1, "next": {"a": 2, "next": {"a": 3, "next": None}}}
    assert encoded.errors == {1: "the text is no JSON, or nests too deep, at next"}


def test_one_member_has_to_be_set_when_a_union_is_a_struct() -> None:
    schema, encoder = avro(a=["null", "int", "string"])
    kind = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    rows = [
        {"member0": 1, "member1": None},
        {"member0": None, "member1": "x"},
        None,
        {"member0": 1, "member1": "x"},
    ]
    encoded = encoder.encode(column(rows, kind))
    assert read_back(schema, encoded.payloads) == [{"a": 1}, {"a": "x"}, {"a": None}, None]
    assert encoded.errors == {3: "2 members of a union are set, where one has to be, at a"}


def protobuf(body: str) -> ColumnEncoder:
    return open_encoding(parse(SchemaType.PROTOBUF, f'syntax = "proto3"; message M {{ {body} }} enum E {{ X = 0; }}'))


@pytest.mark.parametrize(
    ("body", "arrow", "values", "reason"),
    [
        ("uint32 a = 1;", pa.int64(), [1, -1], "-1 is not between 0 and 4294967295, at a"),
        ("int32 a = 1;", pa.int32(), [1, None], "null, where the schema takes no null, at a"),
        ("E a = 1;", pa.string(), ["X", "Z"], "'Z' is no value of E, at a"),
        ("repeated int32 a = 1;", pa.list_(pa.int64()), [None, [1, 2**31]], f"{2**31} is not between .*, at a[1]"),
        (
            "repeated string a = 1;",
            pa.list_(pa.string()),
            [[], [None]],
            "null, where the schema takes no null, at a[0]",
        ),
        ("map<string, sint32> a = 1;", pa.map_(pa.string(), pa.int64()), [[], [("k", 2**31)]], ".*, at a.k"),
    ],
)
def test_a_row_is_refused_when_a_value_does_not_fit_a_message(
    body: str, arrow: pa.DataType, values: list[Any], reason: str
) -> None:
    encoded = protobuf(body).encode(column(values, arrow))
    assert list(encoded.errors) == [1]
    first, _, place = reason.partition(".*")
    assert encoded.errors[1].startswith(first)
    assert encoded.errors[1].endswith(place)
    assert encoded.payloads[0].is_valid


def test_two_fields_of_a_oneof_are_refused_when_both_are_set() -> None:
    encoder = protobuf("oneof one { int32 a = 1; string b = 2; }")
    rows = [{"a": 1, "b": None}, {"a": 1, "b": "x"}]
    encoded = encoder.encode(pa.array(rows, pa.struct([("a", pa.int32()), ("b", pa.string())])))
    assert encoded.errors == {1: "2 fields of the oneof one are set, where one may be"}


def json_schema(schema: Any) -> ColumnEncoder:
    return open_encoding(parse(SchemaType.JSON, json.dumps(schema)))


def test_numbers_that_json_does_not_have_are_refused_when_they_are_written() -> None:
    encoder = json_schema({"type": "object", "properties": {"a": {"type": "number"}}})
    encoded = encoder.encode(column([1.5, float("nan"), float("-inf"), None], pa.float64()))
    assert encoded.payloads.to_pylist() == [b'{"a":1.5}', None, None, b"{}"]
    assert encoded.errors[1] == "nan, which JSON has no number for, at a"


def test_null_is_written_or_left_away_or_refused_as_the_schema_has_it() -> None:
    properties = {"a": {"type": ["integer", "null"]}, "b": {"type": "integer"}, "c": {"type": "integer"}}
    encoder = json_schema({"type": "object", "properties": properties, "required": ["c"]})
    rows = [{"a": None, "b": None, "c": 1}, {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": None}]
    kind = pa.struct([(name, pa.int64()) for name in "abc"])
    encoded = encoder.encode(pa.array(rows, kind))
    assert encoded.payloads.to_pylist() == [b'{"a":null,"c":1}', b'{"a":1,"b":2,"c":3}', None]
    assert encoded.errors == {2: "null, where the schema takes no null, at c"}


def test_each_row_is_checked_when_the_schema_says_more_than_types() -> None:
    encoder = json_schema({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}})
    encoded = encoder.encode(column(["x\n", "y"], pa.string()))
    assert encoded.payloads.to_pylist() == [b'{"a":"x\\n"}', None]
    assert encoded.errors[1].endswith("at a")


def test_text_is_json_when_the_schema_has_no_type_for_a_column() -> None:
    encoder = json_schema(
        {"type": "object", "properties": {"a": {"$ref": "#/definitions/d"}}, "definitions": {"d": {}}}
    )
    encoded = encoder.encode(column(['{"x":[1]}', "x"], pa.string()))
    assert encoded.payloads.to_pylist() == [b'{"a":{"x":[1]}}', None]
    assert "the text is no JSON" in encoded.errors[1]
