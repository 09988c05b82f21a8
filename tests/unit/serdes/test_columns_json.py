"""Batches of JSON payloads as the columns of their schema."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.schemas.json_schema.schema import JsonSchema
from penstock.schemas.parsing import parse
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.decoding import Columns, decode_batch
from penstock.serdes.columns.json_schema import JsonColumns
from penstock.serdes.framing import prefix


def decoder(schema: Any) -> JsonColumns:
    parsed = parse(SchemaType.JSON, json.dumps(schema))
    assert isinstance(parsed, JsonSchema)
    return JsonColumns(parsed)


def decoded(schema: Any, *payloads: bytes) -> Columns:
    made = decoder(schema)
    columns = decode_batch(pa.array([prefix(3) + each for each in payloads], pa.binary()), {3: made}, made.type)
    columns.values.validate(full=True)
    return columns


def only(kind: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"it": kind}}


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "expected"),
    [
        ({"type": "integer"}, pa.int64(), 5, 5),
        ({"type": "integer"}, pa.int64(), 5.0, 5),
        ({"type": "number"}, pa.float64(), 5, 5.0),
        ({"type": ["null", "string"]}, pa.string(), "é", "é"),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, pa.bool_(), True, True),
        ({"type": "array", "items": {"type": "integer"}}, None, [1, None], [1, None]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, None, {"a": 1}, [("a", 1)]),
        (only({"type": "string"}), None, {"it": "x", "more": 1}, {"it": "x"}),
        ({"type": ["integer", "string"]}, pa.string(), 5, "5"),
        ({}, pa.string(), {"a": [1]}, '{"a":[1]}'),
        ({"$ref": "#"}, pa.string(), {"it": {}}, '{"it":{}}'),
        ({"type": "integer"}, pa.int64(), None, None),
    ],
)
def test_values_have_the_types_of_the_schema(kind: Any, arrow: pa.DataType | None, value: Any, expected: Any) -> None:
    columns = decoded(only(kind), json.dumps({"it": value}).encode(), b"{}")
    assert columns.values.to_pylist() == [{"it": expected}, {"it": None}]
    assert arrow is None or columns.values.type.field(0).type == arrow


def test_rows_are_unharmed_when_others_are_no_json_or_do_not_fit() -> None:
    bad = [b"", b"{", b'{"it":"x"}', b'{"it":1e400}', b'{"it":18446744073709551616}', b"[" * 100_000, b"{}{}", b"\xff"]
    columns = decoded(only({"type": "integer"}), b'{"it":1}', *bad, b'{"it":2}')
    assert columns.values.to_pylist() == [{"it": 1}, *[None] * len(bad), {"it": 2}]
    assert columns.errors.to_pylist()[1:4] == [
        "schema 3: the payload is no JSON",
        "schema 3: the payload is no JSON",
        "schema 3: expected a whole number, not str, at it",
    ]
    assert columns.errors.null_count == 2


def test_a_row_is_an_error_when_its_text_is_half_of_a_surrogate_pair() -> None:
    columns = decoded(only({"type": "string"}), b'{"it":"a"}', b'{"it":"\\ud800"}', b'{"it":"b"}')
    assert columns.values.to_pylist() == [{"it": "a"}, None, {"it": "b"}]


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a`b", "", "\x00"])
def test_values_are_found_when_their_names_have_characters_that_json_escapes(name: str) -> None:
    """One such record in the sample broke every question."""
    schema = {"type": "object", "properties": {name: {"type": "integer"}, "plain": {"type": "string"}}}
    columns = decoded(
        schema, json.dumps({name: 5, "plain": "x"}).encode(), b"{}", b"no", json.dumps({name: 1.0}).encode()
    )
    assert columns.values.to_pylist() == [
        {name: 5, "plain": "x"},
        {name: None, "plain": None},
        None,
        {name: 1, "plain": None},
    ]
