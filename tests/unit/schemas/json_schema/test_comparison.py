"""Which JSON schemas take what others took: cases of our own for each rule."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, ResolvedReference, SchemaType

DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
DRAFT_4 = "http://json-schema.org/draft-04/schema#"


def found(old: Any, new: Any, policy: Policy = Policy.STRICT) -> list[str]:
    before, after = (parse(SchemaType.JSON, json.dumps(each)) for each in (old, new))
    return [f"{each.kind} {each.path}" for each in after.differences_from(before, policy)]


def obj(properties: dict[str, Any] | None = None, *required: str, **more: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties or {}, **more}
    return schema | ({"required": list(required)} if required else {})


def closed(properties: dict[str, Any] | None = None, *required: str, **more: Any) -> dict[str, Any]:
    return obj(properties, *required, additionalProperties=False, **more)


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (False, STRING),
        (STRING, {}),
        (STRING, True),
        (STRING, {"type": "string", "title": "t", "description": "d", "default": "x", "format": "date"}),
        (INTEGER, NUMBER),
        ({"minimum": 3, "maximum": 5}, {"minimum": 2.5, "maximum": 5}),
        ({"type": "number", "minimum": 3, "exclusiveMaximum": 5}, NUMBER),
        ({"multipleOf": 6}, {"multipleOf": 3}),
        ({"multipleOf": 0.2}, {"multipleOf": 0.1}),
        ({"type": "string", "minLength": 3, "maxLength": 4, "pattern": "x"}, {"type": "string", "minLength": 1}),
        ({"enum": ["a", 1]}, {"enum": ["b", 1.0, "a"]}),
        ({"const": {"a": 1, "b": 2}}, {"enum": [{"b": 2, "a": 1}]}),
        ({"type": "string", "enum": ["a"]}, STRING),
        (STRING, {"type": ["string", "null"]}),
        ({"type": ["null", "integer"]}, {"type": ["string", "number", "null"]}),
        ({"type": ["null", "string"], "maxLength": 3}, {"type": ["null", "string"], "maxLength": 4}),
        ({"anyOf": [STRING, {"type": "null"}]}, {"type": ["string", "null"]}),
        # properties
        (obj({"a": STRING}), obj({"a": STRING, "b": {}})),
        (obj({"a": STRING}, "a"), obj({"a": STRING})),
        (obj({"a": STRING}), obj({"a": {"type": "string", "default": "x"}}, "a")),
        (obj({"a": STRING, "b": STRING}), obj({"a": STRING})),
        (closed({"a": STRING}), closed({"a": STRING, "b": STRING})),
        (closed({"a": STRING}), closed({"a": STRING, "b": {"type": "string", "default": "x"}}, "b")),
        (closed({"a": STRING, "b": False}), closed({"a": STRING})),
        (closed(), obj()),
        (closed(), obj(additionalProperties=STRING)),
        (obj(additionalProperties=STRING), obj()),
        (obj(additionalProperties=INTEGER), obj({"a": NUMBER}, additionalProperties=INTEGER)),
        (obj({"a": INTEGER}), obj(additionalProperties=True)),
        (obj({"a": INTEGER}, additionalProperties=False), obj(additionalProperties=NUMBER)),
        (closed({"a1": INTEGER}), closed(patternProperties={"^a[0-9]$": NUMBER})),
        (closed(patternProperties={"^a": INTEGER}), closed({"ab": NUMBER}, patternProperties={"^a": INTEGER})),
        (obj({"a": STRING}, dependencies={"a": ["b", "c"]}), obj({"a": STRING}, dependencies={"a": ["b"]})),
        (obj(dependencies={"a": ["b"]}), obj()),
        (obj(minProperties=2, maxProperties=3), obj(minProperties=1, maxProperties=4)),
        (obj(propertyNames={"maxLength": 3}), obj(propertyNames={"maxLength": 4})),
        # items
        ({"items": INTEGER}, {"items": NUMBER}),
        ({"type": "array", "items": [STRING]}, {"type": "array", "items": [STRING, {}]}),
        (
            {"type": "array", "items": [STRING], "additionalItems": False},
            {"type": "array", "items": [STRING, INTEGER], "additionalItems": False},
        ),
        (
            {"type": "array", "items": [STRING], "additionalItems": INTEGER},
            {"type": "array", "items": [STRING, NUMBER], "additionalItems": INTEGER},
        ),
        ({"type": "array", "items": [STRING, INTEGER]}, {"type": "array", "items": [STRING]}),
        (
            {"type": "array", "uniqueItems": True, "minItems": 2, "maxItems": 3},
            {"type": "array", "minItems": 1, "maxItems": 3},
        ),
        ({"type": "array", "contains": INTEGER}, {"type": "array", "contains": NUMBER}),
        # combined
        ({"allOf": [STRING, {"maxLength": 3}]}, {"allOf": [STRING]}),
        ({"allOf": [STRING, {"maxLength": 3}]}, STRING),
        ({"allOf": [{"maxLength": 3}, STRING]}, {"allOf": [STRING, {"maxLength": 3}]}),
        ({"anyOf": [STRING, INTEGER]}, {"anyOf": [NUMBER, STRING, {"type": "null"}]}),
        ({"oneOf": [STRING, INTEGER]}, {"oneOf": [INTEGER, STRING, {"type": "null"}]}),
        ({"oneOf": [STRING, INTEGER]}, {"anyOf": [INTEGER, STRING]}),
        (STRING, {"oneOf": [INTEGER, STRING]}),
        (STRING, {"anyOf": [STRING]}),
        ({"anyOf": [STRING]}, STRING),
        ({"not": NUMBER}, {"not": INTEGER}),
        (
            {"if": {"required": ["a"]}, "then": {"required": ["b", "c"]}},
            {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        ),
    ],
)
def test_new_takes_what_old_took(old: Any, new: Any) -> None:
    assert found(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (STRING, INTEGER, "TYPE_CHANGED #/"),
        (STRING, False, "TYPE_CHANGED #/"),
        ({}, STRING, "TYPE_CHANGED #/"),
        (NUMBER, INTEGER, "TYPE_NARROWED #/"),
        ({"minimum": 1}, {"minimum": 2}, "MINIMUM_INCREASED #/minimum"),
        ({"maximum": 2}, {"maximum": 1}, "MAXIMUM_DECREASED #/maximum"),
        (NUMBER, {"type": "number", "maximum": 1}, "MAXIMUM_ADDED #/maximum"),
        (
            {"exclusiveMinimum": 1},
            {"exclusiveMinimum": 1.5},
            "EXCLUSIVE_MINIMUM_INCREASED #/exclusiveMinimum",
        ),
        ({"multipleOf": 3}, {"multipleOf": 6}, "MULTIPLE_OF_EXPANDED #/multipleOf"),
        ({"multipleOf": 3}, {"multipleOf": 2}, "MULTIPLE_OF_CHANGED #/multipleOf"),
        ({"type": "string"}, {"type": "string", "maxLength": 5}, "MAX_LENGTH_ADDED #/maxLength"),
        ({"minLength": 1}, {"minLength": 2}, "MIN_LENGTH_INCREASED #/minLength"),
        ({"pattern": "a"}, {"pattern": "b"}, "PATTERN_CHANGED #/pattern"),
        (STRING, {"type": "string", "pattern": "b"}, "PATTERN_ADDED #/pattern"),
        ({"enum": [1, 2]}, {"enum": [1]}, "ENUM_ARRAY_NARROWED #/enum"),
        ({"enum": [1, 2]}, {"enum": [1, 3]}, "ENUM_ARRAY_CHANGED #/enum"),
        ({"enum": [1]}, {"enum": [True]}, "ENUM_ARRAY_CHANGED #/enum"),
        ({"type": ["string", "null"]}, STRING, "TYPE_CHANGED #/"),
        ({"type": ["string", "null"]}, {"type": ["string", "integer"]}, "TYPE_CHANGED #/"),
        (obj({"a": STRING}), obj({"a": INTEGER}), "TYPE_CHANGED #/properties/a"),
        (obj(), obj({"a": STRING}), "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"),
        (obj(), obj({"a": STRING}, "a"), "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"),
        (
            obj(),
            obj({"a": {"type": "string", "default": "x"}}, "a"),
            "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a",
        ),
        (closed(), closed({"a": STRING}, "a"), "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"),
        (
            obj(additionalProperties=STRING),
            obj({"a": INTEGER}, additionalProperties=STRING),
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
        ),
        (closed({"a": STRING}), closed(), "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"),
        (
            obj({"a": STRING}, additionalProperties=INTEGER),
            obj(additionalProperties=INTEGER),
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
        ),
        (obj({"a": STRING}), obj({"a": STRING}, "a"), "REQUIRED_ATTRIBUTE_ADDED #/required/a"),
        (obj(), obj({}, "z"), "REQUIRED_ATTRIBUTE_ADDED #/required/z"),
        (obj(), closed(), "ADDITIONAL_PROPERTIES_REMOVED #/additionalProperties"),
        (obj(), obj(additionalProperties=STRING), "ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"),
        (obj(additionalProperties=STRING), closed(), "ADDITIONAL_PROPERTIES_NARROWED #/additionalProperties"),
        (
            obj(additionalProperties=STRING),
            obj(additionalProperties=INTEGER),
            "TYPE_CHANGED #/additionalProperties",
        ),
        (obj(), obj(maxProperties=3), "MAX_PROPERTIES_ADDED #/maxProperties"),
        (obj(minProperties=3), obj(minProperties=4), "MIN_PROPERTIES_INCREASED #/minProperties"),
        (
            obj(dependencies={"a": ["b"]}),
            obj(dependencies={"a": ["b", "c"]}),
            "DEPENDENCY_ARRAY_EXTENDED #/dependencies/a",
        ),
        (obj(), obj(dependencies={"a": ["b"]}), "DEPENDENCY_ARRAY_ADDED #/dependencies/a"),
        (obj(), obj(dependencies={"a": obj({}, "b")}), "DEPENDENCY_SCHEMA_ADDED #/dependencies/a"),
        (obj(), obj(propertyNames={"maxLength": 4}), "SCHEMA_ADDED #/propertyNames"),
        (
            obj(patternProperties={"^a": STRING}),
            obj(patternProperties={"^a": INTEGER}),
            "TYPE_CHANGED #/patternProperties/^a",
        ),
        (
            obj(),
            obj(patternProperties={"^a": INTEGER}),
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/patternProperties/^a",
        ),
        ({"type": "array"}, {"type": "array", "items": STRING}, "SCHEMA_ADDED #/items"),
        ({"items": STRING}, {"items": INTEGER}, "TYPE_CHANGED #/items"),
        (
            {"type": "array", "items": [STRING]},
            {"type": "array", "items": [STRING, STRING]},
            "ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1",
        ),
        (
            {"type": "array", "items": [STRING, STRING], "additionalItems": False},
            {"type": "array", "items": [STRING], "additionalItems": False},
            "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1",
        ),
        (
            {"type": "array", "items": [STRING]},
            {"type": "array", "items": [STRING], "additionalItems": False},
            "ADDITIONAL_ITEMS_REMOVED #/additionalItems",
        ),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED #/uniqueItems"),
        ({"maxItems": 4}, {"maxItems": 3}, "MAX_ITEMS_DECREASED #/maxItems"),
        ({"type": "array"}, {"type": "array", "contains": STRING}, "SCHEMA_ADDED #/contains"),
        ({"allOf": [STRING]}, {"allOf": [STRING, {"maxLength": 3}]}, "MAX_LENGTH_ADDED #/allOf/1/maxLength"),
        ({"anyOf": [STRING, INTEGER]}, {"anyOf": [STRING]}, "SUM_TYPE_NARROWED #/anyOf"),
        ({"anyOf": [STRING, INTEGER]}, {"oneOf": [STRING, INTEGER]}, "COMBINED_TYPE_CHANGED #/oneOf"),
        ({"anyOf": [STRING, INTEGER]}, STRING, "COMBINED_TYPE_CHANGED #/"),
        (
            {"anyOf": [STRING, INTEGER]},
            {"anyOf": [STRING, {"type": "boolean"}]},
            "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf",
        ),
        # Both old branches fit the first new one alone: there is no pairing.
        (
            {"anyOf": [INTEGER, {"type": "number", "minimum": 3}]},
            {"anyOf": [NUMBER, STRING]},
            "COMBINED_TYPE_SUBSCHEMAS_CHANGED #/anyOf",
        ),
        (STRING, {"anyOf": [INTEGER, {"type": "null"}]}, "TYPE_CHANGED #/anyOf"),
        ({"not": INTEGER}, {"not": NUMBER}, "NOT_TYPE_EXTENDED #/not"),
        ({}, {"not": NUMBER}, "TYPE_CHANGED #/not"),
    ],
)
def test_the_difference_and_its_path_are_named_when_new_takes_less(old: Any, new: Any, expected: str) -> None:
    assert found(old, new) == [expected]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (obj(), obj({"a": STRING})),
        (obj(), obj({"a": {"type": "string", "default": "x"}}, "a")),
        (obj(), closed()),
        (closed({"a": STRING}), closed()),
        (obj(), obj(additionalProperties=STRING)),
        (obj(additionalProperties=STRING), obj({"a": INTEGER}, additionalProperties=STRING)),
    ],
)
def test_what_the_schema_leaves_open_does_not_count_when_the_policy_is_lenient(old: Any, new: Any) -> None:
    assert found(old, new)
    assert found(old, new, Policy.LENIENT) == []


def test_a_required_property_without_default_counts_even_when_the_policy_is_lenient() -> None:
    assert found(obj(), obj({"a": STRING}, "a"), Policy.LENIENT)


def test_drafts_say_the_same_in_other_words() -> None:
    old = {"$schema": DRAFT_4, "type": "number", "minimum": 1, "exclusiveMinimum": True}
    assert found(old, {"type": "number", "exclusiveMinimum": 1}) == []
    tuple_7 = {"type": "array", "items": [STRING], "additionalItems": INTEGER}
    tuple_2020 = {"$schema": DRAFT_2020, "type": "array", "prefixItems": [STRING], "items": INTEGER}
    assert found(tuple_7, tuple_2020) == []
    assert found(tuple_2020, tuple_7) == []
    # Words of a later draft mean nothing in an earlier one.
    assert found({}, {"$schema": DRAFT_4, "const": 1, "if": STRING, "then": False, "contains": False}) == []


def test_contains_is_counted_in_the_drafts_that_count() -> None:
    def contains(schema: Any, **more: Any) -> Any:
        return {"$schema": DRAFT_2020, "type": "array", "contains": schema, **more}

    assert found(contains(STRING, minContains=2), contains(STRING)) == []
    assert found(contains(STRING), contains(STRING, minContains=2)) == ["MIN_CONTAINS_INCREASED #/minContains"]
    assert found(contains(STRING, maxContains=2), contains(STRING, maxContains=1)) == [
        "MAX_CONTAINS_DECREASED #/maxContains"
    ]
    # More items count than before, so the bound may be passed.
    assert found(contains(INTEGER, maxContains=2), contains(NUMBER, maxContains=2)) == ["TYPE_NARROWED #/contains"]
    assert found({"$schema": DRAFT_2020, "type": "array"}, contains(STRING, minContains=0)) == []


def test_siblings_of_a_reference_count_since_2019() -> None:
    defs = {"$defs": {"s": STRING}, "definitions": {"s": STRING}}
    old = {**defs, "properties": {"a": {"$ref": "#/$defs/s"}}}
    new = {**defs, "properties": {"a": {"$ref": "#/$defs/s", "maxLength": 3}}}
    assert found(old, new) == []
    assert found({"$schema": DRAFT_2020, **old}, {"$schema": DRAFT_2020, **new}) == [
        "MAX_LENGTH_ADDED #/properties/a/maxLength"
    ]


def test_recursive_schemas_are_compared_once_around() -> None:
    def tree(kind: Any) -> Any:
        return {
            "$ref": "#/definitions/node",
            "definitions": {"node": closed({"value": kind, "left": {"$ref": "#/definitions/node"}})},
        }

    assert found(tree(INTEGER), tree(NUMBER)) == []
    assert found(tree(NUMBER), tree(INTEGER)) == ["TYPE_NARROWED #/properties/value"]


def test_a_schema_that_refers_to_others_is_compared_with_what_they_say() -> None:
    def schema(kind: Any) -> Any:
        text = json.dumps(closed({"a": {"$ref": "other.json"}}))
        return parse(SchemaType.JSON, text, resolved=[ResolvedReference("other.json", json.dumps(kind))])

    assert schema(NUMBER).differences_from(schema(INTEGER), Policy.STRICT) == []
    (difference,) = schema(INTEGER).differences_from(schema(STRING), Policy.STRICT)
    assert difference.text(reader="new", writer="old") == (
        '{errorType:"TYPE_CHANGED", description:"The type at path \'#/properties/a\' in the new schema is not the one '
        'in the old schema"}'
    )
