"""Columns of Protobuf have the values that protobuf's runtime finds, whatever the bytes are.

Schemas, messages and what happens to their bytes come from a seed, which a failure shows.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.schemas.parsing import parse
from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.columns.avro.row_cursors import RowCursors
from penstock.serdes.columns.decoding import Columns, decode_batch
from penstock.serdes.columns.payloads import read_frames
from penstock.serdes.columns.protobuf import ProtobufColumns
from penstock.serdes.columns.protobuf.message_kinds import message_kind
from penstock.serdes.framing import prefix

_SEEDS = st.integers(0, 2**32)
_QUICK = settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))

VARINTS = ["int32", "int64", "uint32", "uint64", "bool", "E"]
NUMBERS = [*VARINTS, "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64", "float", "double"]
TEXTS = ["string", "bytes"]
MESSAGES = ["N", "M", *(f"google.protobuf.{name}" for name in ("Timestamp", "Duration", "StringValue", "UInt64Value"))]
FIELD_NUMBERS = [1, 2, 3, 4, 5, 6, 15, 16, 300, 20_000, 536_870_911]
IMPORTS = "".join(f'import "google/protobuf/{name}.proto"; ' for name in ("timestamp", "duration", "wrappers"))


@dataclass(frozen=True)
class FieldOf:
    number: int
    type: str
    # "", "optional", "required", "repeated", "oneof", "map", "group"
    label: str
    is_packed: bool | None = None

    def text(self, syntax: str) -> str:
        name = f"f{self.number} = {self.number}"
        if self.label == "map":
            return f"map<string, {self.type}> {name};"
        if self.label == "group":
            return f"optional group G{self.number} = {self.number} {{ optional int32 x = 1; }}"
        option = f" [packed = {str(self.is_packed).lower()}]" if self.is_packed is not None else ""
        label = "optional" if syntax == "proto2" and not self.label else self.label
        return f"{'' if self.label == 'oneof' else label} {self.type} {name}{option};"


@dataclass(frozen=True)
class FileOf:
    syntax: str
    fields: tuple[FieldOf, ...]
    inner: tuple[FieldOf, ...]

    @property
    def schema(self) -> ProtobufSchema:
        first = "" if self.syntax == "proto2" else "ZERO = 0; "
        enum = f"enum E {{ {first}ONE = 1; MINUS = -1; FAR = 70000; }}"
        bodies = (self._body(self.fields), self._body(self.inner))
        text = f'syntax = "{self.syntax}"; {IMPORTS} message M {{ {bodies[0]} }} message N {{ {bodies[1]} }} {enum}'
        parsed = parse(SchemaType.PROTOBUF, text)
        assert isinstance(parsed, ProtobufSchema)
        return parsed

    def _body(self, fields: tuple[FieldOf, ...]) -> str:
        chosen = " ".join(each.text(self.syntax) for each in fields if each.label == "oneof")
        others = " ".join(each.text(self.syntax) for each in fields if each.label != "oneof")
        return others + (f" oneof o {{ {chosen} }}" if chosen else "")


def message_class(schema: ProtobufSchema) -> Any:
    return message_factory.GetMessageClass(schema.described()[0].FindMessageTypeByName("M"))


class Drawing:
    """All that is drawn from one seed."""

    def __init__(self, seed: int, *, is_plain: bool = False) -> None:
        self.random = random.Random(seed)
        # Only what lockstep reads when nothing was done to it.
        self._is_plain = is_plain

    def file(self) -> FileOf:
        syntax = self.random.choice(["proto2", "proto3"])
        return FileOf(
            syntax, self._fields(syntax, [*NUMBERS, *TEXTS, *TEXTS, *MESSAGES]), self._fields(syntax, NUMBERS)
        )

    def _fields(self, syntax: str, types: list[str]) -> tuple[FieldOf, ...]:
        numbers = sorted(self.random.sample(FIELD_NUMBERS, self.random.randint(0, 7)))
        if self._is_plain:
            types = [each for each in types if each != "M"]
        return tuple(self.field(syntax, number, self.random.choice(types)) for number in numbers)

    def field(self, syntax: str, number: int, kind: str) -> FieldOf:
        labels = ["", "", "optional", "repeated", "repeated", "oneof", "map"]
        if syntax == "proto2":
            labels += ["required"] if self._is_plain else ["required", "group"]
        label = self.random.choice(labels)
        may_pack = label == "repeated" and kind in NUMBERS
        if label == "map" and kind == "E" and syntax == "proto2":
            label = "repeated"
        return FieldOf(number, kind, label, self.random.choice([None, True, False]) if may_pack else None)

    def fill(self, message: Any, depth: int = 0) -> Any:
        for each in message.DESCRIPTOR.fields:
            if depth > 3 or (self.random.random() < (0.3 if depth < 2 else 0.9) and not each.is_required):
                continue
            if each.message_type is not None and each.message_type.GetOptions().map_entry:
                self._fill_map(each, getattr(message, each.name), depth)
            elif each.is_repeated:
                many = 3 if depth or self._is_plain else 40
                for _ in range(self.random.choice([0, 1, 1, 2, many])):
                    if each.message_type is not None:
                        self.fill(getattr(message, each.name).add(), depth + 1)
                    else:
                        getattr(message, each.name).append(self.value(each))
            elif each.message_type is not None:
                getattr(message, each.name).SetInParent()
                self.fill(getattr(message, each.name), depth + 1)
            else:
                setattr(message, each.name, self.value(each))
        return message

    def _fill_map(self, field: Any, entries: Any, depth: int) -> None:
        value = field.message_type.fields_by_name["value"]
        for key in self.random.sample(["", "a", "é", "key"], self.random.randint(0, 3)):
            if value.message_type is not None:
                self.fill(entries[key], depth + 1)
            else:
                entries[key] = self.value(value)

    def value(self, field: Any) -> Any:
        if self._is_plain and field.name == "seconds":  # as far off as there are dates
            return self.random.randrange(-(10**9), 10**9)
        if field.enum_type is not None:
            numbers = [each.number for each in field.enum_type.values]
            return self.random.choice(numbers if field.enum_type.is_closed else [*numbers, 5, -70_000])
        if field.cpp_type == field.CPPTYPE_STRING:
            text = self.random.choice(["", "a", "é", "x" * 200, "\0"])
            return text.encode("latin-1") if field.type == field.TYPE_BYTES else text
        if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
            return self.random.choice([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan])
        if field.cpp_type == field.CPPTYPE_BOOL:
            return self.random.random() < 0.5
        bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
        if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64):
            limit = 1 << (bits - 1)
            return self.random.choice([0, 1, -1, 127, 128, -limit, limit - 1, self.random.randrange(-limit, limit)])
        return self.random.choice([0, 1, 127, 128, (1 << bits) - 1, self.random.getrandbits(bits)])

    def changed(self, payload: bytes, others: list[bytes]) -> bytes:
        """As no writer, or another one, would have written it."""
        pieces = top_fields(payload)
        way = self.random.randrange(7)
        if way == 0:
            self.random.shuffle(pieces)
        elif way == 1:
            return payload + self.random.choice(others)
        elif way == 2:
            for _ in range(self.random.choice([1, 2, 50])):
                pieces.insert(self.random.randint(0, len(pieces)), self._unknown())
        elif way == 3 and payload:
            at = self.random.randrange(len(payload))
            return payload[:at] + bytes([self.random.randrange(256)]) + payload[at + 1 :]
        elif way == 4:
            return payload[: self.random.randint(0, len(payload))]
        elif way == 5:
            return self.random.randbytes(self.random.randint(0, 20))
        elif pieces:
            pieces.append(self.random.choice(pieces))
        return b"".join(pieces)

    def _unknown(self) -> bytes:
        number = self.random.choice([7, 8, 17, 3000, *FIELD_NUMBERS])
        return self.random.choice(
            [
                varint(number << 3) + self.random.choice([b"\x05", b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 10]),
                varint(number << 3 | 1) + b"12345678",
                varint(number << 3 | 2) + b"\x03abc",
                varint(number << 3 | 2) + b"\x82\x00\x08\x05",
                varint(number << 3 | 3) + varint(number << 3 | 4),
                varint(number << 3 | 5) + b"1234",
                b"\x88\x80\x00\x01",
                varint(number << 3 | 6),
            ]
        )


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def top_fields(payload: bytes) -> list[bytes]:
    """The bytes of each field, of what a writer wrote."""
    found, position = [], 0
    while position < len(payload):
        begin = position
        tag, position = _number(payload, position)
        if tag & 7 == 0:
            _, position = _number(payload, position)
        elif tag & 7 == 2:
            size, position = _number(payload, position)
            position += size
        elif tag & 7 == 3:
            position = payload.index(varint(tag + 1), position) + len(varint(tag + 1))
        else:
            position += 8 if tag & 7 == 1 else 4
        found.append(payload[begin:position])
    return found


def _number(payload: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (payload[position] & 0x7F) << shift
        position += 1
        if payload[position - 1] < 0x80:
            return number, position
        shift += 7


def plain(message: Any, around: tuple[str, ...] = (), wanted: frozenset[str] | None = None) -> Any:
    """What columns say of a message of the runtime."""
    kind = message.DESCRIPTOR
    if kind.full_name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        total = message.seconds * 10**6 + int(math.copysign(abs(message.nanos) // 1000, message.nanos))
        return max(-(2**63), min(2**63 - 1, total))
    if kind.full_name.startswith("google.protobuf."):
        return _single(kind.fields_by_name["value"], message.value, around)
    if kind.full_name in around:
        return json_format.MessageToJson(message, indent=None, ensure_ascii=False)
    found: dict[str, Any] = {}
    for field in sorted(kind.fields, key=lambda each: each.number):
        if wanted is not None and field.name not in wanted:
            continue
        value = getattr(message, field.name)
        inside = (*around, kind.full_name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            part = field.message_type.fields_by_name["value"]
            found[field.name] = {key: _single(part, value[key], inside) for key in value}
        elif field.is_repeated:
            found[field.name] = [_single(field, each, inside) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _single(field, value, inside)
    return found


def _single(field: Any, value: Any, around: tuple[str, ...]) -> Any:
    if field.message_type is not None:
        return plain(value, around)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named is not None else str(value)
    if field.type == field.TYPE_STRING and isinstance(
        value, bytes
    ):  # so the runtime has text of proto2 that is no UTF-8
        raise ValueError
    return repr(value)


def shown(value: Any, kind: pa.DataType) -> Any:
    """The same of a value of a column."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: shown(value[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {key: shown(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [shown(each, kind.value_type) for each in value]
    return value


def as_shown(found: Any, kind: pa.DataType, expected: Any) -> bool:
    if isinstance(expected, dict):
        fields = {each.name: each.type for each in kind} if pa.types.is_struct(kind) else None
        types = fields if fields is not None else dict.fromkeys(expected, kind.item_type)
        return (
            found is not None
            and found.keys() == expected.keys()
            and all(as_shown(found[key], types[key], expected[key]) for key in expected)
        )
    if isinstance(expected, list):
        return len(found) == len(expected) and all(
            as_shown(one, kind.value_type, other) for one, other in zip(found, expected, strict=True)
        )
    if expected is None or found is None:
        return found is expected
    if isinstance(expected, int):
        return bool(found == expected)
    return bool(found == expected) or repr(int(found) if isinstance(found, Decimal) else found) == expected


def micros(values: pa.Array) -> pa.Array:
    """Times as numbers: Python has no dates as far off as Arrow."""
    kind = _counted(values.type)
    return values if kind == values.type else pa.array(_raw(values), kind)


def _counted(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_counted(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_counted(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    return kind


def _raw(values: Any) -> list[Any]:
    return [_raw_scalar(each) for each in values]


def _raw_scalar(value: Any) -> Any:
    if not value.is_valid:
        return None
    if isinstance(value, pa.StructScalar):
        return {name: _raw_scalar(value[name]) for name in value}
    if isinstance(value, pa.MapScalar):
        return [(each["key"].as_py(), _raw_scalar(each["value"])) for each in value.values]
    if isinstance(value, pa.ListScalar):
        return [_raw_scalar(each) for each in value.values]
    return value.value if isinstance(value, pa.TimestampScalar | pa.DurationScalar) else value.as_py()


def decoded(decoder: ProtobufColumns, payloads: list[bytes]) -> Columns:
    batch = pa.array([prefix(1) + b"\0" + payload for payload in payloads], pa.binary())
    columns = decode_batch(batch, {1: decoder}, decoder.type)
    columns.values.validate(full=True)
    return columns


def check(columns: Columns, expected: list[Any]) -> None:
    """`expected`: plain values, and None where there is an error."""
    values = micros(columns.values)
    for value, error, wanted in zip(values.to_pylist(), columns.errors.to_pylist(), expected, strict=True):
        assert (error is None) == (wanted is not None), (error, wanted)
        if wanted is not None:
            assert as_shown(shown(value, values.type), values.type, wanted), (value, wanted)


def read_or_none(kind: Any, payload: bytes, wanted: frozenset[str] | None = None) -> Any:
    try:
        return plain(kind.FromString(payload), (), wanted)
    except (DecodeError, ValueError, json_format.SerializeToJsonError):
        return None


@given(_SEEDS)
@_QUICK
def test_columns_have_the_values_that_the_runtime_finds_when_bytes_are_not_as_written(seed: int) -> None:
    drawing = Drawing(seed)
    file = drawing.file()
    schema = file.schema
    kind = message_class(schema)
    whole = [drawing.fill(kind()).SerializePartialToString() for _ in range(drawing.random.choice([1, 3, 30]))]
    fields = [
        replace(each, is_packed=each.is_packed is False) if each.is_packed is not None else each for each in file.fields
    ]
    otherwise = message_class(replace(file, fields=tuple(fields)).schema)
    whole.append(drawing.fill(otherwise()).SerializePartialToString())
    payloads = [*whole, *(drawing.changed(drawing.random.choice(whole), whole) for _ in range(12))]
    drawing.random.shuffle(payloads)
    check(decoded(ProtobufColumns(schema), payloads), [read_or_none(kind, each) for each in payloads])


@given(_SEEDS)
@_QUICK
def test_no_row_leaves_lockstep_when_it_is_as_written(seed: int) -> None:
    drawing = Drawing(seed, is_plain=True)
    schema = drawing.file().schema
    kind = message_class(schema)
    payloads = [drawing.fill(kind()).SerializePartialToString() for _ in range(150)]
    payloads = [each + b"\xf8\x07\x05" * (row % 3) for row, each in enumerate(payloads)]
    framed = read_frames(pa.array([prefix(1) + payload for payload in payloads], pa.binary())).payloads
    cursors = RowCursors.of(framed)
    message_kind(kind.DESCRIPTOR).make(cursors, np.zeros(0, dtype=np.uint64))
    assert not cursors.failed.any()


@given(_SEEDS)
@_QUICK
def test_columns_are_those_of_the_whole_message_when_some_fields_are_wanted(seed: int) -> None:
    drawing = Drawing(seed)
    schema = drawing.file().schema
    kind = message_class(schema)
    whole = [drawing.fill(kind()).SerializePartialToString() for _ in range(20)]
    payloads = [*whole, *(first + second for first, second in pairwise(whole))]
    names = [each.name for each in kind.DESCRIPTOR.fields]
    wanted = frozenset(drawing.random.sample(names, drawing.random.randint(0, len(names))))
    found = decoded(ProtobufColumns(schema, fields=wanted), payloads)
    assert {each.name for each in found.values.type} == wanted
    check(found, [read_or_none(kind, each, wanted) for each in payloads])


SAME = [frozenset(VARINTS), frozenset(["sint32", "sint64"]), frozenset(["fixed32", "sfixed32"]),
        frozenset(["fixed64", "sfixed64"]), frozenset(TEXTS)]  # fmt: skip


def _may_become(old: FieldOf, new: FieldOf) -> bool:
    if new.type == "bytes" and (old.label == "map" or old.type in MESSAGES):  # its bytes
        return True
    if old.type != new.type and not any({old.type, new.type} <= each for each in SAME):
        return False
    is_packed = old.label == "repeated" and old.type in NUMBERS and old.is_packed is not False
    return old.label == new.label or not ({"map", "group"} & {old.label, new.label} or is_packed)


@given(_SEEDS)
@_QUICK
def test_rows_are_those_of_the_readers_message_or_errors_when_a_type_became_another(seed: int) -> None:
    drawing = Drawing(seed)
    old = replace(drawing.file(), syntax="proto3")
    kept = [each for each in old.fields if each.label not in ("required", "group", "oneof") and each.type != "M"]
    inner = [each for each in old.inner if each.label not in ("required", "group", "oneof")]
    old = replace(old, fields=tuple(kept), inner=tuple(inner))
    fields = {each.number: each for each in kept if drawing.random.random() < 0.8}
    changed = drawing.random.choice(FIELD_NUMBERS)
    fields[changed] = FieldOf(
        changed, drawing.random.choice([*NUMBERS, *TEXTS]), drawing.random.choice(["", "repeated"])
    )
    new = replace(old, fields=tuple(sorted(fields.values(), key=lambda each: each.number)))
    writer, reader = old.schema, new.schema
    writes, reads = message_class(writer), message_class(reader)
    messages = [drawing.fill(writes()) for _ in range(20)]
    before = next((each for each in kept if each.number == changed), None)
    may_clash = before is not None and not _may_become(before, fields[changed])
    expected = []
    for each in messages:
        has = before is not None and f"f{changed}" in {field.name for field, _ in each.ListFields()}
        expected.append(None if has and may_clash else read_or_none(reads, each.SerializeToString()))
    found = decoded(ProtobufColumns(writer, reader=reader), [each.SerializeToString() for each in messages])
    assert found.values.type == ProtobufColumns(reader).type
    check(found, expected)
