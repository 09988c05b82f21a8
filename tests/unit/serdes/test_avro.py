"""Avro's JSON encoding to bytes and back, with the path of what does not fit."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from penstock.client.registry import NewSchema
from penstock.serdes.codec import Codec
from penstock.serdes.compilation import CodecOptions, compile_codec
from penstock.serdes.errors import PayloadError, TooLargeError, UnusableSchemaError

TREE = {
    "type": "record",
    "name": "Tree",
    "namespace": "n",
    "fields": [
        {"name": "label", "type": "string"},
        {"name": "children", "type": {"type": "array", "items": "Tree"}, "default": []},
        {"name": "size", "type": ["null", "int", "string"], "default": None},
        {"name": "weight", "type": "float", "default": 0.1},
        {"name": "raw", "type": ["bytes", "null"], "default": "\u00ff"},
        {"name": "kinds", "type": {"type": "map", "values": ["long", "n.Tree"]}, "default": {"a": 1}},
    ],
}
FULL: dict[str, Any] = {
    "label": "x",
    "children": [],
    "size": None,
    "weight": 0.1,
    "raw": {"bytes": "ÿ"},
    "kinds": {"a": {"long": 1}},
}


def codec(schema: Any, **options: bool) -> Codec:
    return compile_codec(NewSchema(json.dumps(schema)), (), CodecOptions(**options))


def written(schema: Any, value: Any, **options: bool) -> bytes:
    return codec(schema, **options).encode(value, None)


def test_fields_get_their_defaults_when_they_are_missing() -> None:
    tree = codec(TREE)
    payload = tree.encode({"label": "x"}, None)
    assert tree.decode(payload, None) == FULL
    read = fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(TREE), None)
    assert read == {**FULL, "raw": b"\xff", "kinds": {"a": 1}, "weight": pytest.approx(0.1)}


def test_a_recursive_value_comes_back_when_it_was_written() -> None:
    tree = codec(TREE)
    inner = {**FULL, "kinds": {}, "size": {"string": "large"}}
    value = {**FULL, "children": [inner, FULL], "kinds": {"b": {"n.Tree": inner}}}
    assert tree.decode(tree.encode(value, None), None) == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "expected an object for record n.Tree, not 5"),
        ({}, "record n.Tree needs the field label"),
        ({"label": "x", "lable": "y"}, "record n.Tree has no field 'lable'"),
        ({"label": None}, "expected a string, not null, at label"),
        ({"label": "\ud800"}, "half of a surrogate pair, which no UTF-8 text can have, at label"),
        ({"label": "x", "children": {}}, "expected a list, not an object, at children"),
        ({"label": "x", "children": [FULL, {"label": 1}]}, "expected a string, not 1, at children[1].label"),
        ({"label": "x", "size": 3}, 'like {"string": "x"}, not 3, at size'),
        ({"label": "x", "size": {"int": 2**31}}, "a whole number of 32 bits, not 2147483648, at size.int"),
        ({"label": "x", "size": {"int": True}}, "a whole number of 32 bits, not true, at size.int"),
        ({"label": "x", "weight": 1e39}, "too large for a number of 4 bytes, at weight"),
        ({"label": "x", "raw": {"bytes": "€"}}, "characters from \\u0000 to \\u00ff alone, at raw.bytes"),
        ({"label": "x", "kinds": {"b": {"n.Tree": {}}}}, "needs the field label, at kinds.b.n.Tree"),
    ],
)
def test_the_path_is_named_when_a_value_does_not_fit(value: Any, message: str) -> None:
    with pytest.raises(PayloadError) as refused:
        codec(TREE).encode(value, None)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ("boolean", True, b"\x01"),
        ("int", -1, b"\x01"),
        ("long", -(2**63), b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("double", 1, b"\x00\x00\x00\x00\x00\x00\xf0?"),
        ("float", "NaN", b"\x00\x00\xc0\x7f"),
        ("bytes", "\x00\x7f", b"\x04\x00\x7f"),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", b"\x02"),
        ({"type": "array", "items": "int"}, [1, 2], b"\x04\x02\x04\x00"),
        (["null", "string"], {"string": "a"}, b"\x02\x02a"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\x01", b"\x02\x01"),
    ],
)
def test_bytes_are_those_of_the_specification(schema: Any, value: Any, expected: bytes) -> None:
    assert written(schema, value) == expected
    assert codec(schema).decode(expected, None) == value


@pytest.mark.parametrize(
    ("union", "value", "expected"),
    [
        (["null", "string"], "a", b"\x02\x02a"),
        (["null", "string"], {"string": "a"}, b"\x02\x02a"),
        (["int", "long"], 2**31, b"\x02\x80\x80\x80\x80\x10"),
        (["int", "double"], 0.5, b"\x02\x00\x00\x00\x00\x00\x00\xe0?"),
        ([{"type": "enum", "name": "E", "symbols": ["A"]}, "string"], "b", b"\x02\x02b"),
        ([{"type": "map", "values": "int"}, "null"], {"a": 1}, b"\x00\x02\x02a\x02\x00"),
    ],
)
def test_a_branch_is_found_without_its_name_when_the_writer_is_lenient(union: Any, value: Any, expected: bytes) -> None:
    assert written(union, value, is_lenient=True) == expected


def test_a_lenient_writer_takes_the_record_that_has_the_fields() -> None:
    def record(name: str, field: str) -> Any:
        return {"type": "record", "name": name, "fields": [{"name": field, "type": "int"}]}

    union = codec([record("A", "a"), record("B", "b")], is_lenient=True)
    assert union.decode(union.encode({"b": 1}, None), None) == {"B": {"b": 1}}
    with pytest.raises(PayloadError, match="expected one of A, B, not an object"):
        union.encode({"c": 1}, None)


@pytest.mark.parametrize(
    ("schema", "payload", "message"),
    [
        ("int", b"", "ends too early"),
        ("int", b"\x80", "ends too early"),
        ("int", b"\x00\x00", "1 bytes are left"),
        ("long", b"\xff" * 11, "more than 64 bits"),
        ("string", b"\x7f", "ends too early"),
        ("string", b"\x01", "ends too early"),
        ("string", b"\x02\xff", "no UTF-8"),
        ("boolean", b"\x02", "neither 0 nor 1"),
        (["null"], b"\x02", "a union has no branch 1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "an enum has no symbol 1"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\x0f\x00", "take no bytes"),
        ({"type": "array", "items": {"type": "array", "items": "null"}}, b"\x04" + b"\xc0\x9a\x0c\x00" * 2 + b"\x00",
         "take no bytes"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x00", "ends too early"),
        ({"type": "map", "values": "string"}, b"\x02\x02a\x02\xff", "no UTF-8, at a"),
        (TREE, b"\x02x" + b"\x02\x02x" * 20_000, "nests too deep"),
    ],
)  # fmt: skip
def test_bytes_are_refused_when_they_are_not_of_the_schema(schema: Any, payload: bytes, message: str) -> None:
    with pytest.raises(PayloadError, match=message):
        codec(schema).decode(payload, None)


def test_a_value_is_refused_when_it_nests_too_deep() -> None:
    value: dict[str, Any] = {"label": "x"}
    for _ in range(20_000):
        value = {"label": "x", "children": [value]}
    with pytest.raises(PayloadError, match="nests too deep"):
        codec(TREE).encode(value, None)
    # It goes away step by step: Python would go down all the way.
    while value.get("children"):
        value = value["children"].pop()


def test_a_text_is_refused_when_it_is_no_schema() -> None:
    with pytest.raises(UnusableSchemaError, match="the schema cannot be used"):
        compile_codec(NewSchema('{"type": "recrod"}'), (), CodecOptions())
    with pytest.raises(UnusableSchemaError, match="'THRIFT' are unknown"):
        compile_codec(NewSchema("x", "THRIFT"), (), CodecOptions())


def test_writing_stops_at_the_bound_when_defaults_explode() -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "text", "type": "string", "default": "x" * 1000}]}
    items = codec({"type": "array", "items": item})
    assert len(items.encode([{}] * 9, None, 10_000)) < 10_000
    with pytest.raises(TooLargeError, match="more than 10000 bytes"):
        items.encode([{}] * 1_000_000, None, 10_000)


def test_defaults_of_defaults_are_bounded_when_each_level_multiplies_them() -> None:
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": "string", "default": "x"}]}
    for level in range(1, 30):
        fields = [{"name": "a", "type": schema, "default": {}}]
        fields += [{"name": f"f{each}", "type": f"R{level - 1}", "default": {}} for each in range(9)]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    with pytest.raises(TooLargeError):
        codec(schema).encode({}, None, 1_000_000)
