"""Protobuf payloads to columns: by ptars (Rust) where it gives our types, else by protobuf's runtime, row by row.

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

A column has the first message of a file, or the message that is asked for. A row with another message is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.serdes.columns.decoding import DecodedRows, scattered
from penstock.serdes.columns.payloads import Numbers, Payloads
from penstock.serdes.errors import FramingError, PayloadError, SerdesError, UnusableSchemaError
from penstock.serdes.framing import read_indexes
from penstock.serdes.protobuf import ProtobufCodec

_MOST_COLUMNS = 10_000
_MOST_DEPTH = 64
# Groups in groups that ptars is trusted with. It takes some hundred bytes of the stack for each.
_MOST_GROUPS = 1_000
_US = 1_000_000
_LARGEST = (1 << 63) - 1

_SCALARS: dict[int, pa.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: pa.int32(),
    FieldDescriptor.CPPTYPE_INT64: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT32: pa.int64(),
    FieldDescriptor.CPPTYPE_UINT64: pa.decimal128(20, 0),
    FieldDescriptor.CPPTYPE_DOUBLE: pa.float64(),
    FieldDescriptor.CPPTYPE_FLOAT: pa.float32(),
    FieldDescriptor.CPPTYPE_BOOL: pa.bool_(),
    FieldDescriptor.CPPTYPE_ENUM: pa.string(),
}
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMES = {"google.protobuf.Timestamp": pa.timestamp("us", "UTC"), "google.protobuf.Duration": pa.duration("us")}

# What a column makes of one value of a message.
_Take = Callable[[Any], Any]


class _Maker:
    """The type of a message, and how its values are taken from messages of the runtime."""

    def __init__(self) -> None:
        self._made = 0
        self._around: list[str] = []

    def message(self, kind: Descriptor) -> tuple[pa.DataType, _Take]:
        self._made += 1
        if self._made > _MOST_COLUMNS or len(self._around) > _MOST_DEPTH:
            raise UnusableSchemaError(f"the schema has more than {_MOST_COLUMNS} columns, or nests too deep")
        name = kind.full_name
        if name in _TIMES:
            return _TIMES[name], _microseconds
        if name in _WRAPPERS:
            inner, take = self._single(kind.fields_by_name["value"])
            return inner, lambda message: take(message.value)
        if name in self._around:
            return pa.string(), _json_text
        self._around.append(name)
        columns = [(field, *self._column(field)) for field in sorted(kind.fields, key=lambda each: each.number)]
        self._around.pop()
        arrow = pa.struct([pa.field(field.name, each, field.has_presence) for field, each, _ in columns])
        steps = [(field.name, field.has_presence, take) for field, _, take in columns]

        def take_message(message: Any) -> Any:
            return {
                name: None if has_presence and not message.HasField(name) else take(getattr(message, name))
                for name, has_presence, take in steps
            }

        return arrow, take_message

    def _column(self, field: FieldDescriptor) -> tuple[pa.DataType, _Take]:
        self._made += 1
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key_type, take_key = self._single(field.message_type.fields_by_name["key"])
            value_type, take_value = self._single(field.message_type.fields_by_name["value"])
            arrow = pa.map_(key_type, pa.field("value", value_type, nullable=False))
            return arrow, lambda found: [(take_key(key), take_value(found[key])) for key in found]
        inner, take = self._single(field)
        if field.is_repeated:
            return pa.list_(pa.field("element", inner, nullable=False)), lambda found: [take(each) for each in found]
        return inner, take

    def _single(self, field: FieldDescriptor) -> tuple[pa.DataType, _Take]:
        if field.message_type is not None:
            return self.message(field.message_type)
        if field.enum_type is not None:
            names = {value.number: value.name for value in reversed(field.enum_type.values)}
            return pa.string(), lambda number: names.get(number, str(number))
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            return (pa.binary() if field.type == FieldDescriptor.TYPE_BYTES else pa.string()), _same
        return _SCALARS[field.cpp_type], _same


def _same(value: Any) -> Any:
    return value


def _microseconds(message: Any) -> int:
    # Towards zero for durations, whose parts have one sign; nanoseconds of timestamps are not negative.
    part = abs(message.nanos) // 1000
    total = message.seconds * _US + (part if message.nanos >= 0 else -part)
    return int(max(-_LARGEST - 1, min(_LARGEST, total)))


def _json_text(message: Message) -> str:
    try:
        return str(json_format.MessageToJson(message, indent=None, ensure_ascii=False))
    except (json_format.SerializeToJsonError, ValueError, TypeError, RecursionError):
        raise PayloadError("a message within itself has no JSON text") from None


class ProtobufColumns:
    """Of one writer's file, and one message of it. `is_quick`: by ptars where it can be."""

    def __init__(
        self,
        writer: ProtobufSchema,
        message: str | None = None,
        reader: ProtobufSchema | None = None,
        fields: frozenset[str] | None = None,
        *,
        is_quick: bool = True,
    ) -> None:
        """`message` is one of the reader's file if there is one. `fields`: only these of the message are decoded.

        Raises UnusableSchemaError, ChoiceError.
        """
        codec = ProtobufCodec(writer)
        self._codec = codec
        self._name = str(codec.record_name(message))
        self._usual = codec.indexes(message)
        pool, _ = writer.described()
        descriptor = pool.FindMessageTypeByName(self._name)
        self._message = message_factory.GetMessageClass(descriptor)
        self.type, self._take = _Maker().message(descriptor)
        self._handler = _handler(descriptor, self.type) if is_quick else None

    def decode(self, payloads: Payloads) -> DecodedRows:
        errors: dict[int, str] = {}
        rows, binary = self._bare(payloads, errors)
        values = self._quick(binary)
        if values is None:
            # One row that does not parse spoils the block: leave such rows out, and try again.
            messages = self._parsed(rows, binary, errors)
            is_good = np.array([each is not None for each in messages], dtype=bool)
            good = pa.array(np.flatnonzero(is_good))
            rows = rows[is_good]
            values = self._quick(binary.take(good)) if len(rows) and len(rows) < len(messages) else None
            if values is None:
                values, rows = self._taken(rows, [each for each in messages if each is not None], errors)
        if len(rows) == len(payloads):
            return DecodedRows(values, errors)
        return DecodedRows(scattered(values, rows, len(payloads)), errors)

    def _bare(self, payloads: Payloads, errors: dict[int, str]) -> tuple[Numbers, pa.Array]:
        """The rows that hold our message, without the indexes that say so."""
        starts = payloads.starts.copy()
        is_good = np.ones(len(payloads), dtype=bool)
        before = payloads.before.to_pylist() if payloads.before is not None else None
        usual = np.frombuffer(self._usual, dtype=np.uint8)
        is_usual = np.zeros(len(payloads), dtype=bool)
        if before is None:
            fits = np.flatnonzero(payloads.ends - starts >= len(usual))
            found = payloads.data[starts[fits][:, None] + np.arange(len(usual))]
            is_usual[fits] = (found == usual).all(axis=1)
            starts[is_usual] += len(usual)
        for row in np.flatnonzero(~is_usual).tolist():
            header = before[row] if before is not None else None
            try:
                indexes, size = read_indexes(payloads.row(row) if header is None else header)
                name = self._codec.name_at(indexes)
                if name != self._name:
                    raise FramingError(f"the payload has the message {name}, not {self._name}")
                starts[row] += 0 if header is not None else size
            except SerdesError as error:
                errors[row] = str(error)
                is_good[row] = False
        rows = np.flatnonzero(is_good)
        return rows, Payloads(payloads.data, starts[rows], payloads.ends[rows]).binary()

    def _quick(self, binary: pa.Array) -> pa.Array | None:
        if self._handler is None or _may_nest(binary):
            return None
        try:
            return self._handler.array_to_record_batch(binary).to_struct_array().cast(self.type)
        except (ValueError, TypeError, pa.ArrowInvalid):
            return None
        except BaseException as error:
            # What Rust did not expect comes as a class that is no Exception, and that has no module to import it from.
            if type(error).__name__ == "PanicException":
                return None
            raise

    def _parsed(self, rows: Numbers, binary: pa.Array, errors: dict[int, str]) -> list[Message | None]:
        messages: list[Message | None] = []
        for row, payload in zip(rows.tolist(), binary.to_pylist(), strict=True):
            try:
                messages.append(self._message.FromString(payload))
            except DecodeError as error:
                messages.append(None)
                errors[row] = f"the payload is not one of {self._name}: {str(error).partition(': ')[2] or error}"
        return messages

    def _taken(self, rows: Numbers, messages: list[Message], errors: dict[int, str]) -> tuple[pa.Array, Numbers]:
        values, good = [], []
        for row, message in zip(rows.tolist(), messages, strict=True):
            try:
                values.append(self._take(message))
                good.append(row)
            except (PayloadError, ValueError) as error:  # ValueError: text of proto2 that is no UTF-8
                errors[row] = str(error)[:300]
        return pa.array(values, self.type), np.array(good, dtype=np.int64)


def _handler(descriptor: Descriptor, wanted: pa.DataType) -> Any:
    """ptars for a message, or None: where it is not installed, or makes other types of the message than we do."""
    try:
        import ptars
    except ModuleNotFoundError:
        return None
    if _has_map_of_messages(descriptor, set()):
        return None
    config = ptars.PtarsConfig(enum_repr="string", list_value_name="element", timestamp_unit="us", duration_unit="us")
    try:
        handler = ptars.HandlerPool([descriptor.file], config=config).get_for_message(descriptor)
        found = pa.struct(list(handler.schema()))
    except (ValueError, TypeError, KeyError):
        return None
    return handler if _signed(found) == wanted else None


def _may_nest(binary: pa.Array) -> bool:
    """Whether a payload may have groups so deep in groups that ptars, which has no limit, overflows the stack.

    Each level begins with a byte that ends in 011, so there are no more levels than such bytes. Text has one in seven.
    """
    _, offsets_buffer, data = binary.buffers()
    if data is None or not len(binary):
        return False
    offsets = np.frombuffer(offsets_buffer, dtype=np.int32)[binary.offset : binary.offset + len(binary) + 1]
    if int(np.diff(offsets).max()) <= _MOST_GROUPS:
        return False
    begun = np.zeros(int(offsets[-1]) + 1, dtype=np.int64)
    np.cumsum((np.frombuffer(data, dtype=np.uint8)[: offsets[-1]] & 7) == 3, out=begun[1:])
    return bool(np.diff(begun[offsets]).max() > _MOST_GROUPS)


def _has_map_of_messages(kind: Descriptor, seen: set[str]) -> bool:
    """ptars panics, and writes to stderr, when an entry of such a map comes without a value."""
    if kind.full_name in seen:
        return False
    seen.add(kind.full_name)
    inner = [field.message_type for field in kind.fields if field.message_type is not None]
    if kind.GetOptions().map_entry and inner:
        return True
    return any(_has_map_of_messages(each, seen) for each in inner)


def _signed(kind: pa.DataType) -> pa.DataType:
    """The type with signed numbers for those without a sign."""
    if pa.types.is_uint32(kind):
        return pa.int64()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_signed(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_signed(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_signed(kind.key_type), kind.item_field.with_type(_signed(kind.item_type)))
    return kind
