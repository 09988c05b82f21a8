"""What an old JSON schema takes, a new one that is called backward compatible takes as well; texts are fixpoints."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, SchemaType

Drawn = Any
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
# Few and small values, so that those of one schema are often those of another.
SCALARS: list[Any] = [None, True, False, 0, 1, 2, 3, 1.5, "", "a", "ab", "b"]
values = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "ab", "b"]), inner)),
    max_leaves=5,
)
TYPES = ["null", "boolean", "integer", "number", "string", "object", "array"]
small = st.integers(0, 3)
# Hypothesis takes longer to build and check a strategy than to draw from it, so each is built once.
BOUNDS = st.dictionaries(
    st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]), small, max_size=2
)
MULTIPLES = st.sampled_from([0.5, 1, 2])
LENGTHS = st.dictionaries(st.sampled_from(["minLength", "maxLength"]), small)
PATTERNS = st.sampled_from(["a", "^b"])
COUNTS = st.dictionaries(st.sampled_from(["minProperties", "maxProperties"]), small, max_size=1)
NAMES = st.lists(st.sampled_from(["a", "ab", "b"]), unique=True, max_size=2)
REQUIRED = st.lists(st.sampled_from(["a", "b"]), unique=True, min_size=1)
NAME_PATTERNS = st.sampled_from(["^a", "b"])
DEPENDENCIES = st.sampled_from([["b"], ["ab", "b"]])
SIZES = st.dictionaries(st.sampled_from(["minItems", "maxItems"]), small, max_size=1)
ADDITIONAL_ITEMS = st.sampled_from([True, False, {"type": "integer"}])
ANY_TYPE = st.sampled_from(TYPES)
SOME_TYPES = st.lists(ANY_TYPE, min_size=2, max_size=3, unique=True)
TRIVIAL = st.sampled_from([True, False, {}])
ENUMS = st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4)
DISJOINT = st.lists(st.sampled_from(["string", "integer", "null"]), min_size=1, unique=True)
ITEM_TYPES = st.sampled_from(["integer", "string", "null"]).map(lambda kind: {"type": kind})
ITEMS = st.one_of(ITEM_TYPES, st.booleans())


def _number(draw: Drawn, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = draw(BOUNDS)
    return found | ({"multipleOf": draw(MULTIPLES)} if draw(st.booleans()) else {})


def _string(draw: Drawn, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = draw(LENGTHS)
    return found | ({"pattern": draw(PATTERNS)} if draw(st.booleans()) else {})


def _object(draw: Drawn, depth: int) -> dict[str, Any]:
    inner = _schema(draw, depth - 1)
    found: dict[str, Any] = draw(COUNTS)
    found["properties"] = {name: _schema(draw, depth - 1) for name in draw(NAMES)}
    match draw(st.integers(0, 9)):
        case 0 | 1:
            found["required"] = draw(REQUIRED)
        case 2 | 3 | 4:
            found["additionalProperties"] = False
        case 5:
            found["additionalProperties"] = inner
        case 6:
            found["patternProperties"] = {draw(NAME_PATTERNS): inner}
        case 7:
            found["dependencies"] = {"a": draw(DEPENDENCIES)}
        case 8:
            found["propertyNames"] = {"maxLength": draw(small)}
    return found


def _array(draw: Drawn, depth: int) -> dict[str, Any]:
    inner = _schema(draw, depth - 1)
    found: dict[str, Any] = draw(SIZES)
    match draw(st.integers(0, 4)):
        case 0 | 1:
            found["items"] = inner
        case 2:
            found["items"] = [inner, _schema(draw, depth - 1)][: draw(st.integers(1, 2))]
            found["additionalItems"] = draw(ADDITIONAL_ITEMS)
        case 3:
            found["uniqueItems"] = True
        case 4:
            found["contains"] = inner
    return found


KEYWORDS = {"integer": _number, "number": _number, "string": _string, "object": _object, "array": _array}


def _typed(draw: Drawn, depth: int) -> dict[str, Any]:
    kind = draw(ANY_TYPE)
    found: dict[str, Any] = {"type": kind}
    if kind in KEYWORDS and depth:
        found |= KEYWORDS[kind](draw, depth)
    return found


def _schema(draw: Drawn, depth: int) -> Any:
    match draw(st.integers(0, 13)) if depth else 0:
        case 1:
            return draw(TRIVIAL)
        case 2:
            return {"enum": draw(ENUMS)}
        case 3:
            return {"anyOf": [_schema(draw, depth - 1) for _ in range(draw(st.integers(1, 3)))]}
        case 4:
            return {"allOf": [_schema(draw, depth - 1) for _ in range(draw(st.integers(1, 2)))]}
        case 5:
            return {"not": _schema(draw, depth - 1)}
        case 6:
            return {**_object(draw, depth), **_string(draw, depth), **_number(draw, depth)}
        case 7:
            return {"type": draw(SOME_TYPES), **_string(draw, depth), **_object(draw, depth)}
        case 8:
            return {**_typed(draw, depth), "anyOf": [_schema(draw, depth - 1)]}
        case 9:
            return {word: _schema(draw, depth - 1) for word in ("if", "then", "else")}
        case 10:
            return {"$ref": "#/definitions/shared"}
        case 11:
            # Disjoint branches: with others, more branches may mean fewer values, and Confluent's rule is not true.
            return {"oneOf": [{"type": kind} for kind in draw(DISJOINT)]}
    return _typed(draw, depth)


@st.composite
def schemas(draw: Drawn) -> Any:
    found = _schema(draw, 3)
    if not isinstance(found, dict) or "$ref" in found:
        found = {"allOf": [found]}
    shared = {"type": "object", "properties": {"a": {"$ref": "#/definitions/shared"}, "b": _typed(draw, 1)}}
    return found | {"definitions": {"shared": shared}}


@st.composite
def changed(draw: Drawn, schema: Any) -> Any:
    """The schema with one part replaced, or a keyword less: schemas drawn apart from each other rarely fit."""
    document = json.loads(json.dumps(schema))
    objects = [each for each in _walk(document) if isinstance(each, dict) and each]
    chosen = draw(st.sampled_from(objects))
    key = draw(st.sampled_from(sorted(chosen)))
    if key in ("definitions", "shared") or chosen is document.get("definitions"):
        return document
    match draw(st.integers(0, 3)):
        case 0:
            del chosen[key]
        case 1 if isinstance(chosen[key], int) and not isinstance(chosen[key], bool):
            chosen[key] = draw(small)
        case 2 if isinstance(chosen[key], dict) and "type" in chosen[key]:
            chosen[key] = {"anyOf": [chosen[key], {"type": "null"}]}
        case 3 if isinstance(chosen[key], list) and key != "oneOf":
            chosen[key] = [*chosen[key], *chosen[key][:1]] if key in ("anyOf", "allOf") else chosen[key][:1]
    return document


def _walk(document: Any) -> Any:
    """Everything but the branches of `oneOf`, which have to stay disjoint."""
    yield document
    children = document if isinstance(document, list) else ()
    if isinstance(document, dict):
        children = [child for key, child in document.items() if key != "oneOf"]
    for child in children:
        yield from _walk(child)


@st.composite
def pairs(draw: Drawn) -> tuple[Any, Any]:
    old = draw(schemas())
    return old, draw(st.one_of(changed(old), changed(old), schemas()))


CALM = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def _parsed(document: Any) -> Any:
    try:
        return parse(SchemaType.JSON, json.dumps(document))
    except Exception:
        assume(Draft7Validator(Draft7Validator.META_SCHEMA).is_valid(document))
        raise


@CALM
@given(pairs(), st.lists(values, min_size=10, max_size=30))
def test_what_old_takes_new_takes_when_they_are_called_compatible(pair: tuple[Any, Any], samples: list[Any]) -> None:
    old, new = pair
    assume(not _parsed(new).differences_from(_parsed(old), Policy.STRICT))
    before, after = Draft7Validator(old), Draft7Validator(new)
    for value in samples:
        if before.is_valid(value):
            assert after.is_valid(value), value


@CALM
@given(schemas())
def test_a_schema_fits_itself_and_its_texts_are_fixpoints(document: Any) -> None:
    parsed = _parsed(document)
    assert parsed.differences_from(parsed, Policy.STRICT) == []
    text = parsed.canonical_text
    assert parse(SchemaType.JSON, text).canonical_text == text
    normalized = parsed.normalized().canonical_text
    again = parse(SchemaType.JSON, normalized)
    assert again.normalized().canonical_text == normalized == again.canonical_text
    assert again.differences_from(parsed, Policy.STRICT) == []


@CALM
@given(st.lists(values, min_size=1, max_size=20), st.data())
def test_tuples_of_the_newest_draft_keep_the_promise_too(samples: list[Any], data: st.DataObject) -> None:
    def array() -> Any:
        document: dict[str, Any] = {"$schema": DRAFT_2020, "type": "array", "prefixItems": [data.draw(ITEM_TYPES)]}
        document["items"] = data.draw(ITEMS)
        if data.draw(st.booleans()):
            document |= {"contains": data.draw(ITEM_TYPES), "minContains": data.draw(small), "maxContains": 2}
        return document

    old, new = array(), array()
    assume(not _parsed(new).differences_from(_parsed(old), Policy.STRICT))
    before, after = Draft202012Validator(old), Draft202012Validator(new)
    for value in samples:
        if before.is_valid(value):
            assert after.is_valid(value), value
