"""From a message's descriptor to its kind, and so to its Arrow type.

| Protobuf | Arrow |
|---|---|
| int32, sint32, sfixed32; int64, ... | int32; int64 |
| uint32, fixed32; uint64, fixed64 | int64; decimal128(20, 0): Spark has no numbers without a sign |
| float, double, bool, string, bytes | float32, float64, bool, string, binary |
| enum | string: the name, or the number if it has no name |
| message | struct, nullable; its fields in the order of their numbers |
| repeated; map | list; map, never null |
| field with presence (optional, oneof, proto2) | nullable |
| Timestamp; Duration | timestamp[us, UTC]; duration[us]: what is too large is the largest there is |
| wrappers | their value, nullable |
| a message that contains itself, where it does so | string: its JSON text |
"""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from penstock.serdes.columns.protobuf.evolution import clash
from penstock.serdes.columns.protobuf.fields import MapField, ProtobufField, RepeatedField, SingleField
from penstock.serdes.columns.protobuf.messages import JsonKind, MessageField, MessageKind, TimeKind, WrapperKind
from penstock.serdes.columns.protobuf.scalars import SCALARS, EnumKind, ScalarKind
from penstock.serdes.errors import UnusableSchemaError

# Columns in columns, all counted. Names allow a short text to mean exponentially many.
_MOST_COLUMNS = 10_000
# Messages within messages. Reading takes some frames of Python for each, and Arrow recurses too.
_MOST_DEPTH = 64

_TIMES = {"google.protobuf.Timestamp": pa.timestamp("us", "UTC"), "google.protobuf.Duration": pa.duration("us")}
_TIME_FIELDS = [("seconds", 1, FieldDescriptor.TYPE_INT64), ("nanos", 2, FieldDescriptor.TYPE_INT32)]
_WRAPPERS = {
    f"google.protobuf.{name}Value": kind
    for name, kind in (
        ("Double", FieldDescriptor.TYPE_DOUBLE),
        ("Float", FieldDescriptor.TYPE_FLOAT),
        ("Int64", FieldDescriptor.TYPE_INT64),
        ("UInt64", FieldDescriptor.TYPE_UINT64),
        ("Int32", FieldDescriptor.TYPE_INT32),
        ("UInt32", FieldDescriptor.TYPE_UINT32),
        ("Bool", FieldDescriptor.TYPE_BOOL),
        ("String", FieldDescriptor.TYPE_STRING),
        ("Bytes", FieldDescriptor.TYPE_BYTES),
    )
}


def message_kind(
    kind: Descriptor, writer: Descriptor | None = None, wanted: frozenset[str] | None = None, name: str | None = None
) -> MessageKind:
    """`writer`: the message of the payloads, if it is another one. `name`: the message's name in errors.

    Raises UnusableSchemaError.
    """
    return _Maker().plain(kind, writer, wanted, name)


class _Maker:
    def __init__(self) -> None:
        self._made = 0
        # The messages around, from the outermost on.
        self._around: list[str] = []

    def plain(
        self,
        kind: Descriptor,
        writer: Descriptor | None,
        wanted: frozenset[str] | None = None,
        name: str | None = None,
    ) -> MessageKind:
        self._count()
        self._around.append(name or kind.full_name)
        fields = [
            self._field(each, _written(each, writer)) for each in sorted(kind.fields, key=lambda each: each.number)
        ]
        self._around.pop()
        others = frozenset(each.number for each in kind.file.pool.FindAllExtensions(kind))
        return MessageKind(fields, others, wanted)

    def _count(self) -> None:
        self._made += 1
        if self._made > _MOST_COLUMNS or len(self._around) > _MOST_DEPTH:
            raise UnusableSchemaError(f"the schema has more than {_MOST_COLUMNS} columns, or nests too deep")

    def _field(self, field: FieldDescriptor, written: FieldDescriptor | None) -> MessageField:
        oneof = field.containing_oneof
        return MessageField(
            field.name,
            field.number,
            bool(field.has_presence),
            self._reading(field, written),
            oneof.name if oneof is not None and len(oneof.fields) > 1 else None,
        )

    def _reading(self, field: FieldDescriptor, written: FieldDescriptor | None) -> ProtobufField:
        is_read = field.type != FieldDescriptor.TYPE_GROUP and (written is None or clash(written, field) is None)
        inner = written.message_type if written is not None else None
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field, inner, is_read=is_read)
        kind = self._single(field, inner)
        if field.is_repeated:
            return RepeatedField(kind, field.number, is_read=is_read)
        return SingleField(kind, field.number, has_presence=bool(field.has_presence), is_read=is_read)

    def _map(self, field: FieldDescriptor, writer: Descriptor | None, *, is_read: bool) -> MapField:
        self._count()
        parts: list[MessageField] = []
        kinds: list[ScalarKind] = []
        for part in (field.message_type.fields_by_number[1], field.message_type.fields_by_number[2]):
            written = _written(part, writer)
            kinds.append(self._single(part, written.message_type if written is not None else None))
            is_so = part.type != FieldDescriptor.TYPE_GROUP and (written is None or clash(written, part) is None)
            single = SingleField(kinds[-1], part.number, has_presence=False, is_read=is_so)
            parts.append(MessageField(part.name, part.number, has_presence=False, field=single))
        return MapField(MessageKind(parts, is_entry=True), kinds, field.number, is_read=is_read)

    def _single(self, field: FieldDescriptor, writer: Descriptor | None) -> ScalarKind:
        self._count()
        if field.message_type is not None:
            return self._message(field.message_type, writer)
        return EnumKind(field.enum_type) if field.enum_type is not None else SCALARS[field.type]()

    def _message(self, kind: Descriptor, writer: Descriptor | None) -> ScalarKind:
        name = kind.full_name
        shape = [(each.name, each.number, each.type) for each in kind.fields]
        if name in _TIMES and shape == _TIME_FIELDS:
            return TimeKind(_TIMES[name], self.plain(kind, writer))
        if name in _WRAPPERS and shape == [("value", 1, _WRAPPERS[name])] and not kind.fields[0].is_repeated:
            return WrapperKind(self.plain(kind, writer), SCALARS[_WRAPPERS[name]]())
        return JsonKind() if name in self._around else self.plain(kind, writer)


def _written(field: FieldDescriptor, writer: Descriptor | None) -> FieldDescriptor | None:
    return writer.fields_by_number.get(field.number) if writer is not None else None
