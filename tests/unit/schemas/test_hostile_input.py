"""Schemas that are made to keep a registry busy: refused, in time and memory that their size bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.schemas.limits import DEFAULT_LIMITS, Limits
from penstock.schemas.parsing import parse
from penstock.schemas.schema import InvalidSchemaError, Policy, ResolvedReference, SchemaType


def nested(opening: str, core: str, closing: str, depth: int) -> str:
    return opening * depth + core + closing * depth


@pytest.mark.parametrize(
    "text",
    [
        nested('{"type":"array","items":', '"int"', "}", 100_000),
        nested('{"type":"array","items":', '"int"', "}", 500),
        nested("[", "", "]", 100_000),
        '{"type":"int","x":' + nested("[", "", "]", 300) + "}",
        '{"type":"int","x":[' + "1," * 250_000 + "1]}",
        '{"type":"int","x":' + "9" * 10_000 + "}",
        '"' + "x" * (DEFAULT_LIMITS.text_bytes + 1) + '"',
    ],
)
def test_an_avro_schema_is_refused_when_it_is_too_deep_or_too_large(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(SchemaType.AVRO, text)


def test_references_are_refused_when_there_are_too_many_or_too_large_ones() -> None:
    many = [ResolvedReference(str(index), '"int"') for index in range(DEFAULT_LIMITS.references + 1)]
    with pytest.raises(InvalidSchemaError, match="references"):
        parse(SchemaType.AVRO, '"int"', resolved=many)
    large = [ResolvedReference(str(index), '"int"' + " " * 1_000_000) for index in range(5)]
    with pytest.raises(InvalidSchemaError, match="references"):
        parse(SchemaType.AVRO, '"int"', resolved=large)


def test_a_chain_of_names_is_refused_when_it_is_longer_than_any_comparison_may_go() -> None:
    chain: list[dict[str, Any]] = [{"type": "record", "name": "R0", "fields": []}]
    chain += [
        {"type": "record", "name": f"R{index}", "fields": [{"name": "f", "type": f"R{index - 1}"}]}
        for index in range(1, 1_000)
    ]
    # The last one first in the comparison, so that nothing is known on the way down.
    schema = parse(SchemaType.AVRO, '"R999"', resolved=[ResolvedReference("r", json.dumps(chain))])
    with pytest.raises(InvalidSchemaError, match="deep"):
        schema.differences_from(schema, Policy.STRICT)


def test_large_unions_of_large_records_are_compared_by_name_first() -> None:
    fields = [{"name": f"f{index}", "type": "int"} for index in range(20)]
    branches = [{"type": "record", "name": f"R{index}", "fields": fields} for index in range(200)]
    schema = parse(SchemaType.AVRO, json.dumps(branches))
    backwards = parse(SchemaType.AVRO, json.dumps(branches[::-1]))
    assert schema.differences_from(backwards, Policy.STRICT) == []


def test_huge_unions_are_compared_within_the_budget_or_refused() -> None:
    names = [f"R{index}" for index in range(2_000)]
    branches = [{"type": "record", "name": name, "fields": []} for name in names]
    schema = parse(SchemaType.AVRO, json.dumps(branches))
    backwards = parse(SchemaType.AVRO, json.dumps(branches[::-1]))
    with pytest.raises(InvalidSchemaError, match="too large"):
        schema.differences_from(backwards, Policy.STRICT)


def test_a_default_in_unions_of_unions_is_checked_once_for_each_pair_of_type_and_value() -> None:
    """Each level has four branches that could hold the value: 4^40 ways, 160 questions."""
    default: Any = {"f": 1}
    for _ in range(40):
        default = {"f": default}
    types = {"name": "h", "type": ["null", _records_of_each_other(4)]}
    fields = [types, {"name": "d", "type": ["null", "R0"], "default": default}]
    holder = {"type": "record", "name": "H", "fields": fields}
    with pytest.raises(InvalidSchemaError, match="Invalid default"):
        parse(SchemaType.AVRO, json.dumps(holder))


def _records_of_each_other(count: int) -> dict[str, Any]:
    """R0 with R1 inside, and so on; each refers to those that are defined by then."""
    document: Any = None
    for index in reversed(range(count)):
        kinds: list[Any] = ["null", *(f"R{known}" for known in range(index + 1))]
        if document is not None:
            kinds.append(document)
        document = {"type": "record", "name": f"R{index}", "fields": [{"name": "f", "type": kinds}]}
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    "text",
    [
        nested('{"items":', "{}", "}", 100_000),
        nested('{"items":', "{}", "}", 200),
        '{"pattern":"' + "(?:" * 900 + "a" + "){1000}" * 900 + '"}',
        json.dumps({"patternProperties": {f"x{index}": {} for index in range(2_000)}}),
        '{"pattern":"' + "a" * 20_000 + '"}',
        '{"enum":[' + "1," * 250_000 + "1]}",
        '{"multipleOf":1e999999999999999999999}',
        '{"$ref":"#' + "/a" * 400_000 + '"}',
    ],
)
def test_a_json_schema_is_refused_when_it_is_too_deep_or_too_large(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(SchemaType.JSON, text)


def test_long_lists_of_names_are_compared_in_time_that_grows_with_their_length() -> None:
    names = [f"a{index}" for index in range(50_000)]
    document = {"required": names, "dependencies": {"a": names}}
    parsed = parse(SchemaType.JSON, json.dumps(document, separators=(",", ":")))
    assert parsed.differences_from(parsed, Policy.STRICT) == []


def test_numbers_with_huge_exponents_are_compared_without_writing_them_out() -> None:
    old = parse(SchemaType.JSON, '{"multipleOf":1e-300,"maximum":1e300}')
    new = parse(SchemaType.JSON, '{"multipleOf":3e300,"maximum":1e-300}')
    kinds = [each.kind for each in new.differences_from(old, Policy.STRICT)]
    assert kinds == ["MAXIMUM_DECREASED", "MULTIPLE_OF_CHANGED"]


def test_definitions_that_refer_to_all_others_are_compared_within_the_budget() -> None:
    """Each of sixty definitions is a choice of all sixty: as a tree it would have no end."""

    def schema(last: str) -> str:
        names = [f"d{index}" for index in range(60)]
        choice = [{"$ref": f"#/definitions/{name}"} for name in names]
        definitions: dict[str, Any] = {
            name: {"type": "object", "properties": {name: {"anyOf": choice}}, "additionalProperties": False}
            for name in names
        }
        definitions["d59"]["properties"]["x"] = {"type": last}
        return json.dumps({"$ref": "#/definitions/d0", "definitions": definitions})

    old, new = parse(SchemaType.JSON, schema("integer")), parse(SchemaType.JSON, schema("string"))
    with pytest.raises(InvalidSchemaError, match="entangled"):
        new.differences_from(old, Policy.STRICT)


def test_definitions_that_contain_all_others_are_refused_when_they_are_too_entangled() -> None:
    names = [f"d{index}" for index in range(150)]
    parts = [{"$ref": f"#/$defs/{name}"} for name in names]
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {name: {"$ref": f"#/$defs/{name}", "minLength": 1} for name in names},
        "$defs": {name: {"allOf": parts, "maxLength": index} for index, name in enumerate(names)},
    }
    schema = parse(SchemaType.JSON, json.dumps(document))
    with pytest.raises(InvalidSchemaError, match="entangled"):
        schema.differences_from(schema, Policy.STRICT)


def test_a_chain_of_references_is_followed_once_however_many_lead_into_it() -> None:
    definitions: dict[str, Any] = {f"d{index}": {"$ref": f"#/definitions/d{index + 1}"} for index in range(3_000)}
    definitions["d3000"] = {"type": "string"}
    properties = {f"p{index}": {"$ref": "#/definitions/d0"} for index in range(3_000)}
    parsed = parse(SchemaType.JSON, json.dumps({"properties": properties, "definitions": definitions}))
    assert parsed.differences_from(parsed, Policy.STRICT) == []


def test_expressions_that_explode_are_matched_within_the_budget() -> None:
    names: dict[str, Any] = {f"{'a' * 30}{index}": {} for index in range(300)}
    patterns = {f"^(?!x{index})(a|a|a)*b$": {"type": "string"} for index in range(300)}
    old = parse(SchemaType.JSON, json.dumps({"properties": names}))
    new = parse(SchemaType.JSON, json.dumps({"patternProperties": patterns}))
    with pytest.raises(InvalidSchemaError, match="too large"):
        new.differences_from(old, Policy.STRICT)


def test_an_expression_with_large_counts_is_refused_when_it_is_new_and_never_matches_when_it_is_stored() -> None:
    large = {"(?:(?:a{1000}){1000}){1000}": {"type": "string"}}
    old = parse(SchemaType.JSON, '{"properties":{"aaa":{"type":"string"}}}')
    text = json.dumps({"patternProperties": large, "additionalProperties": False})
    with pytest.raises(InvalidSchemaError, match="too large regular expression"):
        parse(SchemaType.JSON, text)
    new = parse(SchemaType.JSON, text, is_new=False)
    kinds = [each.kind for each in new.differences_from(old, Policy.STRICT)]
    assert "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL" in kinds


def test_a_long_chain_of_references_is_followed_without_recursion() -> None:
    definitions: dict[str, Any] = {f"d{index}": {"$ref": f"#/definitions/d{index + 1}"} for index in range(5_000)}
    definitions["d5000"] = {"type": "string"}
    document = {"$ref": "#/definitions/d0", "definitions": definitions}
    parsed = parse(SchemaType.JSON, json.dumps(document))
    assert parsed.differences_from(parse(SchemaType.JSON, '{"type":"string"}'), Policy.STRICT) == []


@pytest.mark.parametrize(
    "text",
    [
        nested("message M {", "", "}", 30_000),
        nested("message M {", "", "}", 100),
        "option x = " + nested("{ a: ", "1", "}", 50_000) + ";",
        "option x = " + nested("[", "1", "]", 50_000) + ";",
        "a " * 250_000,
        "message M { optional int32 a = " + "1" * 100_000 + "; }",
        "message M { " + "".join(f"optional int32 f{index} = 1;" for index in range(20_000)) + "}",
        "QUFB" * 100_000,
        "/*" * 300_000,
        '"' + "\\" * 400_000,
    ],
)
def test_a_protobuf_schema_is_refused_when_it_is_too_deep_or_too_large(text: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse(SchemaType.PROTOBUF, text)


def test_many_fields_and_many_reserved_numbers_are_checked_in_time_that_grows_with_their_number() -> None:
    fields = "".join(f"optional int32 f{index}={2 * index + 1};" for index in range(9_000))
    reserved = ",".join(str(2 * index + 2) for index in range(9_000))
    text = f"message M {{ reserved {reserved}; {fields} }}"
    assert parse(SchemaType.PROTOBUF, text).has_top_level_field("f8999")
    with pytest.raises(InvalidSchemaError, match="reserved"):
        parse(SchemaType.PROTOBUF, text.replace("f8999=17999", "f8999=18000"))


def test_a_text_that_grows_when_it_is_printed_is_refused() -> None:
    """Each line is indented by each message around it."""
    fields = "".join(f"optional int32 f{index}={index + 1};" for index in range(9_000))
    with pytest.raises(InvalidSchemaError, match="printed"):
        parse(SchemaType.PROTOBUF, nested("message M {", fields, "}", 60))


def test_a_long_chain_of_messages_is_compared_without_recursion() -> None:
    messages = [f"message M{index} {{ optional M{index + 1} m = 1; }}" for index in range(3_000)]
    chain = parse(SchemaType.PROTOBUF, "".join(messages) + "message M3000 { optional int32 a = 1; }")
    other = parse(SchemaType.PROTOBUF, "".join(messages) + "message M3000 { optional string a = 1; }")
    assert [each.path for each in other.differences_from(chain, Policy.STRICT)] == ["#/M3000/1"]


def test_a_long_chain_of_imports_is_followed_without_recursion() -> None:
    chain = [ResolvedReference(f"{index}", f'import "{index + 1}";') for index in range(900)]
    parse(SchemaType.PROTOBUF, 'import "0";', resolved=[*chain, ResolvedReference("900", "")])


def test_the_list_of_differences_ends_when_there_are_too_many() -> None:
    def record(kind: str) -> str:
        return json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": f"f{index}", "type": kind} for index in range(3_000)]}
        )

    found = parse(SchemaType.AVRO, record("int")).differences_from(
        parse(SchemaType.AVRO, record("string")), Policy.STRICT
    )
    assert len(found) == Limits().differences


def _large_union() -> tuple[SchemaType, str, str]:
    def union(letter: str) -> str:
        fields = [{"name": f"f{index}", "type": "int"} for index in range(20)]
        branches = [{"type": "record", "name": f"{letter}{index}", "fields": fields} for index in range(500)]
        return json.dumps(branches)

    return SchemaType.AVRO, union("A"), union("B")


def _large_choice() -> tuple[SchemaType, str, str]:
    def choice(first: int) -> str:
        branches = [
            {"type": "object", "properties": {f"p{first + index}": {"type": "string"}}, "required": [f"p{index}"]}
            for index in range(300)
        ]
        return json.dumps({"oneOf": branches})

    return SchemaType.JSON, choice(0), choice(1)


@pytest.mark.parametrize("make", [_large_union, _large_choice])
def test_refusal_says_that_schemas_cannot_be_compared_when_each_alone_is_valid(
    make: Callable[[], tuple[SchemaType, str, str]],
) -> None:
    kind, old, new = make()
    limits = Limits(comparisons=20_000)
    earlier, later = parse(kind, old, limits=limits), parse(kind, new, limits=limits)
    with pytest.raises(InvalidSchemaError, match="cannot be compared within the limits"):
        later.differences_from(earlier, Policy.STRICT)


@pytest.mark.parametrize(
    ("number", "words"),
    [("9" * 10_000, "A number has too many digits"), ("1e999999999", "A number is too large at path .#.maximum")],
)
def test_refusal_names_the_number_in_words_of_ours_when_it_is_beyond_what_is_read(number: str, words: str) -> None:
    with pytest.raises(InvalidSchemaError, match=words):
        parse(SchemaType.JSON, f'{{"maximum": {number}}}')
