"""Which Protobuf schemas read which, and the paths of what does not fit: cases of our own for each rule."""

from __future__ import annotations

import pytest

from penstock.schemas.parsing import parse
from penstock.schemas.schema import ParsedSchema, Policy, ResolvedReference, SchemaType


def proto(text: str, syntax: str = "proto3", *resolved: ResolvedReference) -> ParsedSchema:
    return parse(SchemaType.PROTOBUF, f'syntax = "{syntax}"; {text}', resolved=resolved)


def found(old: str, new: str, syntax: str = "proto3") -> list[str]:
    differences = proto(new, syntax).differences_from(proto(old, syntax), Policy.STRICT)
    return [f"{each.kind} {each.path}" for each in differences]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("message M {}", "message M {} message N {} enum E { A = 0; }"),
        ("message M {} enum E { A = 0; B = 1; }", "message M {}"),
        ("enum E { A = 0; B = 1; }", "enum E { Z = 0; C = 3; }"),
        ("message M {} message N {}", "message N {} message M {}"),
        ("message M { int32 a = 1; }", "message M { int32 renamed = 1; string b = 2; }"),
        ("message M { int32 a = 1; string b = 2; }", "message M { string b = 2; }"),
        ("message M { int32 a = 1; }", "message M { uint64 a = 1; }"),
        ("message M { int32 a = 1; }", "message M { E a = 1; enum E { Z = 0; } }"),
        ("message M { sint32 a = 1; }", "message M { sint64 a = 1; }"),
        ("message M { string a = 1; }", "message M { bytes a = 1; }"),
        ("message M { fixed32 a = 1; fixed64 b = 2; }", "message M { sfixed32 a = 1; sfixed64 b = 2; }"),
        ("message M { string a = 1; }", "message M { repeated string a = 1; }"),
        ("message M { int32 a = 1; }", "message M { optional int32 a = 1; }"),
        ("message M { int32 a = 1; }", "message M { oneof o { int32 a = 1; string b = 2; } }"),
        ("message M { oneof o { int32 a = 1; } }", "message M { oneof o { int32 a = 1; string b = 2; } }"),
        ("message M { oneof o { int32 a = 1; } }", "message M { oneof p { int32 a = 1; } }"),
        ("message M { oneof o { int32 a = 1; string b = 2; } }", "message M { int32 a = 1; string b = 2; }"),
        ("message M { oneof o { int32 a = 1; string b = 2; } }", "message M {}"),
        (
            "message M { map<string, int32> m = 1; }",
            "message M { map<bytes_, int64> m = 1; }".replace("bytes_", "string"),
        ),
        ("message M { N n = 1; message N {} }", "message M { N n = 1; message N { int32 a = 1; } }"),
        ("message M { M m = 1; }", "message M { M m = 1; int32 a = 2; }"),
    ],
)
def test_new_reads_old(old: str, new: str) -> None:
    assert found(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("package a; message M {}", "package b; message M {}", "PACKAGE_CHANGED #/"),
        ("message M {} message N {}", "message M {}", "MESSAGE_REMOVED #/N"),
        ("message M { message N {} }", "message M {}", "MESSAGE_REMOVED #/M/N"),
        ("message M { int32 a = 1; }", "message M { string a = 1; }", "FIELD_SCALAR_KIND_CHANGED #/M/1"),
        ("message M { int32 a = 1; }", "message M { sint32 a = 1; }", "FIELD_SCALAR_KIND_CHANGED #/M/1"),
        ("message M { fixed32 a = 1; }", "message M { fixed64 a = 1; }", "FIELD_SCALAR_KIND_CHANGED #/M/1"),
        ("message M { float a = 1; }", "message M { double a = 1; }", "FIELD_SCALAR_KIND_CHANGED #/M/1"),
        ("message M { int32 a = 1; }", "message M { M a = 1; }", "FIELD_KIND_CHANGED #/M/1"),
        ("message M { map<int32, M> a = 1; }", "message M { repeated M a = 1; }", "FIELD_KIND_CHANGED #/M/1"),
        (
            "message M { map<int32, int32> a = 1; }",
            "message M { map<int32, string> a = 1; }",
            "FIELD_SCALAR_KIND_CHANGED #/M/1",
        ),
        (
            "message M { N a = 1; message N {} message O {} }",
            "message M { O a = 1; message N {} message O {} }",
            "FIELD_NAMED_TYPE_CHANGED #/M/1",
        ),
        ("message M { int32 a = 1; }", "message M { repeated int32 a = 1; }", "FIELD_NUMERIC_LABEL_CHANGED #/M/1"),
        (
            "message M { oneof o { int32 a = 1; string b = 2; } }",
            "message M { oneof o { int32 a = 1; } }",
            "ONEOF_FIELD_REMOVED #/M/o/2",
        ),
        (
            "message M { int32 a = 1; string b = 2; }",
            "message M { oneof o { int32 a = 1; string b = 2; } }",
            "MULTIPLE_FIELDS_MOVED_TO_ONEOF #/M/o",
        ),
        (
            "message M { int32 a = 1; oneof o { string b = 2; } }",
            "message M { oneof o { int32 a = 1; string b = 2; } }",
            "FIELD_MOVED_TO_EXISTING_ONEOF #/M/o",
        ),
        (
            "message M { oneof o { int32 a = 1; } }",
            "message M { oneof o { string a = 1; } }",
            "FIELD_SCALAR_KIND_CHANGED #/M/o/1",
        ),
        (
            "message M { N n = 1; } message N { int32 a = 1; }",
            "message M { N n = 1; } message N { string a = 1; }",
            "FIELD_SCALAR_KIND_CHANGED #/N/1",
        ),
    ],
)
def test_the_difference_and_its_path_are_named_when_new_cannot_read_old(old: str, new: str, expected: str) -> None:
    assert found(old, new) == [expected]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("message M {}", "message M { required int32 a = 1; }", "REQUIRED_FIELD_ADDED #/M/1"),
        ("message M { required int32 a = 1; }", "message M {}", "REQUIRED_FIELD_REMOVED #/M/1"),
        (
            "message M { optional string a = 1; }",
            "message M { required string a = 1; }",
            "REQUIRED_FIELD_ADDED #/M/1",
        ),
        (
            "message M { required int32 a = 1; }",
            "message M { optional int32 a = 1; }",
            "FIELD_NUMERIC_LABEL_CHANGED #/M/1",
        ),
    ],
)
def test_required_fields_neither_come_nor_go(old: str, new: str, expected: str) -> None:
    assert found(old, new, "proto2") == [expected]


def test_messages_of_other_files_are_compared_unless_they_are_of_the_same_version() -> None:
    def schema(kind: str, version: int) -> ParsedSchema:
        reference = ResolvedReference(
            "o.proto", f'syntax = "proto3"; package o; message O {{ {kind} a = 1; }}', "s", version
        )
        return proto('import "o.proto"; message M { o.O o = 1; }', "proto3", reference)

    differences = schema("string", 2).differences_from(schema("int32", 1), Policy.STRICT)
    assert [f"{each.kind} {each.path}" for each in differences] == ["FIELD_SCALAR_KIND_CHANGED #/O/1"]
    assert schema("string", 1).differences_from(schema("int32", 1), Policy.STRICT) == []


def test_messages_are_in_confluents_form() -> None:
    (difference,) = proto("message N {}").differences_from(proto("message M {} message N {}"), Policy.STRICT)
    assert difference.text(reader="new", writer="old") == (
        '{errorType:"MESSAGE_REMOVED", '
        "description:\"The new schema lacks the message at path '#/M' of the old schema\"}"
    )
