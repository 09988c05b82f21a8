"""What the checker calls backward compatible, fastavro reads; what it prints is what it reads; and a second checker."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
from avro.schema import parse as parse_by_avro
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, SchemaType

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
# A default of each type, for fields that have one.
DEFAULTS: dict[str, Any] = {
    "null": None, "boolean": True, "int": 1, "long": 2, "float": 0.5, "double": 1.5, "bytes": "b", "string": "s",
}  # fmt: skip
# Hypothesis takes longer to build and check a strategy than to draw from it, so each is built once.
PRIMITIVE = st.sampled_from(PRIMITIVES)
SYMBOLS = st.lists(st.sampled_from(["A", "B", "C"]), min_size=1, unique=True)
RECORD_NAMES = st.sampled_from(["R", "S"])
FIELD_NAMES = st.lists(st.sampled_from("abc"), unique=True)
FLAT_KINDS = ["primitive", "primitive", "enum", "fixed", "known"]
DEEP_KINDS = [*FLAT_KINDS, "array", "map", "record"]
KINDS = {
    "flat": st.sampled_from(FLAT_KINDS),
    "branch": st.sampled_from(DEEP_KINDS),
    "deep": st.sampled_from([*DEEP_KINDS, "union"]),
}
CHANGES = st.sampled_from(["add", "add with default", "drop", "promote", "nullable", "none"])

Drawn = Any


class SchemaMaker:
    """Draws one schema. Names are few, so that two schemas have things in common, and each is defined once."""

    def __init__(self, draw: Drawn) -> None:
        self._draw = draw
        self._defined: dict[str, str] = {}

    def type(self, depth: int, *, in_union: bool = False) -> Any:
        place = "flat" if not depth else "branch" if in_union else "deep"
        return getattr(self, "_" + self._draw(KINDS[place]))(depth)

    def _primitive(self, depth: int) -> Any:
        return self._draw(PRIMITIVE)

    def _known(self, depth: int) -> Any:
        return self._draw(st.sampled_from(["int", *self._defined]))

    def _array(self, depth: int) -> Any:
        return {"type": "array", "items": self.type(depth - 1)}

    def _map(self, depth: int) -> Any:
        return {"type": "map", "values": self.type(depth - 1)}

    def _union(self, depth: int) -> Any:
        branches: dict[str, Any] = {}
        for _ in range(self._draw(st.integers(1, 3))):
            before = dict(self._defined)
            branch = self.type(depth - 1, in_union=True)
            if self._defined.get(str(branch)) in ("enum", "fixed"):
                # fastavro does not read an enum or a fixed that a union names without defining it.
                continue
            if branches.setdefault(_key(branch), branch) is not branch:
                self._defined = before
        return list(branches.values()) or ["int"]

    def _enum(self, depth: int) -> Any:
        symbols = self._draw(SYMBOLS)
        more = {"default": symbols[0]} if self._draw(st.booleans()) else {}
        return self._define("enum", "E", {"symbols": symbols, **more})

    def _fixed(self, depth: int) -> Any:
        return self._define("fixed", "F", {"size": self._draw(st.integers(1, 2))})

    def _record(self, depth: int) -> Any:
        name = self._draw(RECORD_NAMES)
        if name in self._defined:
            return name
        self._defined[name] = "record"
        fields = [self._field(each, depth) for each in self._draw(FIELD_NAMES)]
        return {"type": "record", "name": name, "fields": fields}

    def _field(self, name: str, depth: int) -> Any:
        kind = self.type(depth - 1)
        first = kind[0] if isinstance(kind, list) else kind
        field = {"name": name, "type": kind}
        if isinstance(first, str) and first in DEFAULTS and self._draw(st.booleans()):
            field["default"] = DEFAULTS[first]
        if self._draw(st.integers(0, 5)) == 0:
            field["aliases"] = [self._draw(st.sampled_from("abc".replace(name, "")))]
        return field

    def _define(self, kind: str, name: str, rest: dict[str, Any]) -> Any:
        if name in self._defined:
            return name
        self._defined[name] = kind
        return {"type": kind, "name": name, **rest}


def _key(branch: Any) -> str:
    return branch if isinstance(branch, str) else str(branch.get("name", branch["type"]))


@st.composite
def schemas(draw: Drawn) -> Any:
    return SchemaMaker(draw).type(3)


@st.composite
def changed(draw: Drawn, schema: Any) -> Any:
    """The schema with one small change somewhere: two schemas drawn apart from each other rarely fit."""
    document = json.loads(json.dumps(schema))
    records = [each for each in walk(document) if isinstance(each, dict) and each.get("type") == "record"]
    if not records:
        return document
    record = draw(st.sampled_from(records))
    names = {field["name"] for field in record["fields"]}
    match draw(CHANGES):
        case "add" if "z" not in names:
            record["fields"].append({"name": "z", "type": "int"})
        case "add with default" if "z" not in names:
            record["fields"].append({"name": "z", "type": "int", "default": 7})
        case "drop" if record["fields"] and isinstance(record["fields"][-1]["type"], str):
            record["fields"].pop()
        case "promote" if record["fields"] and record["fields"][0]["type"] == "int":
            record["fields"][0].update(type="long")
        case "nullable" if record["fields"] and isinstance(record["fields"][0]["type"], dict):
            record["fields"][0]["type"] = ["null", record["fields"][0]["type"]]
            record["fields"][0].pop("default", None)
    return document


def walk(document: Any) -> Any:
    yield document
    children = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
    for child in children:
        yield from walk(child)


@st.composite
def pairs(draw: Drawn) -> tuple[str, str]:
    writer = draw(schemas())
    reader = draw(st.one_of(changed(writer), changed(writer), schemas()))
    return json.dumps(reader), json.dumps(writer)


class DataMaker:
    """Draws a value of a schema; recursive types end with the first branch that needs nothing."""

    def __init__(self, draw: Drawn, named: dict[str, Any]) -> None:
        self._draw = draw
        self._named = named

    def value(self, schema: Any, depth: int) -> Any:
        if isinstance(schema, list):
            return self._branch(schema, depth)
        if isinstance(schema, str):
            return self.value(self._named[schema], depth) if schema in self._named else self._draw(SCALARS[schema])
        if depth < 0:
            assume(False)
        kind = schema["type"]
        many = range(self._draw(st.integers(0, 2)) if depth else 0)
        if kind == "array":
            return [self.value(schema["items"], depth - 1) for _ in many]
        if kind == "map":
            return {str(index): self.value(schema["values"], depth - 1) for index in many}
        if kind == "enum":
            return self._draw(st.sampled_from(schema["symbols"]))
        if kind == "fixed":
            return b"x" * schema["size"]
        return {field["name"]: self.value(field["type"], depth - 1) for field in schema["fields"]}

    def _branch(self, schema: list[Any], depth: int) -> Any:
        branch = self._draw(st.sampled_from(schema))
        if depth <= 0:
            branch = next((each for each in schema if isinstance(each, str) and each not in self._named), branch)
        value = self.value(branch, depth)
        return (_key(branch), value)


SCALARS: dict[str, Any] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-5, 5),
    "long": st.integers(-5, 5),
    "float": st.just(0.5),
    "double": st.just(0.25),
    # Readable as text as well: bytes are promoted to strings.
    "bytes": st.just(b"b"),
    "string": st.just("s"),
}
CALM = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@CALM
@given(pairs(), st.data())
def test_the_reader_reads_what_the_writer_wrote_when_the_schemas_are_called_compatible(
    pair: tuple[str, str], data: st.DataObject
) -> None:
    reader, writer = pair
    read_by, written_by = parse(SchemaType.AVRO, reader), parse(SchemaType.AVRO, writer)
    assume(not read_by.differences_from(written_by, Policy.STRICT))
    document = json.loads(writer)
    named = {
        each["name"]: each for each in walk(document) if isinstance(each, dict) and "name" in each and "type" in each
    }
    named = {name: each for name, each in named.items() if each["type"] in ("record", "enum", "fixed")}
    value = DataMaker(data.draw, named).value(document, 6)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(document), value)
    buffer.seek(0)
    fastavro.schemaless_reader(buffer, fastavro.parse_schema(document), fastavro.parse_schema(json.loads(reader)))
    assert not buffer.read()


@CALM
@given(pairs())
def test_verdict_is_that_of_avros_own_checker(pair: tuple[str, str]) -> None:
    """Where the two differ from each other by design there are unit tests: aliases and recursive types."""
    reader, writer = pair
    assume("aliases" not in reader)
    ours = parse(SchemaType.AVRO, reader).differences_from(parse(SchemaType.AVRO, writer), Policy.STRICT)
    checker = ReaderWriterCompatibilityChecker()  # type: ignore[no-untyped-call]
    result = checker.get_compatibility(parse_by_avro(reader), parse_by_avro(writer))
    if ours and result.compatibility is SchemaCompatibilityType.compatible:
        # Only a guess about a recursive type that Python's checker keeps, as Java's does, may make this difference.
        assert {'"R"', '"S"'} & {reader[index : index + 3] for index in range(len(reader))}
    else:
        assert bool(ours) is (result.compatibility is not SchemaCompatibilityType.compatible)


@CALM
@given(schemas())
def test_texts_are_fixpoints(schema: Any) -> None:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    canonical = parsed.canonical_text
    assert parse(SchemaType.AVRO, canonical).canonical_text == canonical
    normalized = parsed.normalized().canonical_text
    again = parse(SchemaType.AVRO, normalized)
    assert again.canonical_text == normalized
    assert again.normalized().canonical_text == normalized
    # Nothing that a reader sees has changed. An alias may make a schema ambiguous even for itself.
    assume("aliases" not in canonical)
    assert not parsed.differences_from(again, Policy.STRICT)
    assert not again.differences_from(parsed, Policy.STRICT)
