"""From JSON to Avro's binary encoding, in one pass; an error has the path of the value that does not fit.

Values are in Avro's JSON encoding: bytes and fixed are text with one character for each byte, and a value of a union is
null or an object with the name of its branch, `{"string": "x"}`. A logical type has the values of the type below. A
missing field gets its default; a field that the record does not have is an error.

A lenient writer also takes values of unions without the name of their branch. It looks at the value from outside, takes
the first branch that can be meant, and does not come back to that: trying out all branches of unions in unions would
take time without bounds.
"""

from __future__ import annotations

import math
import struct
import threading
from collections.abc import Callable
from typing import Any

from penstock.schemas.avro.model import (
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    NoDefault,
    Primitive,
    Record,
    Union,
    union_key,
)
from penstock.serdes.errors import PayloadError, TooLargeError


class Output(bytearray):
    """The bytes written so far. Defaults alone make a payload larger than its JSON, so their writer checks the
    bound.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self.most_bytes = most_bytes
        self.defaults = 0  # each counts as a byte: those of null have none, and take time all the same


Write = Callable[[Any, Output], None]

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
# Jackson's texts for the numbers that JSON lacks.
_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_EXCERPT = 40
# Larger defaults are encoded again each time: few characters of schema can mean any number of bytes, for each field.
_MOST_KEPT = 4096


def shown(value: Any) -> str:
    """A few characters of a value, for an error."""
    text = repr(value) if not isinstance(value, dict | list) else ("an object" if isinstance(value, dict) else "a list")
    return {"None": "null", "True": "true", "False": "false"}.get(text, text)[:_EXCERPT]


def write_long(number: int, out: bytearray) -> None:
    number = (number << 1) ^ (number >> 63)
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _write_null(value: Any, out: Output) -> None:
    if value is not None:
        raise PayloadError(f"expected null, not {shown(value)}")


def _write_boolean(value: Any, out: Output) -> None:
    if value is not True and value is not False:
        raise PayloadError(f"expected true or false, not {shown(value)}")
    out.append(value)


def _is_whole(value: Any, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1


def _write_int(value: Any, out: Output) -> None:
    if not _is_whole(value, 32):
        raise PayloadError(f"expected a whole number of 32 bits, not {shown(value)}")
    write_long(value, out)


def _write_bounded_long(value: Any, out: Output) -> None:
    if not _is_whole(value, 64):
        raise PayloadError(f"expected a whole number of 64 bits, not {shown(value)}")
    write_long(value, out)


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or (
        isinstance(value, str) and value in _NO_NUMBERS
    )


def _number_writer(layout: struct.Struct) -> Write:
    def write(value: Any, out: Output) -> None:
        if not _is_number(value):
            raise PayloadError(f"expected a number, not {shown(value)}")
        try:
            out += layout.pack(_NO_NUMBERS[value] if isinstance(value, str) else value)
        except (OverflowError, struct.error):
            raise PayloadError(f"{shown(value)} is too large for a number of {layout.size} bytes") from None

    return write


def _bytes_of(value: Any) -> bytes:
    if not isinstance(value, str):
        raise PayloadError(f"expected bytes as text with a character for each, not {shown(value)}")
    try:
        return value.encode("latin-1")
    except UnicodeEncodeError:
        raise PayloadError("expected bytes as text, with characters from \\u0000 to \\u00ff alone") from None


def _write_bytes(value: Any, out: Output) -> None:
    data = _bytes_of(value)
    write_long(len(data), out)
    out += data


def _write_string(value: Any, out: Output) -> None:
    if not isinstance(value, str):
        raise PayloadError(f"expected a string, not {shown(value)}")
    try:
        data = value.encode()
    except UnicodeEncodeError:
        raise PayloadError("the string has half of a surrogate pair, which no UTF-8 text can have") from None
    write_long(len(data), out)
    out += data


_PRIMITIVES: dict[str, Write] = {
    "null": _write_null,
    "boolean": _write_boolean,
    "int": _write_int,
    "long": _write_bounded_long,
    "float": _number_writer(_FLOAT),
    "double": _number_writer(_DOUBLE),
    "bytes": _write_bytes,
    "string": _write_string,
}


class Writers:
    """Makes the functions that write, one for each type, also where types are recursive."""

    def __init__(self, *, is_lenient: bool) -> None:
        self._is_lenient = is_lenient
        self._made: dict[int, Write] = {}
        # Types are found by identity, so they must stay alive.
        self._types: list[AvroType] = []
        self._of_defaults: Writers | None = self if is_lenient else None
        self._lock = threading.Lock()  # several threads may be the first to need a default

    def default_writer(self, kind: AvroType) -> Write:
        """Defaults of unions are written without the name of the branch. All fields share the functions: defaults that
        consist of other defaults would otherwise be made anew at each level, which takes time without bounds.
        """
        with self._lock:
            if self._of_defaults is None:
                self._of_defaults = Writers(is_lenient=True)
            if self._of_defaults is self:
                return self.writer(kind)
        return self._of_defaults.default_writer(kind)

    def writer(self, kind: AvroType) -> Write:
        if isinstance(kind, Primitive):
            return _PRIMITIVES[kind.kind]
        made = self._made.get(id(kind))
        if made is not None:
            return made
        self._types.append(kind)

        # Stands for the type's function inside the type itself, until the function is there.
        def write_later(value: Any, out: Output) -> None:
            self._made[id(kind)](value, out)

        self._made[id(kind)] = write_later
        self._made[id(kind)] = made = self._make(kind)
        return made

    def _make(self, kind: AvroType) -> Write:
        match kind:
            case Record():
                return self._record(kind)
            case Array():
                return _array(self.writer(kind.items))
            case Map():
                return _map(self.writer(kind.values))
            case Union():
                return self._union(kind)
            case Enum():
                return _enum(kind)
            case Fixed():
                return _fixed(kind)
        raise AssertionError(kind)

    def _record(self, kind: Record) -> Write:
        fields = [(each.name, self.writer(each.type), _default_writer(each, self)) for each in kind.fields]
        names = frozenset(each.name for each in kind.fields)
        full = kind.name.full

        def write(value: Any, out: Output) -> None:
            if not isinstance(value, dict):
                raise PayloadError(f"expected an object for record {full}, not {shown(value)}")
            for name, write_field, write_default in fields:
                if name in value:
                    try:
                        write_field(value[name], out)
                    except PayloadError as error:
                        raise error.inside(name) from None
                elif write_default is None:
                    raise PayloadError(f"record {full} needs the field {name}")
                else:
                    write_default(out)
            if len(value) > len(names) or not names.issuperset(value):
                unknown = next(each for each in value if each not in names)
                raise PayloadError(f"record {full} has no field {shown(unknown)}")

        return write

    def _union(self, kind: Union) -> Write:
        branches = {union_key(each): (index, self.writer(each)) for index, each in enumerate(kind.branches)}
        names = ", ".join(branches)
        by_position = list(kind.branches)
        is_lenient = self._is_lenient

        def write(value: Any, out: Output) -> None:
            found, inner, name = None, value, "null"
            if value is None:
                found = branches.get("null")
            elif isinstance(value, dict) and len(value) == 1:
                name, inner = next(iter(value.items()))
                found = branches.get(name)
            if found is not None:
                index, write_branch = found
                write_long(index, out)
                try:
                    write_branch(inner, out)
                except PayloadError as error:
                    raise error.inside(name) from None
                return
            meant = next((each for each in by_position if is_lenient and _may_be(each, value)), None)
            if meant is None:
                raise PayloadError(_no_branch(value, names, is_lenient))
            index, write_branch = branches[union_key(meant)]
            write_long(index, out)
            write_branch(value, out)

        return write


def _no_branch(value: Any, names: str, is_lenient: bool) -> str:
    how = "" if is_lenient or value is None else ', as an object with the name of the branch, like {"string": "x"}'
    return f"expected one of {names[:200]}{how}, not {shown(value)}"


def _array(write_item: Write) -> Write:
    def write(value: Any, out: Output) -> None:
        if not isinstance(value, list | tuple):
            raise PayloadError(f"expected a list, not {shown(value)}")
        if value:
            write_long(len(value), out)
            for position, item in enumerate(value):
                try:
                    write_item(item, out)
                except PayloadError as error:
                    raise error.inside(position) from None
        out.append(0)

    return write


def _map(write_value: Write) -> Write:
    def write(value: Any, out: Output) -> None:
        if not isinstance(value, dict):
            raise PayloadError(f"expected an object, not {shown(value)}")
        if value:
            write_long(len(value), out)
            for key, item in value.items():
                try:
                    _write_string(key, out)
                    write_value(item, out)
                except PayloadError as error:
                    raise error.inside(str(key)) from None
        out.append(0)

    return write


def _enum(kind: Enum) -> Write:
    positions = {symbol: position for position, symbol in enumerate(kind.symbols)}
    full = kind.name.full

    def write(value: Any, out: Output) -> None:
        position = positions.get(value) if isinstance(value, str) else None
        if position is None:
            raise PayloadError(f"expected a symbol of {full}, not {shown(value)}")
        write_long(position, out)

    return write


def _fixed(kind: Fixed) -> Write:
    size, full = kind.size, kind.name.full

    def write(value: Any, out: Output) -> None:
        data = _bytes_of(value)
        if len(data) != size:
            raise PayloadError(f"expected {size} bytes for {full}, not {len(data)}")
        out += data

    return write


def _default_writer(field: Field, writers: Writers) -> Callable[[Output], None] | None:
    default = field.default
    if isinstance(default, NoDefault):
        return None
    kept: list[bytes] = []

    def write(out: Output) -> None:
        if kept:
            out += kept[0]
        else:  # only when it is needed: the types around it are incomplete before
            begin = len(out)
            writers.default_writer(field.type)(default, out)
            if len(out) - begin <= _MOST_KEPT:
                kept.append(bytes(memoryview(out)[begin:]))
        out.defaults += 1
        if len(out) + out.defaults > out.most_bytes:
            raise TooLargeError(out.most_bytes)

    return write


_KINDS: dict[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "int": lambda value: _is_whole(value, 32),
    "long": lambda value: _is_whole(value, 64),
    "float": _is_number,
    "double": _is_number,
    "bytes": lambda value: isinstance(value, str) and all(each <= "\xff" for each in value),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list | tuple),
    "map": lambda value: isinstance(value, dict),
}


def _may_be(kind: AvroType, value: Any) -> bool:
    """Whether a value, seen from outside, can be of the type."""
    match kind:
        case Record():
            if not isinstance(value, dict):
                return False
            known = {each.name for each in kind.fields}
            needed = {each.name for each in kind.fields if isinstance(each.default, NoDefault)}
            return known.issuperset(value) and needed.issubset(value)
        case Enum():
            return isinstance(value, str) and value in kind.symbols
        case Fixed():
            return isinstance(value, str) and len(value) == kind.size and all(each <= "\xff" for each in value)
    return _KINDS[kind.kind](value)
