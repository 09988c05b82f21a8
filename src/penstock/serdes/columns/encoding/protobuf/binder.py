"""Finds the writers of a column for a field of a Protobuf message, or the reasons why there are none.

| Protobuf | Arrow |
|---|---|
| int32, ..., fixed64 | whole numbers, and decimals without a scale; each value is checked |
| float, double | floating and whole numbers; one that is too large for a float is refused |
| bool; bytes | bool; binary and string |
| string | string; dates, times and timestamps as ISO 8601 has them, decimals as text |
| enum | string: the name, or the number if it has no name; whole numbers |
| message; repeated; map | struct; list; map |
| Timestamp; Duration; google.type.Date | timestamp with a zone; duration; date32 |
| wrappers | their value |
| a message within itself | struct, or string: its JSON text |

Null is an absent field; a field without presence refuses it, so that null does not become zero. A list or a map that is
null is an empty one. Fields without a column are absent; a column without a field is a problem.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as kinds
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from penstock.serdes.columns.encoding.field_matches import Problems, column_for
from penstock.serdes.columns.encoding.numbers import is_whole
from penstock.serdes.columns.encoding.protobuf.fields import (
    FieldWriter,
    GroupWriter,
    InnerWriter,
    MapWriter,
    MessageWriter,
    RepeatedWriter,
    RequiredWriter,
    SingleWriter,
    WrappedWriter,
)
from penstock.serdes.columns.encoding.protobuf.values import (
    BooleanWriter,
    BytesWriter,
    CalendarDateWriter,
    EnumWriter,
    FloatWriter,
    JsonTextWriter,
    TextWriter,
    TimeWriter,
    fixed,
    plain,
    signed,
    tag,
    unsigned,
    zigzagged,
)
from penstock.serdes.columns.encoding.texts import has_text
from penstock.serdes.columns.encoding.writers import ColumnWriter

_WRAPPERS = "google/protobuf/wrappers.proto"
_VARINT, _FIXED64, _SIZED, _GROUP, _FIXED32 = 0, 1, 2, 3, 5
_WHOLE: dict[int, tuple[int, Callable[[], ColumnWriter]]] = {
    FieldDescriptor.TYPE_INT32: (_VARINT, signed(32, plain)),
    FieldDescriptor.TYPE_INT64: (_VARINT, signed(64, plain)),
    FieldDescriptor.TYPE_UINT32: (_VARINT, unsigned(32, plain)),
    FieldDescriptor.TYPE_UINT64: (_VARINT, unsigned(64, plain)),
    FieldDescriptor.TYPE_SINT32: (_VARINT, signed(32, zigzagged)),
    FieldDescriptor.TYPE_SINT64: (_VARINT, signed(64, zigzagged)),
    FieldDescriptor.TYPE_FIXED32: (_FIXED32, unsigned(32, fixed("<u4"))),
    FieldDescriptor.TYPE_FIXED64: (_FIXED64, unsigned(64, fixed("<u8"))),
    FieldDescriptor.TYPE_SFIXED32: (_FIXED32, signed(32, fixed("<i4"))),
    FieldDescriptor.TYPE_SFIXED64: (_FIXED64, signed(64, fixed("<i8"))),
}
_FLOATS = {FieldDescriptor.TYPE_FLOAT: (_FIXED32, 4), FieldDescriptor.TYPE_DOUBLE: (_FIXED64, 8)}


class Binder:
    def __init__(self) -> None:
        self.problems = Problems()
        self._around: list[str] = []

    def message(self, kind: Descriptor, arrow: pa.DataType) -> ColumnWriter | None:
        """The fields alone. None where there is a problem, which `problems` has then."""
        if not kinds.is_struct(arrow):
            self.problems.add(f"a column of {arrow} cannot be written as message {kind.full_name}")
            return None
        self._around.append(kind.full_name)
        found: list[tuple[str, int, FieldWriter]] = []
        positions: dict[str, int] = {}
        for field in sorted(kind.fields, key=lambda each: each.number):
            position = column_for(field.name, arrow)
            if position is None:
                if field.is_required:
                    self.problems.add(f"no column for the field {field.name}, which is required")
                continue
            positions[field.name] = position
            with self.problems.inside(field.name):
                writer = self._field(field, arrow.field(position).type)
            if writer is not None:
                found.append((field.name, position, writer))
        self._around.pop()
        for position in sorted(set(range(arrow.num_fields)) - set(positions.values())):
            name = arrow.field(position).name
            self.problems.add(f"message {kind.full_name} has no field for the column {name}")
        choices = [
            (each.name, [positions[field.name] for field in each.fields if field.name in positions])
            for each in kind.oneofs
            if len(each.fields) > 1
        ]
        return MessageWriter(found, choices)

    def _field(self, field: FieldDescriptor, arrow: pa.DataType) -> FieldWriter | None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field, arrow)
        if field.is_repeated:
            return self._repeated(field, arrow)
        bound = self._value(field, arrow)
        if bound is None:
            return None
        wire_type, value = bound
        if field.is_required:
            return RequiredWriter(tag(field.number, wire_type), value)
        zero = field.enum_type.values[0].name if field.enum_type is not None else None
        return SingleWriter(tag(field.number, wire_type), value, bool(field.has_presence), zero)

    def _repeated(self, field: FieldDescriptor, arrow: pa.DataType) -> FieldWriter | None:
        if not kinds.is_list(arrow):
            self.problems.add(f"a column of {arrow} cannot be written as a repeated field")
            return None
        with self.problems.inside("[]"):
            bound = self._value(field, arrow.value_type)
        if bound is None:
            return None
        is_packed = field.is_packed and bound[0] != _SIZED
        return RepeatedWriter(field.number, None if is_packed else tag(field.number, bound[0]), bound[1])

    def _map(self, field: FieldDescriptor, arrow: pa.DataType) -> FieldWriter | None:
        if not kinds.is_map(arrow):
            self.problems.add(f"a column of {arrow} cannot be written as a map")
            return None
        parts = field.message_type.fields_by_name
        with self.problems.inside("{}"):
            key = self._value(parts["key"], arrow.key_type)
            value = self._value(parts["value"], arrow.item_type)
        if key is None or value is None:
            return None
        return MapWriter(field.number, (tag(1, key[0]), key[1]), (tag(2, value[0]), value[1]))

    def _value(self, field: FieldDescriptor, arrow: pa.DataType) -> tuple[int, ColumnWriter] | None:
        """The wire type, and the writer of the value behind the tag."""
        found = self._message_value(field, arrow) if field.message_type is not None else _scalar(field, arrow)
        if found is None and field.message_type is None:
            self.problems.add(f"a column of {arrow} cannot be written as {_name(field)}")
        return found

    def _message_value(self, field: FieldDescriptor, arrow: pa.DataType) -> tuple[int, ColumnWriter] | None:
        kind = field.message_type
        name = kind.full_name
        if name == "google.protobuf.Timestamp" and kinds.is_timestamp(arrow) and arrow.tz is not None:
            return _SIZED, TimeWriter(is_duration=False)
        if name == "google.protobuf.Duration" and kinds.is_duration(arrow):
            return _SIZED, TimeWriter(is_duration=True)
        if name == "google.type.Date" and kinds.is_date32(arrow):
            return _SIZED, CalendarDateWriter()
        if kind.file.name == _WRAPPERS and not kinds.is_struct(arrow):
            inner = self._field(kind.fields_by_name["value"], arrow)
            return (_SIZED, WrappedWriter(inner)) if inner is not None else None
        if name in self._around and kinds.is_string(arrow):
            return _SIZED, JsonTextWriter(message_factory.GetMessageClass(kind))
        message = self.message(kind, arrow)
        if message is None:
            return None
        if field.type == FieldDescriptor.TYPE_GROUP:
            return _GROUP, GroupWriter(field.number, message)
        return _SIZED, InnerWriter(message)


def _scalar(field: FieldDescriptor, arrow: pa.DataType) -> tuple[int, ColumnWriter] | None:
    if kinds.is_null(arrow):
        # No value will come, so any writer does.
        return _VARINT, BooleanWriter()
    if field.enum_type is not None:
        return _enum(field, arrow)
    if field.type in _WHOLE:
        wire_type, make = _WHOLE[field.type]
        return (wire_type, make()) if is_whole(arrow) else None
    if field.type in _FLOATS:
        wire_type, size = _FLOATS[field.type]
        return (wire_type, FloatWriter(size)) if is_whole(arrow) or kinds.is_floating(arrow) else None
    if field.type == FieldDescriptor.TYPE_BOOL:
        return (_VARINT, BooleanWriter()) if kinds.is_boolean(arrow) else None
    if kinds.is_string(arrow) or (field.type == FieldDescriptor.TYPE_BYTES and kinds.is_binary(arrow)):
        return _SIZED, BytesWriter()
    if field.type == FieldDescriptor.TYPE_STRING and has_text(arrow):
        return _SIZED, TextWriter()
    return None


def _enum(field: FieldDescriptor, arrow: pa.DataType) -> tuple[int, ColumnWriter] | None:
    if kinds.is_integer(arrow):
        return _VARINT, signed(32, plain)()
    if not kinds.is_string(arrow):
        return None
    numbers = {each.name: each.number for each in field.enum_type.values}
    return _VARINT, EnumWriter(field.enum_type.full_name, numbers, is_open=not field.enum_type.is_closed)


def _name(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        return f"enum {field.enum_type.full_name}"
    names = {
        value: key.removeprefix("TYPE_").lower()
        for key, value in vars(FieldDescriptor).items()
        if key.startswith("TYPE_")
    }
    return str(names.get(field.type, "that field"))
