"""Writers of single values, and of logical types that stand on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes.avro.from_json import Output, Write
from penstock.serdes.codec import MOST_BYTES
from penstock.serdes.columns.encoding.numbers import (
    floating,
    is_negative,
    needed,
    numpy_of,
    shown,
    ticks,
    unscaled,
    whole,
)
from penstock.serdes.columns.encoding.pieces import (
    Piece,
    little_endian,
    rows_of,
    rows_of_sizes,
    sizes_of,
    varints,
    zigzag,
)
from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.errors import PayloadError

_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"


class NullWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        refusals.note(np.ones(len(values), dtype=bool), lambda _: "a value, where the schema takes null alone")
        return [b""]


class BooleanWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [rows_of(numpy_of(values).astype(np.uint8).reshape(-1, 1))]


class WholeWriter:
    """int and long."""

    def __init__(self, bits: int) -> None:
        self._lowest, self._highest = -(1 << bits - 1), (1 << bits - 1) - 1

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [varints(zigzag(whole(values, self._lowest, self._highest, refusals)))]


class DateWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [varints(zigzag(numpy_of(values.cast(pa.int32()))))]


class TicksWriter:
    """Times and timestamps, in a unit."""

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [varints(zigzag(ticks(values, self._unit, refusals)))]


class FloatWriter:
    def __init__(self, size: int) -> None:
        self._size = size

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [little_endian(floating(values, self._size, refusals), f"<f{self._size}")]


class BytesWriter:
    """bytes and string: both begin with their number of bytes."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        data = values.cast(pa.binary())
        return [varints(zigzag(sizes_of(data))), data]


class FixedWriter:
    def __init__(self, size: int) -> None:
        self._size = size

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        data = values.cast(pa.binary())
        sizes = sizes_of(data)
        refusals.note(sizes != self._size, lambda row: f"{sizes[row]} bytes, where the schema takes {self._size}")
        return [data]


class UuidTextWriter(BytesWriter):
    """A uuid on a string. Other readers refuse a text that is none."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        refuse_other_than_uuid(values, refusals)
        return super().write(values, refusals)


class UuidFixedWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        refuse_other_than_uuid(values, refusals)
        bad = refusals.found
        found = [bytes(16) if row in bad else UUID(text).bytes for row, text in enumerate(values.to_pylist())]
        return [pa.array(found, pa.binary())]


def refuse_other_than_uuid(values: pa.Array, refusals: Refusals) -> None:
    is_uuid = numpy_of(pc.match_substring_regex(values, _UUID))
    text = shown(values)
    refusals.note(~is_uuid, lambda row: f"{text(row)!r} is no uuid")


class EnumWriter:
    def __init__(self, name: str, symbols: Sequence[str]) -> None:
        self._symbols = pa.array(symbols, pa.string())
        self._name = name

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        positions = numpy_of(pc.index_in(values, self._symbols).fill_null(-1))
        is_unknown = positions < 0
        text = shown(values)
        if refusals.note(is_unknown, lambda row: f"{text(row)!r} is no symbol of {self._name}"):
            positions = np.where(is_unknown, 0, positions)
        return [varints(zigzag(positions))]


class DecimalWriter:
    """Two's complement, the highest byte first: as few bytes as possible, or as many as a fixed has."""

    def __init__(self, precision: int, scale: int, size: int | None) -> None:
        self._precision, self._scale, self._size = precision, scale, size

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        matrix = unscaled(values, self._precision, self._scale, refusals)
        if self._size is None:
            is_kept = needed(matrix)
            return [varints(zigzag(is_kept.sum(axis=1))), rows_of_sizes(matrix, is_kept)]
        if self._size <= matrix.shape[1]:
            return [rows_of(matrix[:, matrix.shape[1] - self._size :])]
        fill = np.where(is_negative(matrix), 0xFF, 0).astype(np.uint8)
        return [rows_of(np.hstack([np.repeat(fill[:, None], self._size - matrix.shape[1], axis=1), matrix]))]


class JsonTextWriter:
    """A type that contains itself has no Arrow type: the column has the text of the value in Avro's JSON encoding."""

    def __init__(self, write: Write) -> None:
        self._write = write

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        found: list[bytes] = []
        for row, text in enumerate(values.to_pylist()):
            out = Output(MOST_BYTES)
            try:
                self._write(json.loads(text), out)
            except PayloadError as error:
                refusals.add(row, error)
            except (ValueError, RecursionError):
                refusals.add(row, PayloadError("the text is no JSON, or nests too deep"))
            found.append(bytes(out))
        return [pa.array(found, pa.binary())]
