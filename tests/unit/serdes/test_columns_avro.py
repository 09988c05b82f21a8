"""Batches of Avro payloads as columns: values, mixed schemas, and rows that have none."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest

from penstock.schemas.avro.schema import AvroSchema
from penstock.schemas.parsing import parse
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.avro.column_types import arrow_type
from penstock.serdes.columns.avro.decoder import AvroColumns
from penstock.serdes.columns.avro.projection import Resolution
from penstock.serdes.columns.decoding import ColumnDecoder, decode_batch
from penstock.serdes.columns.payloads import SchemaKey
from penstock.serdes.errors import TooManyRowsError, UnusableSchemaError
from penstock.serdes.framing import header_value, prefix

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": "string"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
ROWS: list[dict[str, Any]] = [
    {"id": number, "name": f"n{number}", "note": "é" if number % 2 else None} for number in range(6)
]
_LOCAL = datetime(2024, 1, 2, 3, tzinfo=UTC).replace(tzinfo=None)
GUID = "6c8dd09e-3b93-4b4f-8a8c-0f0d6b1e8d11"


def avro(schema: Any) -> AvroSchema:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed


def written(schema: Any, value: Any, schema_id: int | None = 7) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return (b"" if schema_id is None else prefix(schema_id)) + out.getvalue()


def column(field_type: Any, *values: Any) -> pa.Array:
    """Values written by fastavro as the only field of a record, as our column of that field."""
    schema = {"type": "record", "name": "Only", "fields": [{"name": "it", "type": field_type}]}
    decoder = AvroColumns(avro(schema))
    columns = decode_batch(
        pa.array([written(schema, {"it": value}) for value in values], pa.binary()), {7: decoder}, decoder.type
    )
    columns.values.validate(full=True)
    assert columns.errors.null_count == len(values), columns.errors
    return columns.values.field(0)


def test_rows_are_unharmed_when_others_of_their_batch_do_not_decode() -> None:
    good = [written(ORDER, row) for row in ROWS]
    bad: list[bytes | None] = [
        None,
        b"",
        b"\0\0\0",
        b"\1" + good[0][1:],
        prefix(8) + good[0][5:],
        good[1][:-1],
        good[1] + b"x",
        prefix(7) + b"\xff" * 30,
        prefix(7) + b"\x02\x04\xff\xfe\x00",
        prefix(7) + b"\x02\x02a\x08",
    ]
    batch = [each for pair in zip(bad, [*good, *good[:4]], strict=True) for each in pair]
    decoder = AvroColumns(avro(ORDER))
    columns = decode_batch(pa.array(batch, pa.binary()), {7: decoder}, decoder.type)
    columns.values.validate(full=True)
    assert columns.values.to_pylist()[1::2] == [*ROWS, *ROWS[:4]]
    assert columns.values.to_pylist()[0::2] == [None] * len(bad)
    assert columns.errors.to_pylist()[1::2] == [None] * len(bad)
    assert columns.errors.to_pylist()[0::2] == [
        "the record has no value",
        "the payload has 0 bytes, and a zero byte and the id of a schema are 5",
        "the payload has 3 bytes, and a zero byte and the id of a schema are 5",
        "the payload does not begin with a zero byte and the id of a schema",
        "schema 8 is not known",
        "schema 7: the payload ends too early, or was written with another schema, at note.string",
        "schema 7: 1 bytes are left behind the value",
        "schema 7: a number has more than 64 bits, at id",
        "schema 7: a string is no UTF-8, at name",
        "schema 7: a union has no branch 4, at note",
    ]


def test_rows_keep_their_order_when_several_schemas_are_mixed() -> None:
    decoder = AvroColumns(avro(ORDER))
    again = AvroColumns(avro({**ORDER, "doc": "the same columns"}))
    batch = [written(ORDER, row, 7 if row["id"] % 3 else 9) for row in ROWS]
    sliced = pa.array([b"before", *batch, b"behind"], pa.binary()).slice(1, len(batch))
    columns = decode_batch(sliced, {7: decoder, 9: again}, decoder.type)
    assert columns.values.to_pylist() == ROWS
    assert columns.errors.null_count == len(ROWS)


def test_headers_name_the_schema_when_rows_have_them() -> None:
    batch = [written(ORDER, row, None if row["id"] % 2 else 7) for row in ROWS]
    headers = [header_value(GUID) if row["id"] % 2 else None for row in ROWS]
    headers[5] = b"\x01short"
    decoder = AvroColumns(avro(ORDER))
    columns = decode_batch(
        pa.array(batch, pa.binary()), {7: decoder, GUID: decoder}, decoder.type, pa.array(headers, pa.binary())
    )
    assert columns.values.to_pylist() == [*ROWS[:5], None]
    assert columns.errors[5].as_py() == "the header that names the schema has neither a guid nor an id"


def test_nothing_is_decoded_when_a_batch_is_empty() -> None:
    decoder = AvroColumns(avro(ORDER))
    columns = decode_batch(pa.array([], pa.binary()), {7: decoder}, decoder.type)
    assert (len(columns.values), columns.values.type, len(columns.errors)) == (0, decoder.type, 0)


def test_decoders_of_different_types_are_refused() -> None:
    with pytest.raises(ValueError, match="the decoder of schema 7 gives string"):
        decode_batch(pa.array([], pa.binary()), {7: AvroColumns(avro("string"))}, pa.int32())


@pytest.mark.parametrize(
    ("kind", "arrow", "values"),
    [
        ({"type": "int", "logicalType": "date"}, pa.date32(), [date(2024, 2, 29), date(1969, 1, 1)]),
        ({"type": "int", "logicalType": "time-millis"}, pa.time32("ms"), [time(23, 59, 59, 999000), time()]),
        ({"type": "long", "logicalType": "time-micros"}, pa.time64("us"), [time(1, 2, 3, 4)]),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            pa.timestamp("ms", "UTC"),
            [datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=UTC), datetime(1901, 1, 1, tzinfo=UTC)],
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            pa.timestamp("us", "UTC"),
            [datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=UTC)],
        ),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms"), [_LOCAL]),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us"), [_LOCAL]),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            pa.decimal128(38, 2),
            [Decimal("1.25"), Decimal("-0.01"), Decimal("-1.28"), Decimal(0), Decimal("9" * 36 + ".99")],
        ),
        (
            {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 9, "scale": 3},
            pa.decimal128(9, 3),
            [Decimal("123456.789"), Decimal("-123456.789")],
        ),
        (
            {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 0},
            pa.decimal128(9, 0),
            [Decimal(999999999), Decimal(-1)],
        ),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary(), [b"abc", b"\0\0\xff"]),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, pa.string(), ["B", "A"]),
        (["null", "int", "long"], pa.int64(), [1, None, 1 << 40]),
        (["float", "double"], pa.float64(), [0.5, 1e300]),
        ({"type": "array", "items": ["null", "string"]}, None, [["a", None], [], ["b"] * 100]),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, None, [[[1], [2, 3]], [], [[], [4]]]),
        ({"type": "array", "items": "null"}, pa.list_(pa.field("element", pa.null())), [[None] * 3, []]),
        ({"type": "record", "name": "Empty", "fields": []}, pa.struct([]), [{}, {}]),
    ],
)
def test_values_are_those_of_another_library(kind: Any, arrow: pa.DataType | None, values: list[Any]) -> None:
    found = column(kind, *values)
    assert found.to_pylist() == values
    assert arrow is None or found.type == arrow


def test_uuids_are_text_when_they_are_written_as_text_or_as_bytes() -> None:
    assert column({"type": "string", "logicalType": "uuid"}, UUID(GUID)).to_pylist() == [GUID]
    fixed = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    assert column(fixed, UUID(GUID).bytes).to_pylist() == [GUID]


def test_maps_have_the_entries_of_the_payload() -> None:
    values = [{"a": 1, "b": None}, {}, {"c": 3}]
    assert [dict(each) for each in column({"type": "map", "values": ["null", "int"]}, *values).to_pylist()] == values


def test_a_union_is_a_struct_of_its_branches_when_arrow_has_no_type_for_it() -> None:
    found = column(["string", "null", "int", {"type": "array", "items": "int"}], "a", None, 5, [1, 2])
    assert found.to_pylist() == [
        {"member0": "a", "member1": None, "member2": None},
        None,
        {"member0": None, "member1": 5, "member2": None},
        {"member0": None, "member1": None, "member2": [1, 2]},
    ]


def test_a_record_within_itself_is_json_text() -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "n", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    found = column(node, {"n": 1, "next": None}, {"n": 1, "next": {"n": 2, "next": None}})
    assert found.to_pylist() == [{"n": 1, "next": None}, {"n": 1, "next": '{"n":2,"next":null}'}]


def test_nested_fields_are_nullable_only_when_the_schema_says_so() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "i", "type": ["null", inner]}]}
    expected = pa.struct([pa.field("i", pa.struct([pa.field("x", pa.int32(), False)]))])
    assert arrow_type(avro(schema).root) == expected
    assert column(["null", inner], {"x": 1}, None, {"x": 2}).to_pylist() == [{"x": 1}, None, {"x": 2}]


def test_a_schema_is_refused_when_names_make_it_exponentially_large() -> None:
    kind: Any = "int"
    for level in range(20):
        fields = [{"name": "a", "type": kind}, {"name": "b", "type": f"R{level - 1}" if level else "int"}]
        kind = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(UnusableSchemaError, match="more than 10000 columns"):
        AvroColumns(avro(kind))


@pytest.mark.parametrize("items", ["null", "int", {"type": "array", "items": "null"}])
def test_a_list_that_says_it_is_endless_is_an_error_of_its_row(items: Any) -> None:
    decoder = AvroColumns(avro({"type": "array", "items": items}))
    endless = [prefix(7) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", prefix(7) + b"\xff" * 9 + b"\x01\x00"]
    columns = decode_batch(pa.array([*endless, prefix(7) + b"\0"], pa.binary()), {7: decoder}, decoder.type)
    assert columns.values.to_pylist() == [None, None, []]
    assert columns.errors.null_count == 1


def test_decimals_out_of_their_precision_and_times_out_of_their_day_are_errors_of_their_rows() -> None:
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
    for kind, good, bad in [
        (decimal, b"\x02\x63", b"\x02\x64"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x02", b"\x01"),
    ]:
        decoder = AvroColumns(avro(kind))
        batch = pa.array([prefix(7) + good, prefix(7) + bad], pa.binary())
        columns = decode_batch(batch, {7: decoder}, decoder.type)
        assert columns.errors.is_null().to_pylist() == [True, False]


NEWER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": ["new"]},
        {"name": "number", "aliases": ["id"], "type": ["null", "double"]},
        {"name": "note", "type": ["null", "string"]},
        {"name": "count", "type": ["int", "string"], "default": 5},
    ],
}


@pytest.mark.parametrize("by_column", [True, False])
def test_rows_have_the_columns_of_the_reader_when_schemas_changed(by_column: bool) -> None:
    # A union that loses a branch does not resolve by column.
    note = ["null", "string"] if by_column else ["null", "string", "bytes"]
    older = {**ORDER, "fields": [*ORDER["fields"][:2], {"name": "note", "type": note}]}
    decoders: dict[SchemaKey, ColumnDecoder] = {7: AvroColumns(avro(older), avro(NEWER)), 8: AvroColumns(avro(NEWER))}
    newer: dict[str, Any] = {"tags": [], "number": None, "note": "n", "count": "many"}
    batch = [written(older, ROWS[1]), written(NEWER, newer, 8), prefix(7) + b"\x01", written(older, ROWS[2])]
    columns = decode_batch(pa.array(batch, pa.binary()), decoders, decoders[8].type)
    columns.values.validate(full=True)
    default = {"tags": ["new"], "count": {"member0": 5, "member1": None}}
    assert columns.values.to_pylist() == [
        {"number": 1.0, "note": "é", **default},
        {**newer, "count": {"member0": None, "member1": "many"}},
        None,
        {"number": 2.0, "note": None, **default},
    ]


def test_rows_have_an_error_when_the_reader_needs_what_was_not_written() -> None:
    needing = {**ORDER, "fields": [{"name": "more", "type": "int"}]}
    decoder = AvroColumns(avro(ORDER), avro(needing))
    columns = decode_batch(pa.array([written(ORDER, ROWS[0])], pa.binary()), {7: decoder}, decoder.type)
    assert columns.errors.to_pylist() == [
        "schema 7: the writer's schema has no field more, and it has no default, at more"
    ]


def nested(inner: list[Any]) -> Any:
    record = {"type": "record", "name": "Inner", "fields": inner}
    return {
        "type": "record",
        "name": "Outer",
        "fields": [
            {"name": "maybe", "type": ["null", record]},
            {"name": "several", "type": {"type": "array", "items": "Inner"}},
            {"name": "by_name", "type": {"type": "map", "values": ["null", "Inner"]}},
        ],
    }


def test_records_in_records_have_the_readers_fields_without_being_read_singly() -> None:
    old = nested([{"name": "x", "type": "int"}, {"name": "gone", "type": "string"}])
    new = nested([{"name": "added", "type": "string", "default": "?"}, {"name": "x", "type": ["null", "long"]}])
    assert Resolution.of(avro(old).root, avro(new).root) is not None
    one = {"x": 1, "gone": "g"}
    rows = [
        {"maybe": one, "several": [one, one], "by_name": {"k": one, "n": None}},
        {"maybe": None, "several": [], "by_name": {}},
    ]
    decoder = AvroColumns(avro(old), avro(new))
    columns = decode_batch(pa.array([written(old, row) for row in rows], pa.binary()), {7: decoder}, decoder.type)
    columns.values.validate(full=True)
    read = {"added": "?", "x": 1}
    assert columns.values.to_pylist() == [
        {"maybe": read, "several": [read, read], "by_name": [("k", read), ("n", None)]},
        {"maybe": None, "several": [], "by_name": []},
    ]


def test_symbols_that_the_reader_does_not_know_are_its_default() -> None:
    old, new = (
        {
            "type": "record",
            "name": "R",
            "fields": [{"name": "s", "type": ["null", {**symbol, "name": "S", "type": "enum"}]}],
        }
        for symbol in ({"symbols": ["A", "B"]}, {"symbols": ["A", "OTHER"], "default": "OTHER"})
    )
    assert Resolution.of(avro(old).root, avro(new).root) is not None
    decoder = AvroColumns(avro(old), avro(new))
    batch = pa.array([written(old, {"s": each}) for each in ("A", "B", None)], pa.binary())
    found = decode_batch(batch, {7: decoder}, decoder.type).values
    assert found.field("s").to_pylist() == ["A", "OTHER", None]


def test_a_key_has_its_last_value_when_a_map_has_it_twice() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}
    decoder = AvroColumns(avro(schema))
    twice = b"\x06\x02a\x02\x02b\x04\x02a\x06\x00"  # a=1, b=2, a=3
    once = b"\x02\x02a\x08\x00"
    batch = pa.array([prefix(7) + each for each in (once, twice, b"\x00", once)], pa.binary())
    found = decode_batch(batch, {7: decoder}, decoder.type).values
    found.validate(full=True)
    assert found.field("m").to_pylist() == [[("a", 4)], [("a", 3), ("b", 2)], [], [("a", 4)]]


def test_a_row_is_good_enough_when_it_is_damaged_behind_the_last_wanted_field() -> None:
    decoder = AvroColumns(avro(ORDER), fields=frozenset({"id"}))
    batch = pa.array([prefix(7) + b"\x02\xff", prefix(7), prefix(8) + b"\x02"], pa.binary())
    columns = decode_batch(batch, {7: decoder}, decoder.type)
    assert columns.values.to_pylist() == [{"id": 1}, None, None]
    assert columns.schemas.to_pylist() == ["7", "7", "8"]


def test_lists_that_nobody_wants_are_skipped_when_blocks_say_their_size() -> None:
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "l", "type": {"type": "array", "items": "string"}}, {"name": "after", "type": "int"}],
    }
    decoder = AvroColumns(avro(schema), fields=frozenset({"after"}))
    sized = b"\x03\x08\x02a\x02b"  # two items in four bytes
    rows = [
        sized + b"\x00\x0a",
        sized * 2 + b"\x02\x02c\x00\x0c",
        b"\x00\x0e",
        sized * 40 + b"\x00\x10",
        sized + b"\x01\xff",
    ]
    batch = pa.array([prefix(7) + each for each in rows], pa.binary())
    columns = decode_batch(batch, {7: decoder}, decoder.type)
    assert columns.values.to_pylist() == [{"after": 5}, {"after": 6}, {"after": 7}, {"after": 8}, None]


@pytest.mark.parametrize("by_column", [True, False])
def test_rows_are_too_many_for_one_batch_when_a_default_is_large(by_column: bool) -> None:
    """A megabyte of default in sixteen thousand rows crashed the task."""
    large = {"name": "large", "type": "string", "default": "x" * 1_000_000}
    kind = "long" if by_column else ["long", "string"]
    old = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
    new = {"type": "record", "name": "R", "fields": [{"name": "id", "type": kind}, large]}
    decoder = AvroColumns(avro(old), avro(new))
    payload = written(old, {"id": 1})
    with pytest.raises(TooManyRowsError):
        decode_batch(pa.array([payload] * 16_384, pa.binary()), {7: decoder}, decoder.type)
    columns = decode_batch(pa.array([payload] * 10, pa.binary()), {7: decoder}, decoder.type)
    assert columns.errors.null_count == 10


def test_a_row_is_an_error_when_the_defaults_of_its_items_take_too_much() -> None:
    old = nested([{"name": "x", "type": "int"}])
    new = nested([{"name": "x", "type": "int"}, {"name": "large", "type": "string", "default": "x" * 1_000_000}])
    decoder = AvroColumns(avro(old), avro(new))
    payload = written(old, {"maybe": None, "several": [{"x": 1}] * 30, "by_name": {}})
    columns = decode_batch(pa.array([payload], pa.binary()), {7: decoder}, decoder.type)
    assert columns.errors.to_pylist() == ["schema 7: the defaults of 30 records take more than 16777216 bytes"]
