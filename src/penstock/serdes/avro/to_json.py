"""From Avro's binary encoding to JSON. `from_json` describes the form of the values.

Bytes come from strangers: the reader checks lengths against the bytes that are there, counts items that take no bytes,
and refuses values that nest too deep.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from penstock.schemas.avro.model import Array, AvroType, Enum, Fixed, Map, Primitive, Record, Union, union_key
from penstock.serdes.errors import PayloadError

# Of all values of a payload that take no bytes: a list of nulls has nothing but its length.
_MOST_EMPTY = 100_000
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


class Cursor:
    """The payload, and the position of the reader."""

    __slots__ = ("data", "empty_left", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.empty_left = _MOST_EMPTY

    def long(self) -> int:
        data, position = self.data, self.position
        byte = data[position]
        position += 1
        number = byte & 0x7F
        shift = 7
        while byte > 0x7F:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 70:
                raise PayloadError("a number has more than 64 bits")
        self.position = position
        return (number >> 1) ^ -(number & 1)

    def take(self, size: int) -> bytes:
        end = self.position + size
        if size < 0 or end > len(self.data):
            raise PayloadError("the payload ends too early, or was written with another schema")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def spend_empty(self, count: int) -> None:
        self.empty_left -= count
        if self.empty_left < 0:
            raise PayloadError(f"the payload has more than {_MOST_EMPTY} values that take no bytes")


Read = Callable[[Cursor], Any]


def _read_boolean(cursor: Cursor) -> bool:
    byte = cursor.take(1)
    if byte > b"\x01":
        raise PayloadError("a boolean is neither 0 nor 1")
    return byte == b"\x01"


def _read_int(cursor: Cursor) -> int:
    number = cursor.long()
    if not -(1 << 31) <= number < 1 << 31:
        raise PayloadError("a number has more than 32 bits")
    return number


def _read_float(cursor: Cursor) -> float | str:
    data = cursor.take(4)
    number: float = _FLOAT.unpack(data)[0]
    if not math.isfinite(number):
        return _no_number(number)
    # The shortest digits that mean the same four bytes, as Java prints them: 0.1 and not 0.10000000149011612.
    for digits in (6, 7, 8):
        shorter = float(f"{number:.{digits}g}")
        try:
            if _FLOAT.pack(shorter) == data:
                return shorter
        except OverflowError:
            continue
    return number


def _read_double(cursor: Cursor) -> float | str:
    number: float = _DOUBLE.unpack(cursor.take(8))[0]
    return number if math.isfinite(number) else _no_number(number)


def _no_number(number: float) -> str:
    return "NaN" if math.isnan(number) else ("Infinity" if number > 0 else "-Infinity")


def _read_string(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.long()).decode()
    except UnicodeDecodeError:
        raise PayloadError("a string is no UTF-8") from None


_PRIMITIVES: dict[str, Read] = {
    "null": lambda cursor: None,
    "boolean": _read_boolean,
    "int": _read_int,
    "long": Cursor.long,
    "float": _read_float,
    "double": _read_double,
    "bytes": lambda cursor: cursor.take(cursor.long()).decode("latin-1"),
    "string": _read_string,
}


class Readers:
    """Makes the functions that read, one for each type, also where types are recursive."""

    def __init__(self) -> None:
        self._made: dict[int, Read] = {}
        # Types are found by identity, so they must stay alive.
        self._types: list[AvroType] = []

    def reader(self, kind: AvroType) -> Read:
        if isinstance(kind, Primitive):
            return _PRIMITIVES[kind.kind]
        made = self._made.get(id(kind))
        if made is not None:
            return made
        self._types.append(kind)

        def read_later(cursor: Cursor) -> Any:
            return self._made[id(kind)](cursor)

        self._made[id(kind)] = read_later
        self._made[id(kind)] = made = self._make(kind)
        return made

    def _make(self, kind: AvroType) -> Read:
        match kind:
            case Record():
                return _record([(each.name, self.reader(each.type)) for each in kind.fields])
            case Array():
                return _array(self.reader(kind.items), _empty_weight(kind.items, set()))
            case Map():
                return _map(self.reader(kind.values))
            case Union():
                return _union([(union_key(each), self.reader(each)) for each in kind.branches])
            case Enum():
                return _enum(list(kind.symbols))
            case Fixed():
                size = kind.size
                return lambda cursor: cursor.take(size).decode("latin-1")
        raise AssertionError(kind)


def _record(fields: list[tuple[str, Read]]) -> Read:
    def read(cursor: Cursor) -> dict[str, Any]:
        record: dict[str, Any] = {}
        for name, read_field in fields:
            try:
                record[name] = read_field(cursor)
            except PayloadError as error:
                raise error.inside(name) from None
        return record

    return read


def _block_size(cursor: Cursor) -> int:
    count = cursor.long()
    if count < 0:  # the size in bytes follows, for readers that skip
        count = -count
        cursor.long()
    return count


def _array(read_item: Read, empty_weight: int) -> Read:
    def read(cursor: Cursor) -> list[Any]:
        items: list[Any] = []
        while count := _block_size(cursor):
            if empty_weight:
                cursor.spend_empty(count * empty_weight)
            for _ in range(count):
                try:
                    items.append(read_item(cursor))
                except PayloadError as error:
                    raise error.inside(len(items)) from None
        return items

    return read


def _map(read_value: Read) -> Read:
    def read(cursor: Cursor) -> dict[str, Any]:
        items: dict[str, Any] = {}
        while count := _block_size(cursor):
            for _ in range(count):
                key = _read_string(cursor)
                try:
                    items[key] = read_value(cursor)
                except PayloadError as error:
                    raise error.inside(key) from None
        return items

    return read


def _union(branches: list[tuple[str, Read]]) -> Read:
    def read(cursor: Cursor) -> Any:
        index = cursor.long()
        if not 0 <= index < len(branches):
            raise PayloadError(f"a union has no branch {index}")
        name, read_branch = branches[index]
        if name == "null":
            return None
        try:
            return {name: read_branch(cursor)}
        except PayloadError as error:
            raise error.inside(name) from None

    return read


def _enum(symbols: list[str]) -> Read:
    def read(cursor: Cursor) -> str:
        index = cursor.long()
        if not 0 <= index < len(symbols):
            raise PayloadError(f"an enum has no symbol {index}")
        return symbols[index]

    return read


def _empty_weight(kind: AvroType, seen: set[int]) -> int:
    """How many values a value of the type has, if it takes no bytes; 0 if it takes some."""
    match kind:
        case Primitive():
            return int(kind.kind == "null")
        case Fixed():
            return int(kind.size == 0)
        case Record():
            if id(kind) in seen:
                return 0
            seen.add(id(kind))
            weights = [_empty_weight(each.type, seen) for each in kind.fields]
            return 1 + sum(weights) if all(weights) else 0
    return 0
