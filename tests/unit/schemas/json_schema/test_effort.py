"""Schemas whose branches multiply are known before a validator spends hours on them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.schemas.json_schema.effort import MOST_VISITS, Effort
from penstock.schemas.json_schema.schema import parse_json_schema
from penstock.schemas.limits import DEFAULT_LIMITS
from penstock.schemas.schema import InvalidSchemaError


def effort(document: Any) -> Effort:
    return parse_json_schema(json.dumps(document), (), (), DEFAULT_LIMITS, is_new=False).effort()


def doubling(count: int) -> dict[str, Any]:
    """Each definition refers to the next one twice."""
    steps = {f"d{at}": {"anyOf": [{"$ref": f"#/definitions/d{at + 1}"}] * 2} for at in range(count)}
    return {"$ref": "#/definitions/d0", "definitions": {**steps, f"d{count}": {"type": "string"}}}


SELF = {"$ref": "#"}


@pytest.mark.parametrize(
    "document",
    [
        True,
        {},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        {"properties": {"children": {"items": SELF}, "parent": SELF}, "additionalProperties": SELF},
        {"properties": {"a": SELF, "b": {"$ref": "#/definitions/x"}},
         "definitions": {"x": {"properties": {"a": SELF, "b": {"$ref": "#/definitions/x"}}}}},
        {"anyOf": [{"type": "null"}, {"properties": {"next": SELF}}, {"items": SELF}]},
        {"items": [SELF, SELF], "additionalItems": SELF},
    ],
)  # fmt: skip
def test_values_nest_as_they_like_when_each_place_has_its_schema(document: Any) -> None:
    found = effort(document)
    assert found.deepest is None
    assert found.visits < 20


def test_visits_are_counted_when_branches_share_schemas() -> None:
    assert effort(doubling(3)) == Effort(None, 1 + 2 * (1 + 2 + 4 + 8) - 1)


def test_a_schema_is_refused_when_its_branches_multiply() -> None:
    for count in (20, 1_000):
        with pytest.raises(InvalidSchemaError, match="refers to itself too often"):
            effort(doubling(count))
    with pytest.raises(InvalidSchemaError, match="refers to itself too often"):
        effort({"allOf": [SELF]})


@pytest.mark.parametrize("kind", ["left", "items", "additional"])
def test_depth_is_bounded_when_branches_multiply_with_each_level(kind: str) -> None:
    inner: dict[str, dict[str, Any]] = {
        "left": {"properties": {"left": SELF}},
        "items": {"items": SELF},
        "additional": {"additionalProperties": SELF},
    }
    found = effort({"anyOf": [inner[kind], {"type": "object", **inner[kind]}]})
    assert found.deepest is not None
    assert 10 < found.deepest < 15
    assert found.visits <= MOST_VISITS


def test_counting_ends_when_a_schema_has_many_names_and_many_branches() -> None:
    names = {f"n{at}": {"$ref": "#/definitions/x"} for at in range(2_000)}
    branches = [{"additionalProperties": {"title": str(at)}} for at in range(2_000)]
    found = effort({"properties": names, "allOf": branches, "definitions": {"x": {}}})
    assert found.visits <= MOST_VISITS
