"""Schemas that are made to keep a registry busy: refused, in time and memory that their size bounds."""

from __future__ import annotations

import json
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


def test_huge_unions_are_compared_within_the_budget_or_refused() -> None:
    names = [f"R{index}" for index in range(2_000)]
    branches = [{"type": "record", "name": name, "fields": []} for name in names]
    schema = parse(SchemaType.AVRO, json.dumps(branches))
    backwards = parse(SchemaType.AVRO, json.dumps(branches[::-1]))
    with pytest.raises(InvalidSchemaError, match="too large to be compared"):
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


def test_the_list_of_differences_ends_when_there_are_too_many() -> None:
    def record(kind: str) -> str:
        return json.dumps(
            {"type": "record", "name": "R", "fields": [{"name": f"f{index}", "type": kind} for index in range(3_000)]}
        )

    found = parse(SchemaType.AVRO, record("int")).differences_from(
        parse(SchemaType.AVRO, record("string")), Policy.STRICT
    )
    assert len(found) == Limits().differences
