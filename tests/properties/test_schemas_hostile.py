"""Damaged and random text is a schema or an `InvalidSchemaError`, in every format, and nothing else."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.schemas.limits import Limits
from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Policy, SchemaType

AVRO = json.dumps(
    {
        "type": "record", "name": "n.R", "aliases": ["S"], "doc": "d",
        "fields": [
            {"name": "a", "type": ["null", "int", {"type": "enum", "name": "E", "symbols": ["A"]}], "default": None},
            {"name": "b", "type": {"type": "map", "values": {"type": "fixed", "name": "F", "size": 4}}},
            {"name": "c", "type": {"type": "array", "items": "R"}, "default": [], "order": "ignore", "aliases": ["x"]},
            {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        ],
    }
)  # fmt: skip
JSON = json.dumps(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "http://example.com/a",
        "type": ["object", "null"], "required": ["a"],
        "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"prefixItems": [{"minimum": 1.5}], "items": False}},
        "patternProperties": {"^x": {"anyOf": [{"const": 1}, {"enum": ["a"]}]}}, "additionalProperties": False,
        "dependentRequired": {"a": ["b"]}, "not": {"required": ["z"]}, "if": {"maxProperties": 2}, "then": True,
        "$defs": {"d": {"$anchor": "here", "oneOf": [{"type": "string"}, {"$ref": "#here"}], "contains": {}}},
    }
)  # fmt: skip
PROTOBUF = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto"; option java_package = "x";
message M { reserved 9, 11 to 12; map<string, M.N> m = 1; oneof o { int32 a = 2 [deprecated = true]; bytes b = 3; }
  optional google.protobuf.Timestamp t = 4; message N { E e = 1; enum E { Z = 0; } } }
service S { rpc A (M) returns (stream M) { option deprecated = true; } }"""
TEXTS = {SchemaType.AVRO: AVRO, SchemaType.JSON: JSON, SchemaType.PROTOBUF: PROTOBUF}
# Small, so that limits are met too.
LIMITS = Limits(nesting=30, nodes=2_000, comparisons=3_000, depth=20)
CALM = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
pieces = st.sampled_from(
    [
        '"',
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        ";",
        "null",
        "-1",
        "1e9",
        "true",
        '""',
        "#",
        "R",
        "$ref",
        "int32",
        ".",
        "\\",
        "\ud800",
    ]
)


@st.composite
def damaged(draw: Any, text: str) -> str:
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 20)))
        other = draw(st.integers(0, len(text)))
        middle = draw(st.one_of(pieces, st.just(text[other : other + draw(st.integers(0, 30))]), st.text(max_size=3)))
        text = text[:start] + middle + text[end:]
    return text


def parsed_or_refused(schema_type: SchemaType, text: str) -> ParsedSchema | None:
    try:
        return parse(schema_type, text, limits=LIMITS)
    except InvalidSchemaError:
        return None


def use(schema: ParsedSchema, whole: ParsedSchema) -> None:
    # Past a limit, which may also be the end.
    with suppress(InvalidSchemaError):
        for reader, writer in ((schema, whole), (whole, schema), (schema, schema)):
            for difference in reader.differences_from(writer, Policy.STRICT):
                assert difference.text("new", "old")
    again = parse(schema.schema_type, schema.canonical_text)
    assert again.canonical_text == schema.canonical_text
    normalized = schema.normalized().canonical_text
    assert parse(schema.schema_type, normalized).normalized().canonical_text == normalized
    assert schema.formatted("resolved") is not None
    assert schema.formatted("serialized") is not None


@pytest.mark.parametrize("schema_type", list(SchemaType))
@CALM
@given(data=st.data())
def test_a_damaged_schema_is_a_schema_or_refused(schema_type: SchemaType, data: st.DataObject) -> None:
    schema = parsed_or_refused(schema_type, data.draw(damaged(TEXTS[schema_type])))
    if schema is not None:
        use(schema, parse(schema_type, TEXTS[schema_type]))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False)) | pieces,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "name",
                    "fields",
                    "items",
                    "symbols",
                    "default",
                    "properties",
                    "allOf",
                    "$ref",
                    "not",
                    "enum",
                    "$id",
                ]
            ),
            inner | st.sampled_from(["record", "array", "object", "string", "#", "#/not"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("schema_type", [SchemaType.AVRO, SchemaType.JSON])
@CALM
@given(document=json_values)
def test_a_random_document_is_a_schema_or_refused(schema_type: SchemaType, document: Any) -> None:
    schema = parsed_or_refused(schema_type, json.dumps(document))
    if schema is not None:
        use(schema, parse(schema_type, TEXTS[schema_type]))


@CALM
@given(data=st.data())
def test_a_damaged_descriptor_is_a_schema_or_refused(data: st.DataObject) -> None:
    whole = parse(SchemaType.PROTOBUF, PROTOBUF)
    content = bytearray(base64.b64decode(whole.formatted("serialized")))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    schema = parsed_or_refused(SchemaType.PROTOBUF, base64.b64encode(bytes(content)).decode())
    if schema is not None:
        use(schema, whole)
