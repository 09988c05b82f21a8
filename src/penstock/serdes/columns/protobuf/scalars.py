"""Kinds of single values: their wire type, their Arrow type, and their values by both readers.

`make` has one lane for each value. Kinds that are numbers get the numbers as they were written; the others read the
bytes between the position of a lane and its end. A value that the kind does not take fails its lane. `of` turns a value
of protobuf's runtime into Arrow's form. Both ways give the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from penstock.serdes.columns.avro.row_cursors import RowCursors
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.columns.protobuf.wire import FIXED32, FIXED64, SPAN, VARINT
from penstock.serdes.errors import PayloadError

# Numbers of constants that lie so near to each other are found in a table.
_MOST_TABLE = 4096


class ScalarKind(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    @property
    def wire(self) -> int: ...

    @property
    def absent(self) -> int:
        """The number of an absent field."""
        ...

    @property
    def columns(self) -> int:
        """How many columns the kind has, all counted."""
        ...

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        """Raises TooManyValuesError."""
        ...

    def of(self, value: Any) -> Any:
        """Raises PayloadError."""
        ...


class NumberKind:
    absent = 0
    columns = 1

    def __init__(self, kind: pa.DataType, wire: int, convert: Callable[[Numbers], Numbers]) -> None:
        self.type = kind
        self.wire = wire
        self._convert = convert

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        return pa.array(self._convert(numbers), self.type)

    def of(self, value: Any) -> Any:
        return value


class LargeNumberKind:
    """uint64 and fixed64. Arrow's decimals have 16 bytes, the lowest first."""

    type = pa.decimal128(20, 0)
    absent = 0
    columns = 1

    def __init__(self, wire: int) -> None:
        self.wire = wire

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        words = np.zeros((len(numbers), 2), dtype=np.uint64)
        words[:, 0] = numbers
        return pa.Array.from_buffers(self.type, len(numbers), [None, pa.py_buffer(words)])

    def of(self, value: Any) -> Any:
        return value


class EnumKind:
    """The name, or the number if it has no name. A closed enum has no such numbers: rows with one fail."""

    type = pa.string()
    wire = VARINT
    columns = 1

    def __init__(self, kind: EnumDescriptor) -> None:
        self._names = {value.number: value.name for value in reversed(kind.values)}
        numbers = sorted(self._names)
        self._is_closed = bool(kind.is_closed)
        self.absent = kind.values[0].number
        self._texts = pa.array([self._names[number] for number in numbers], pa.string())
        self._numbers = np.array(numbers, dtype=np.int64)
        self._table = _table(self._numbers)

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        value = numbers.astype(np.int32).astype(np.int64)
        index = self._index(value)
        is_unknown = index < 0
        if not is_unknown.any():
            return self._texts.take(pa.array(index))
        index[is_unknown] = 0
        named = self._texts.take(pa.array(index))
        if self._is_closed:
            cursors.fail(is_unknown)
            return named
        return pc.if_else(pa.array(is_unknown), pa.array(value).cast(pa.string()), named)

    def _index(self, value: Numbers) -> Numbers:
        """-1 for numbers without a name."""
        if self._table is not None:
            place = value - self._numbers[0]
            place[(place < 0) | (place >= len(self._table))] = len(self._table) - 1
            found: Numbers = self._table[place]
            return found
        index = np.searchsorted(self._numbers, value)
        index[index == len(self._numbers)] = 0
        index[self._numbers[index] != value] = -1
        return index

    def of(self, value: Any) -> Any:
        return self._names.get(value, str(value))


def _table(numbers: Numbers) -> Numbers | None:
    """The index of each number from the lowest on, and -1 at the end."""
    span = int(numbers[-1] - numbers[0]) + 1
    if span > _MOST_TABLE:
        return None
    table = np.full(span + 1, -1, dtype=np.int64)
    table[numbers - numbers[0]] = np.arange(len(numbers))
    return table


class TextKind:
    type = pa.string()
    wire = SPAN
    absent = 0
    columns = 1

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        return cursors.texts(cursors.position, cursors.end - cursors.position)

    def of(self, value: Any) -> Any:
        if isinstance(value, bytes):  # the runtime's form of a broken text in proto2
            raise PayloadError("a text is no UTF-8")
        return value


class BytesKind:
    type = pa.binary()
    wire = SPAN
    absent = 0
    columns = 1

    def make(self, cursors: RowCursors, numbers: Numbers) -> pa.Array:
        return cursors.cut(cursors.position, cursors.end - cursors.position)

    def of(self, value: Any) -> Any:
        return value


def _zigzag(numbers: Numbers, kind: type[np.unsignedinteger[Any]]) -> Numbers:
    """Decodes the lowest bits that the type has."""
    low = numbers.astype(kind)
    found: Numbers = (low >> kind(1)) ^ (~(low & kind(1)) + kind(1))
    return found


_INT32, _INT64, _BOOL = pa.int32(), pa.int64(), pa.bool_()
_FLOAT, _DOUBLE = pa.float32(), pa.float64()

SCALARS: dict[int, Callable[[], ScalarKind]] = {
    FieldDescriptor.TYPE_INT32: lambda: NumberKind(
        _INT32, VARINT, lambda found: found.astype(np.uint32).view(np.int32)
    ),
    FieldDescriptor.TYPE_INT64: lambda: NumberKind(_INT64, VARINT, lambda found: found.view(np.int64)),
    FieldDescriptor.TYPE_UINT32: lambda: NumberKind(
        _INT64, VARINT, lambda found: found.astype(np.uint32).astype(np.int64)
    ),
    FieldDescriptor.TYPE_UINT64: lambda: LargeNumberKind(VARINT),
    FieldDescriptor.TYPE_SINT32: lambda: NumberKind(
        _INT32, VARINT, lambda found: _zigzag(found, np.uint32).view(np.int32)
    ),
    FieldDescriptor.TYPE_SINT64: lambda: NumberKind(
        _INT64, VARINT, lambda found: _zigzag(found, np.uint64).view(np.int64)
    ),
    FieldDescriptor.TYPE_BOOL: lambda: NumberKind(_BOOL, VARINT, lambda found: found != 0),
    FieldDescriptor.TYPE_FIXED32: lambda: NumberKind(_INT64, FIXED32, lambda found: found.astype(np.int64)),
    FieldDescriptor.TYPE_SFIXED32: lambda: NumberKind(_INT32, FIXED32, lambda found: found.view(np.int32)),
    FieldDescriptor.TYPE_FLOAT: lambda: NumberKind(_FLOAT, FIXED32, lambda found: found.view(np.float32)),
    FieldDescriptor.TYPE_FIXED64: lambda: LargeNumberKind(FIXED64),
    FieldDescriptor.TYPE_SFIXED64: lambda: NumberKind(_INT64, FIXED64, lambda found: found.view(np.int64)),
    FieldDescriptor.TYPE_DOUBLE: lambda: NumberKind(_DOUBLE, FIXED64, lambda found: found.view(np.float64)),
    FieldDescriptor.TYPE_STRING: TextKind,
    FieldDescriptor.TYPE_BYTES: BytesKind,
}
