"""Which Avro schemas read which, and the messages: cases of our own after the rules of Java's checker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import Policy, SchemaType


def differences(reader: Any, writer: Any, policy: Policy = Policy.STRICT) -> list[tuple[str, str, str | None]]:
    parsed = [parse(SchemaType.AVRO, json.dumps(each)) for each in (reader, writer)]
    return [(each.kind, each.path, each.additional_info) for each in parsed[0].differences_from(parsed[1], policy)]


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any = "int", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ("long", "int"),
        ("float", "long"),
        ("double", "float"),
        ("bytes", "string"),
        ("string", "bytes"),
        (["null", "long"], "int"),
        (["null", "long"], ["int", "null"]),
        ("int", ["int"]),
        ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
        ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
        (record(field("a"), field("b", default=1)), record(field("a"))),
        (record(field("a")), record(field("a"), field("b"))),
        (record(field("a", aliases=["b"])), record(field("b"))),
        (record(name="n.R"), record(name="m.R")),
        (record(name="n.S", aliases=["R"]), record(name="n.R")),
        (record(type="error"), record()),
        (enum("A", "B"), enum("A")),
        (enum("A", default="A"), enum("A", "B")),
        (record(field("next", ["null", "R"])), record(field("next", ["null", "R"]))),
        ({"type": "int", "logicalType": "date"}, "int"),
    ],
)
def test_reader_reads_writer(reader: Any, writer: Any) -> None:
    assert differences(reader, writer) == []


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        ("int", "long", ("TYPE_MISMATCH", "/", "reader type: INT not compatible with writer type: LONG")),
        (
            record(field("a"), field("b", "string")),
            record(field("a")),
            ("READER_FIELD_MISSING_DEFAULT_VALUE", "/fields/1", "b"),
        ),
        (enum("A"), enum("C", "A", "B"), ("MISSING_ENUM_SYMBOLS", "/symbols", "[B, C]")),
        (record(), record(name="S"), ("NAME_MISMATCH", "/name", "expected: S")),
        (
            {"type": "fixed", "name": "F", "size": 1},
            {"type": "fixed", "name": "F", "size": 2},
            ("FIXED_SIZE_MISMATCH", "/size", "expected: 2, found: 1"),
        ),
        (["null", "int"], "string", ("MISSING_UNION_BRANCH", "/", "reader union lacking writer type: STRING")),
        (
            ["null", "int"],
            ["null", "int", "string"],
            ("MISSING_UNION_BRANCH", "/2", "reader union lacking writer type: STRING"),
        ),
        ("int", ["int", "null"], ("TYPE_MISMATCH", "/1", "reader type: INT not compatible with writer type: NULL")),
        (
            record(field("a", {"type": "array", "items": "int"})),
            record(field("a", {"type": "array", "items": "string"})),
            ("TYPE_MISMATCH", "/fields/0/type/items", "reader type: INT not compatible with writer type: STRING"),
        ),
        (
            record(field("e", enum("A", default="A"))),
            record(),
            ("TYPE_MISMATCH", "/fields/0/type", "reader type: ENUM not compatible with writer type: RECORD"),
        ),
    ],
)
def test_the_path_is_named_when_the_reader_cannot_read(
    reader: Any, writer: Any, expected: tuple[str, str, str]
) -> None:
    assert differences(reader, writer) == [expected]


def test_every_difference_is_named_in_the_order_of_the_reader() -> None:
    found = differences(
        record(field("z", "string"), field("y", "string"), field("x")), record(field("x", "string"), field("y"))
    )
    assert [path for _, path, _ in found] == ["/fields/0", "/fields/1/type", "/fields/2/type"]


def test_several_fields_matched_by_aliases_are_no_match() -> None:
    reader, writer = record(field("a", aliases=["b"])), record(field("a"), field("b"))
    assert [kind for kind, _, _ in differences(reader, writer)] == ["AMBIGUOUS_ALIAS"]


def test_logical_types_count_when_the_policy_is_logical() -> None:
    date, plain = {"type": "int", "logicalType": "date"}, "int"
    found = differences(record(field("d", date)), record(field("d", plain)), Policy.LOGICAL)
    assert found == [
        (
            "TYPE_MISMATCH",
            "/fields/0/type",
            "reader logical type: date not compatible with writer logical type: none",
        )
    ]
    assert differences(date, date, Policy.LOGICAL) == []


def test_a_guess_about_a_recursive_type_is_taken_back_when_it_was_wrong() -> None:
    """While A is compared, the pair (B, B) holds because A is assumed to; the second branch needs B once more."""

    def schema(kind: str) -> list[Any]:
        inner = record(field("a", ["null", "A"]), name="B")
        return [record(field("b", inner), field("x", kind), name="A"), record(field("b", "B"), name="C")]

    found = differences(schema("int"), schema("string"))
    assert [path for _, path, _ in found] == ["/0", "/1"]
