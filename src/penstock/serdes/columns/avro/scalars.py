"""Columns of single values, and of logical types that stand on them.

A column has its Arrow type, reads from all lanes at once (`read`), and turns a single value from `serdes.avro.to_json`
into Arrow's form (`of`). Both ways give the same values. `skip` passes over unwanted values, and checks nothing but
their sizes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Protocol
from uuid import UUID

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.avro.row_cursors import RowCursors, words_at
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import PayloadError

# The digits that 16 bytes hold, and that Spark knows.
MOST_DIGITS = 38
_DAY_MS = 86_400_000


class Column(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    @property
    def width(self) -> int | None:
        """The size of each value in bytes; None where values differ."""
        ...

    def read(self, cursors: RowCursors) -> pa.Array:
        """As many values as there are lanes; those of failed lanes mean nothing."""
        ...

    def skip(self, cursors: RowCursors) -> None: ...

    def of(self, value: Any) -> Any:
        """Raises PayloadError."""
        ...


class NullColumn:
    type = pa.null()
    width = 0

    def read(self, cursors: RowCursors) -> pa.Array:
        return pa.nulls(len(cursors))

    def skip(self, cursors: RowCursors) -> None:
        pass

    def of(self, value: Any) -> Any:
        return None


class BooleanColumn:
    type = pa.bool_()
    width = 1

    def read(self, cursors: RowCursors) -> pa.Array:
        byte = cursors.data[cursors.fixed(1)]
        cursors.fail_if(byte > 1, byte)
        return pa.array(byte.astype(bool))

    def skip(self, cursors: RowCursors) -> None:
        cursors.skip(1)

    def of(self, value: Any) -> Any:
        return value


class WholeColumn:
    """int, long, and dates and times on them. `limit`: a time of a day is less."""

    width = None

    def __init__(self, bits: int, kind: pa.DataType, limit: int | None = None) -> None:
        self.type = kind
        self._number = np.int32 if bits == 32 else np.int64
        self._lowest, self._highest = (0, limit - 1) if limit else (-(1 << bits - 1), (1 << bits - 1) - 1)
        self._is_checked = bits == 32 or limit is not None

    def read(self, cursors: RowCursors) -> pa.Array:
        value = cursors.longs()
        if self._is_checked:
            cursors.fail_if((value < self._lowest) | (value > self._highest), value)
        found = pa.array(value.astype(self._number))
        return found if found.type == self.type else found.view(self.type)

    def skip(self, cursors: RowCursors) -> None:
        cursors.skip_longs()

    def of(self, value: Any) -> Any:
        if not self._lowest <= value <= self._highest:
            raise PayloadError(f"{value} is out of the range of {self.type}")
        return value


class FloatColumn:
    def __init__(self, size: int) -> None:
        self.type = pa.float32() if size == 4 else pa.float64()
        self.width = size

    def read(self, cursors: RowCursors) -> pa.Array:
        return pa.array(words_at(cursors.data, cursors.fixed(self.width), f"<f{self.width}"))

    def skip(self, cursors: RowCursors) -> None:
        cursors.skip(self.width)

    def of(self, value: Any) -> Any:
        return float(value)


def _spans(cursors: RowCursors, size: int | None) -> tuple[Numbers, Numbers | int]:
    return cursors.spans() if size is None else (cursors.fixed(size), size)


def _skip(cursors: RowCursors, size: int | None) -> None:
    if size is None:
        cursors.skip_spans()
    else:
        cursors.skip(size)


class BytesColumn:
    """bytes, and fixed with its size."""

    type = pa.binary()

    def __init__(self, size: int | None = None) -> None:
        self.width = size

    def read(self, cursors: RowCursors) -> pa.Array:
        return cursors.cut(*_spans(cursors, self.width))

    def skip(self, cursors: RowCursors) -> None:
        _skip(cursors, self.width)

    def of(self, value: Any) -> Any:
        return value.encode("latin-1")


class TextColumn:
    type = pa.string()
    width = None

    def read(self, cursors: RowCursors) -> pa.Array:
        return cursors.texts(*cursors.spans())

    def skip(self, cursors: RowCursors) -> None:
        cursors.skip_spans()

    def of(self, value: Any) -> Any:
        return value


class EnumColumn:
    type = pa.string()
    width = None

    def __init__(self, symbols: list[str]) -> None:
        self._symbols = pa.array(symbols or [""], pa.string())
        self._count = len(symbols)

    def read(self, cursors: RowCursors) -> pa.Array:
        index = cursors.longs()
        cursors.fail_if((index < 0) | (index >= self._count), index)
        return self._symbols.take(pa.array(index))

    def skip(self, cursors: RowCursors) -> None:
        cursors.skip_longs()

    def of(self, value: Any) -> Any:
        return value


class UuidColumn:
    """A fixed of 16 bytes, as text: a uuid on a string is text too."""

    type = pa.string()
    width = 16
    _HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), dtype=np.uint8).reshape(256, 2)
    _DASHES = (8, 13, 18, 23)

    def read(self, cursors: RowCursors) -> pa.Array:
        count = len(cursors)
        digits = self._HEX[cursors.matrix(cursors.fixed(16), 16)].reshape(count, 32)
        text = np.full((count, 36), ord("-"), dtype=np.uint8)
        text[:, [each for each in range(36) if each not in self._DASHES]] = digits
        offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
        return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))

    def skip(self, cursors: RowCursors) -> None:
        cursors.skip(16)

    def of(self, value: Any) -> Any:
        return str(UUID(bytes=value.encode("latin-1")))


class DecimalColumn:
    """Two's complement, the highest byte first. Arrow's decimals have 16 bytes, the lowest first."""

    def __init__(self, precision: int, scale: int, size: int | None) -> None:
        self.type = pa.decimal128(precision, scale)
        self._scale = scale
        self.width = size
        self._beyond = 10**precision

    def read(self, cursors: RowCursors) -> pa.Array:
        starts, sizes = _spans(cursors, self.width)
        # Longer ones may still be small numbers, so the other reader takes all that are near the bound.
        is_long = np.broadcast_to(np.asarray(sizes) > 16, len(cursors)).copy()
        width = np.where(is_long | cursors.failed, 0, sizes)
        cursors.fail_if(is_long)
        raw = self._extended(cursors, starts, width)
        low = raw[:, :8].copy().view("<u8").reshape(-1).astype(np.float64)
        high = raw[:, 8:].copy().view("<i8").reshape(-1).astype(np.float64)
        is_near = np.abs(high * 2.0**64 + low) >= self._beyond * (1 - 1e-9)
        if is_near.any():
            raw[is_near] = 0
            cursors.fail(is_near)
        return pa.Array.from_buffers(self.type, len(cursors), [None, pa.py_buffer(raw)])

    def _extended(self, cursors: RowCursors, starts: Numbers, width: Numbers) -> Numbers:
        """16 bytes a row, the lowest first, filled up with the sign."""
        column = np.arange(16)
        places = starts[:, None] + width[:, None] - 1 - column
        is_inside = column < width[:, None]
        raw = cursors.data[np.where(is_inside, places, cursors.zeros)]
        top = np.where(width > 0, cursors.data[np.where(width > 0, starts, cursors.zeros)], 0)
        fill = np.where(top > 0x7F, 0xFF, 0).astype(np.uint8)
        return np.ascontiguousarray(np.where(is_inside, raw, fill[:, None]))

    def skip(self, cursors: RowCursors) -> None:
        _skip(cursors, self.width)

    def of(self, value: Any) -> Any:
        number = int.from_bytes(value.encode("latin-1"), signed=True)
        if abs(number) >= self._beyond:
            raise PayloadError(f"a number does not fit {self.type}")
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -self._scale))


class JsonColumn:
    """A type that contains itself has no Arrow type: the column has the text of the value in Avro's JSON encoding."""

    type = pa.string()
    width = None

    def read(self, cursors: RowCursors) -> pa.Array:
        cursors.fail(np.ones(len(cursors), dtype=bool))
        return pa.array([""] * len(cursors), pa.string())

    def skip(self, cursors: RowCursors) -> None:
        cursors.fail(np.ones(len(cursors), dtype=bool))

    def of(self, value: Any) -> Any:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


PRIMITIVES: dict[str, Callable[[], Column]] = {
    "null": NullColumn,
    "boolean": BooleanColumn,
    "int": lambda: WholeColumn(32, pa.int32()),
    "long": lambda: WholeColumn(64, pa.int64()),
    "float": lambda: FloatColumn(4),
    "double": lambda: FloatColumn(8),
    "bytes": BytesColumn,
    "string": TextColumn,
}

LOGICAL: dict[str, Callable[[], Column]] = {
    "date": lambda: WholeColumn(32, pa.date32()),
    "time-millis": lambda: WholeColumn(32, pa.time32("ms"), _DAY_MS),
    "time-micros": lambda: WholeColumn(64, pa.time64("us"), _DAY_MS * 1000),
    "timestamp-millis": lambda: WholeColumn(64, pa.timestamp("ms", "UTC")),
    "timestamp-micros": lambda: WholeColumn(64, pa.timestamp("us", "UTC")),
    "timestamp-nanos": lambda: WholeColumn(64, pa.timestamp("ns", "UTC")),
    "local-timestamp-millis": lambda: WholeColumn(64, pa.timestamp("ms")),
    "local-timestamp-micros": lambda: WholeColumn(64, pa.timestamp("us")),
    "local-timestamp-nanos": lambda: WholeColumn(64, pa.timestamp("ns")),
}
