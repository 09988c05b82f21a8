"""What is a JSON schema, how its text is kept, and where its references lead."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Policy, Reference, ResolvedReference, SchemaType

DRAFTS = [
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
]


def json_schema(document: Any, **others: Any) -> ParsedSchema:
    resolved = [ResolvedReference(name, json.dumps(each)) for name, each in others.items()]
    return parse(SchemaType.JSON, json.dumps(document), resolved=resolved)


def test_text_is_kept_without_spaces_as_it_was_given() -> None:
    text = '{ "b" : [ 1.50, 1E3, "é\\u0041" ],\n "a": {} , "title":"T"}'
    parsed = parse(SchemaType.JSON, text)
    assert parsed.canonical_text == '{"b":[1.50,1E3,"éA"],"a":{},"title":"T"}'
    assert parsed.formatted("serialized") == parsed.canonical_text
    assert parsed.name == "T"
    normalized = parsed.normalized()
    assert normalized.canonical_text == '{"a":{},"b":[1.50,1E3,"éA"],"title":"T"}'
    assert normalized.normalized().canonical_text == normalized.canonical_text
    assert not normalized.differences_from(parsed, Policy.STRICT)


def test_references_are_sorted_when_normalized() -> None:
    b, a = Reference("b", "s", 1), Reference("a", "s", 2)
    assert parse(SchemaType.JSON, "{}", [b, a, b]).normalized().references == (a, b)


def test_boolean_schemas_are_schemas() -> None:
    assert parse(SchemaType.JSON, "true").canonical_text == "true"
    assert parse(SchemaType.JSON, "false").name is None


@pytest.mark.parametrize("draft", DRAFTS)
def test_each_draft_is_checked_against_its_metaschema(draft: str) -> None:
    assert json_schema({"$schema": draft, "properties": {"a": {"type": "string"}}}).has_top_level_field("a")
    with pytest.raises(InvalidSchemaError, match="#/properties/a/type"):
        json_schema({"$schema": draft, "properties": {"a": {"type": "strin"}}})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (1, "object"),
        ({"minLength": -1}, "#/minLength"),
        ({"exclusiveMinimum": True}, "#/exclusiveMinimum"),
        ({"pattern": "("}, "regular expression"),
        ({"patternProperties": {"(": {}}}, "regular expression"),
        ({"$ref": "#/definitions/none"}, "Unresolved"),
        ({"$ref": "other.json"}, "Unresolved"),
        ({"items": {"$ref": "http://example.com/x.json#/a"}}, "Unresolved"),
        ({"$ref": "#/type", "type": "string"}, "Unresolved"),
        ({"$ref": "#"}, "leads back to itself"),
        (
            {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}},
            "leads back to itself",
        ),
        ({"$id": "http://example.com/", "items": {"$ref": "http://[::1"}}, "Invalid reference"),
    ],
)
def test_document_is_refused_with_the_reason_when_it_is_no_schema(document: Any, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        json_schema(document)


def test_an_unknown_draft_is_read_as_draft_7_and_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        parsed = json_schema({"$schema": address, "$id": address, "items": {"$schema": address, "minimum": 1}})
        assert parsed.differences_from(parsed, Policy.STRICT) == []
        with pytest.raises(InvalidSchemaError, match="Unresolved"):
            json_schema({"$ref": address + "/other"})
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("reference", "others"),
    [
        ("#/definitions/a", {}),
        ("#/definitions/with%20space~1slash", {}),
        ("#named", {}),
        ("inner.json", {}),
        ("http://example.com/inner.json", {}),
        ("#/x-elsewhere/0", {}),
        ("other.json", {"other.json": {"type": "string"}}),
        ("other.json#/definitions/b", {"other.json": {"definitions": {"b": {"type": "string"}}}}),
        ("other.json", {"o": {"$id": "http://example.com/other.json", "type": "string"}}),
        ("http://example.com/other.json", {"http://example.com/other.json": {"type": "string"}}),
        (
            "first.json",
            {"second.json": {"type": "string"}, "first.json": {"allOf": [{"$ref": "second.json"}]}},
        ),
    ],
)
def test_a_reference_leads_to_the_schema_it_names(reference: str, others: dict[str, Any]) -> None:
    document = {
        "$id": "http://example.com/root.json",
        "properties": {"p": {"$ref": reference}},
        "definitions": {
            "a": {"type": "string"},
            "with space/slash": {"type": "string"},
            "named": {"$id": "#named", "type": "string"},
            "inner": {"$id": "inner.json", "type": "string"},
        },
        "x-elsewhere": [{"type": "string"}],
    }
    parsed = json_schema(document, **others)
    expected = json_schema({"properties": {"p": {"type": "string"}}})
    assert parsed.differences_from(expected, Policy.STRICT) == []
    assert expected.differences_from(parsed, Policy.STRICT) == []


def test_anchors_are_found_since_2019() -> None:
    document = {"$schema": DRAFTS[4], "items": {"$ref": "#here"}, "$defs": {"x": {"$anchor": "here", "type": "string"}}}
    expected = json_schema({"$schema": DRAFTS[4], "items": {"type": "string"}})
    assert json_schema(document).differences_from(expected, Policy.STRICT) == []
    assert expected.differences_from(json_schema(document), Policy.STRICT) == []


def test_expressions_of_another_dialect_are_read_when_the_schema_is_stored_already() -> None:
    text = '{"patternProperties":{"a++":{"type":"string"}}}'
    assert parse(SchemaType.JSON, text, is_new=False).canonical_text == text
