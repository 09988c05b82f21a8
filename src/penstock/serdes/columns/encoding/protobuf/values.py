"""Writers of the bytes behind the tag of a field: single values, and messages that stand for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import json_format
from google.protobuf.message import EncodeError

from penstock.serdes.columns.encoding.numbers import floating, numpy_of, shown, ticks, whole
from penstock.serdes.columns.encoding.pieces import (
    Piece,
    joined,
    little_endian,
    rows_of,
    sizes_of,
    spread,
    varints,
    zigzag,
)
from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.columns.encoding.texts import texts_of
from penstock.serdes.columns.encoding.writers import ColumnWriter
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import PayloadError

_NANOS = 1_000_000_000
# The bounds of timestamp.proto: the years 1 to 9999. duration.proto: about 10,000 years.
_TIMESTAMP_S = (-62_135_596_800, 253_402_300_799)
_DURATION_S = (-315_576_000_000, 315_576_000_000)


def tag(number: int, wire_type: int) -> bytes:
    return bytes(varints(np.array([number << 3 | wire_type]))[0].as_py())


def sized(pieces: list[Piece], count: int) -> list[Piece]:
    """The pieces with their number of bytes in front."""
    data = joined(pieces, count)
    return [varints(sizes_of(data)), data]


class WholeWriter:
    """Whole numbers: `to_pieces` encodes them as their type does."""

    def __init__(self, lowest: int, highest: int, to_pieces: Callable[[Numbers], pa.Array]) -> None:
        self._lowest, self._highest = lowest, highest
        self._to_pieces = to_pieces

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [self._to_pieces(whole(values, self._lowest, self._highest, refusals))]


def signed(bits: int, to_pieces: Callable[[Numbers], pa.Array]) -> Callable[[], ColumnWriter]:
    return lambda: WholeWriter(-(1 << bits - 1), (1 << bits - 1) - 1, to_pieces)


def unsigned(bits: int, to_pieces: Callable[[Numbers], pa.Array]) -> Callable[[], ColumnWriter]:
    return lambda: WholeWriter(0, (1 << bits) - 1, to_pieces)


def plain(numbers: Numbers) -> pa.Array:
    """Negative numbers have ten bytes."""
    return varints(numbers.view(np.uint64))


def zigzagged(numbers: Numbers) -> pa.Array:
    return varints(zigzag(numbers))


def fixed(layout: str) -> Callable[[Numbers], pa.Array]:
    return lambda numbers: little_endian(numbers, layout)


class FloatWriter:
    def __init__(self, size: int) -> None:
        self._size = size

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [little_endian(floating(values, self._size, refusals), f"<f{self._size}")]


class BooleanWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [rows_of(numpy_of(values).astype(np.uint8).reshape(-1, 1))]


class BytesWriter:
    """Text and bytes."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return sized([values.cast(pa.binary())], len(values))


class TextWriter:
    """Values with a text of their own: dates, times, decimals."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return sized([texts_of(values).cast(pa.binary())], len(values))


class EnumWriter:
    """By name; a number without a name is the text of the number, as our columns have it."""

    def __init__(self, name: str, numbers: Mapping[str, int], *, is_open: bool) -> None:
        self._name = name
        self._numbers = numbers
        self._is_open = is_open

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        encoded = values.dictionary_encode()
        found = [self._number(text) for text in encoded.dictionary.to_pylist()]
        which = numpy_of(encoded.indices)
        is_unknown = np.array([each is None for each in found], dtype=bool)[which]
        text = shown(values)
        refusals.note(is_unknown, lambda row: f"{text(row)!r} is no value of {self._name}")
        return [plain(np.array([each or 0 for each in found], dtype=np.int64)[which])]

    def _number(self, text: str) -> int | None:
        number = self._numbers.get(text)
        if number is None and self._is_open and text.removeprefix("-").isdecimal() and len(text) < 12:
            number = int(text)
            return number if -(1 << 31) <= number < 1 << 31 else None
        return number


def _written_if(is_there: Numbers, number: int, numbers: Numbers) -> list[Piece]:
    """A field of whole numbers, where it is there."""
    pieces: list[Piece] = [tag(number, 0), plain(numbers[is_there].astype(np.int64))]
    found = joined(pieces, int(is_there.sum()))
    return [found if is_there.all() else spread(found, is_there)]


class TimeWriter:
    """Timestamp, or Duration, whose parts have one sign."""

    def __init__(self, *, is_duration: bool) -> None:
        self._is_duration = is_duration
        self._lowest, self._highest = _DURATION_S if is_duration else _TIMESTAMP_S

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        unit = values.type.unit
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": _NANOS}[unit]
        numbers = ticks(values, unit, refusals)
        seconds = numbers // per_second
        rest = (numbers - seconds * per_second) * (_NANOS // per_second)
        if self._is_duration:
            is_negative = (seconds < 0) & (rest > 0)
            seconds, rest = seconds + is_negative, rest - is_negative * _NANOS
        is_bad = (seconds < self._lowest) | (seconds > self._highest)
        refusals.note(is_bad, lambda row: f"a time {numbers[row]} {unit} from 1970 is out of Protobuf's range")
        fields = _written_if(seconds != 0, 1, seconds) + _written_if(rest != 0, 2, rest)
        return sized(fields, len(values))


class CalendarDateWriter:
    """google.type.Date: year, month and day."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        parts = [numpy_of(part(values)).astype(np.int64) for part in (pc.year, pc.month, pc.day)]
        is_bad = (parts[0] < 1) | (parts[0] > 9999)
        refusals.note(is_bad, lambda row: f"the year {parts[0][row]} is out of google.type.Date's range")
        pieces = [piece for number, part in enumerate(parts, 1) for piece in _written_if(part != 0, number, part)]
        return sized(pieces, len(values))


class JsonTextWriter:
    """A message within itself: the text of its value in Protobuf's JSON encoding."""

    def __init__(self, message: Any) -> None:
        self._message = message

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        found: list[bytes] = []
        for row, text in enumerate(values.to_pylist()):
            message = self._message()
            try:
                json_format.Parse(text, message)
                found.append(message.SerializeToString())
            except (json_format.ParseError, EncodeError, ValueError, TypeError, RecursionError) as error:
                name = self._message.DESCRIPTOR.full_name
                refusals.add(row, PayloadError(f"the text is no JSON of {name}: {str(error)[:200]}"))
                found.append(b"")
        return sized([pa.array(found, pa.binary())], len(values))
