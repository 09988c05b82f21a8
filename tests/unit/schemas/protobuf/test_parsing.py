"""What is a .proto file, how it is printed, normalised and serialised; protoc is the judge of descriptors."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc

from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.files import CONFLUENT
from penstock.schemas.schema import InvalidSchemaError, ParsedSchema, Policy, Reference, ResolvedReference, SchemaType

EVERYTHING = r"""
// A comment.
syntax = "proto3";
package a.b;
import "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
option java_package = "com.\x65xample" ".more";
option optimize_for = SPEED;
/* Another
   comment. */
message M {
  reserved 20, 22 to 24; reserved "foo", "bar";
  option deprecated = true;
  string some_name = 5 [json_name = "other", deprecated = true];
  int32 number = 0x1;
  optional int64 maybe = 2;
  repeated sint32 many = 3 [packed = false];
  map<string, Inner> by_name = 4;
  google.protobuf.Timestamp time = 6;
  oneof choice { .a.b.M.Inner inner = 7; bytes raw = 010; }
  message Inner { Kind kind = 1; M outer = 2; enum Kind { option allow_alias = true; NONE = 0; NIL = 0; LOW = -1; } }
}
enum Top { TOP = 0 [deprecated = true]; reserved 5 to max; }
extend google.protobuf.FieldOptions { optional string label = 50001; }
service S { rpc Ask (M) returns (stream M); rpc Tell (stream M) returns (M) { option deprecated = true; } };
"""

PROTO2 = r"""
syntax = "proto2";
message M {
  required int32 a = 1 [default = -5];
  optional string b = 2 [default = "x\"y"];
  optional bytes c = 3 [default = "\001\377"];
  optional double d = 4 [default = -inf];
  repeated group Part = 6 { optional int32 x = 1; }
  extensions 100 to 199, 1000 to max;
  extend M { optional int32 more = 150; }
}
"""

CANONICAL = """syntax = "proto3";
package a.b;

import "google/protobuf/timestamp.proto";

option java_package = "com.example";

message M {
  reserved 2, 4 to 6;

  option deprecated = true;

  int32 a = 1 [deprecated = true];
  optional string s = 3 [
    deprecated = false,
    json_name = "t"
  ];
  map<string, M> m = 7;

  oneof o {
    string x = 8;
  }

  message N {}
  enum E {
    ZERO = 0;
  }
}
enum Top {
  T0 = 0;
}

service S {
  rpc Do (M) returns (stream M);
}
"""


def proto(text: str, **imports: str) -> ParsedSchema:
    resolved = [ResolvedReference(f"{name}.proto", each, name, 1) for name, each in imports.items()]
    return parse(SchemaType.PROTOBUF, text, resolved=resolved)


def test_text_is_printed_in_the_layout_of_confluents_registry() -> None:
    assert proto(CANONICAL).canonical_text == CANONICAL
    squeezed = " ".join(CANONICAL.split()).replace(" {}", "{};;")
    assert proto(squeezed).canonical_text == CANONICAL


@pytest.mark.parametrize("text", [EVERYTHING, PROTO2, 'edition = "2023"; message M { int32 a = 1; }', ""])
def test_texts_are_fixpoints(text: str) -> None:
    parsed = proto(text)
    canonical, normalized = parsed.canonical_text, parsed.normalized().canonical_text
    assert proto(canonical).canonical_text == canonical
    assert proto(normalized).normalized().canonical_text == normalized
    assert parsed.differences_from(proto(normalized), Policy.STRICT) == []
    assert proto(normalized).differences_from(parsed, Policy.STRICT) == []


@pytest.mark.parametrize("text", [EVERYTHING, PROTO2])
def test_descriptor_is_that_of_the_compiler(text: str, tmp_path: Path) -> None:
    ours = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(proto(text).formatted("serialized")))
    for printed in (text, proto(text).canonical_text, proto(text).normalized().canonical_text):
        assert _sorted(compiled(printed, tmp_path)) == _sorted(ours)


def compiled(text: str, directory: Path) -> Any:
    """What protoc makes of the text."""
    source, out = directory / "default", directory / "out"
    bundled = Path(protoc.__file__).parent / "_proto"
    source.write_text(text)
    assert protoc.main(["protoc", f"-I{directory}", f"-I{bundled}", f"--descriptor_set_out={out}", str(source)]) == 0
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


def _sorted(descriptor: Any) -> Any:
    """Without the orders that mean nothing."""
    del descriptor.dependency[:]
    waiting = list(descriptor.message_type)
    enums = list(descriptor.enum_type)
    while waiting:
        message = waiting.pop()
        for repeated, key in (
            (message.field, "number"),
            (message.nested_type, "name"),
            (message.reserved_range, "start"),
        ):
            ordered = sorted(repeated, key=lambda each: getattr(each, key))
            del repeated[:]
            repeated.extend(ordered)
        message.reserved_name[:] = sorted(message.reserved_name)
        waiting += message.nested_type
        enums += message.enum_type
    for enum in enums:
        values = sorted(enum.value, key=lambda value: (value.number, value.name))
        del enum.value[:]
        enum.value.extend(values)
    return descriptor


def test_a_descriptor_in_base64_is_read_like_the_file_it_was_made_from() -> None:
    for text in (EVERYTHING, PROTO2):
        parsed = proto(text)
        read = proto(parsed.formatted("serialized"))
        assert read.normalized().canonical_text == parsed.normalized().canonical_text
        assert read.formatted("serialized") == parsed.formatted("serialized")


def test_what_has_no_order_is_sorted_and_names_are_in_full_when_normalized() -> None:
    text = """
    syntax = "proto2"; package p;
    import "b.proto"; import "a.proto";
    option (y).z = 1; option java_package = "j";
    message M { reserved "y", "x"; reserved 30 to 30, 20; optional Inner i = 2; optional int32 a = 1;
      map<string, Inner> m = 3; message Inner {} }
    enum E { B = 1; A = 0; C = 2; }
    """
    assert (
        proto(text, a="", b="").normalized().canonical_text
        == """package p;

import "a.proto";
import "b.proto";

option (y) = {
  z: 1
};
option java_package = "j";

message M {
  reserved 20;
  reserved 30;
  reserved "x";
  reserved "y";

  optional int32 a = 1;
  optional .p.M.Inner i = 2;
  map<string, .p.M.Inner> m = 3;

  message Inner {}
}
enum E {
  B = 1;
  A = 0;
  C = 2;
}
"""
    )


def test_extensions_are_left_out_when_asked() -> None:
    text = """
    syntax = "proto2";
    import "confluent/meta.proto"; import "google/protobuf/descriptor.proto";
    extend google.protobuf.FieldOptions { optional int32 mine = 50000; }
    message M { optional int32 a = 1 [(mine) = 5, (confluent.field_meta).doc = "d", deprecated = true]; extensions 5; }
    """
    printed = proto(text).formatted("ignore_extensions")
    assert "extend" not in printed
    assert "mine" not in printed
    assert "(confluent.field_meta).doc" in printed
    assert "deprecated" in printed


TAGGED = """
syntax = "proto3"; package p;
import "confluent/meta.proto"; import "google/protobuf/descriptor.proto";
message Own { int32 x = 1; repeated string y = 2; }
extend google.protobuf.MessageOptions { Own own = 50000; }
extend google.protobuf.FieldOptions { repeated int32 numbers = 50001; }
message M {
  option (own) = { x: 5, y: ["a", "b"] };
  string a = 1 [(confluent.field_meta).tags = "PII", (confluent.field_meta).doc = "d", (numbers) = 3, (unknown) = 1];
  string b = 2 [(confluent.field_meta) = { params: [{ key: "k", value: "v" }] }, (numbers) = 1, (numbers) = 2];
}
"""


def test_options_of_others_are_in_the_descriptor_as_the_compiler_puts_them(tmp_path: Path) -> None:
    parsed = proto(TAGGED)
    ours = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parsed.formatted("serialized")))
    (unknown,) = ours.message_type[1].field[0].options.uninterpreted_option
    assert unknown.name[0].name_part == "unknown"
    (tmp_path / "confluent").mkdir()
    meta = parse(SchemaType.PROTOBUF, CONFLUENT["confluent/meta.proto"]).canonical_text
    (tmp_path / "confluent" / "meta.proto").write_text(meta)
    theirs = compiled(TAGGED.replace(", (unknown) = 1", ""), tmp_path)
    del ours.message_type[1].field[0].options.uninterpreted_option[:]
    for ours_field, theirs_field in zip(ours.message_type[1].field, theirs.message_type[1].field, strict=True):
        # Merged, where the compiler may write the same field twice.
        assert ours_field.options.ByteSize() <= theirs_field.options.ByteSize()
    assert ours.message_type[1].options == theirs.message_type[1].options


def test_options_of_others_are_read_from_a_descriptor() -> None:
    parsed = proto(TAGGED)
    read = proto(parsed.formatted("serialized"))
    assert "(confluent.field_meta) = {\n" in read.canonical_text
    assert '"PII"' in read.canonical_text
    assert '"k"' in read.canonical_text
    assert read.formatted("serialized") == parsed.formatted("serialized")
    assert proto(read.canonical_text).canonical_text == read.canonical_text


def test_name_and_fields_are_those_of_the_first_message() -> None:
    parsed = proto(CANONICAL)
    assert parsed.name == "a.b.M"
    assert parsed.has_top_level_field("x")
    assert not parsed.has_top_level_field("y")
    assert proto("message X {}").name == "X"
    assert proto("").name is None


def test_imports_are_those_of_the_references_in_any_order() -> None:
    parsed = proto(
        'import "one.proto"; message M { optional o.One a = 1; optional t.Two b = 2; }',
        one='package o; import public "two.proto"; message One { optional t.Two t = 1; }',
        two="package t; message Two {}",
    )
    assert parsed.normalized().canonical_text.count(".t.Two") == 1
    b, a = Reference("b", "s", 1), Reference("a", "s", 2)
    assert parse(SchemaType.PROTOBUF, "", [b, a, b]).normalized().references == (a, b)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (";\nmessage", "Expected a name before the end at line 2, column 8"),
        ("message M {", "before the end"),
        ('syntax = "proto4";', "syntax"),
        ('edition = "x";', "syntax"),
        ('edition = "1999";', "edition"),
        ("package a; package b;", "one package"),
        ("hello", "neither|Neither"),
        ("hello;", "a statement"),
        ("message M { int32 a = 1 }", "';'"),
        ("message M { int32 = 1; }", "a name"),
        ("message M { optional int32 a = x; }", "whole number"),
        ("message M { optional int32 a = 99999999999999; }", "smaller number"),
        ("message M { optional int32 a = 4000000000; }", "out of range"),
        ("message M { optional int32 a = 08; }", "whole number"),
        ('message M { reserved "a; }', "Unexpected"),
        ("/* open", "Unexpected"),
        ("message M { optional Unknown a = 1; }", '"Unknown" is not defined'),
        ('import "none.proto";', "not among the references"),
        ("message M { optional int32 a = 1; optional int32 b = 1; }", "duplicate field number"),
        ("message M {} message M {}", "duplicate symbol"),
        ("message M { optional int32 a = 0; }", "invalid field number"),
        ("message M { optional int32 a = 19500; }", "19000"),
        ("message M { reserved 1; optional int32 a = 1; }", "reserved"),
        ('message M { reserved "a"; optional int32 a = 1; }', "reserved"),
        ("message M { map<double, int32> a = 1; }", "keys of type double"),
        ("message M { repeated map<int32, int32> a = 1; }", "no label"),
        ("message M { oneof o { optional int32 a = 1; } }", "label"),
        ('syntax = "proto3"; message M { required int32 a = 1; }', "required"),
        ('syntax = "proto3"; message M { int32 a = 1 [default = 1]; }', "default"),
        ('syntax = "proto3"; message M { optional group G = 1 {} }', "group"),
        ('syntax = "proto3"; enum E { A = 1; }', "zero"),
        ("enum E { A = 0; B = 0; }", "allow_alias"),
        ("enum E { reserved 0; A = 0; }", "reserved"),
        ("enum E {}", "at least one value"),
        (r'option java_package = "\q";', "Invalid escape"),
        (r'option java_package = "\ud800";', "Invalid character"),
        ("message M { reserved 5 to 2; }", "range"),
        ("AAAA", "Neither"),
    ],
)
def test_text_is_refused_with_the_reason_when_it_is_no_schema(text: str, said: str) -> None:
    with pytest.raises(InvalidSchemaError, match=said):
        proto(text)


def test_files_that_import_each_other_are_refused() -> None:
    with pytest.raises(InvalidSchemaError, match="import each other"):
        proto('import "a.proto";', a='import "b.proto";', b='import "a.proto";')


def test_every_common_type_of_google_is_imported_as_protobufs_runtime_has_it() -> None:
    directory = Path(descriptor_pb2.__file__).parents[1] / "type"
    names = sorted(each.name for each in directory.glob("*.proto"))
    assert len(names) >= 17
    imports = "".join(f'import "google/type/{name}"; ' for name in names)
    text = f'syntax = "proto3"; {imports} message M {{ google.type.DateTime a = 1; google.type.Money b = 2; }}'
    parsed = parse(SchemaType.PROTOBUF, text)
    assert parsed.differences_from(parsed, Policy.STRICT) == []
    described = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(parsed.formatted("serialized")))
    assert [each.type_name for each in described.message_type[0].field] == [
        ".google.type.DateTime",
        ".google.type.Money",
    ]
