"""Writers of records, arrays, maps and unions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.encoding.numbers import whole
from penstock.serdes.columns.encoding.pieces import Piece, grouped, joined, spread, varints, zigzag
from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.columns.encoding.writers import (
    ColumnWriter,
    items_of,
    valid,
    write_column,
    write_present,
    write_required,
)
from penstock.serdes.columns.payloads import Numbers

_INT = (-(1 << 31), (1 << 31) - 1)
_LONG = (-(1 << 63), (1 << 63) - 1)


class Column(NamedTuple):
    """A field of a record: its column in the struct, and its writer. `takes_null`: the writer does."""

    name: str
    position: int
    writer: ColumnWriter
    takes_null: bool


class RecordWriter:
    """`parts`: the columns, and the constant bytes of fields without one."""

    def __init__(self, parts: Sequence[Column | bytes]) -> None:
        self._parts = parts

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        pieces: list[Piece] = []
        for part in self._parts:
            if isinstance(part, bytes):
                pieces.append(part)
                continue
            inner = Refusals()
            pieces += write_column(part.writer, values.field(part.position), inner, takes_null=part.takes_null)
            refusals.take(inner, part.name)
        return pieces or [b""]


def write_blocks(pieces: list[Piece], borders: Numbers) -> list[Piece]:
    """One block with all items, and no block for an empty list."""
    counts = np.diff(borders)
    is_there = counts > 0
    items = grouped(joined(pieces, int(borders[-1])), borders)
    sizes = varints(zigzag(counts[is_there]))
    return [sizes if is_there.all() else spread(sizes, is_there), items, b"\x00"]


class ArrayWriter:
    def __init__(self, item: ColumnWriter, *, takes_null: bool) -> None:
        self._item = item
        self._takes_null = takes_null

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        borders, items = items_of(values, values.values)
        inner = Refusals()
        pieces = write_column(self._item, items, inner, takes_null=self._takes_null)
        refusals.take_items(inner, borders, lambda _, position: position)
        return write_blocks(pieces, borders)


class MapWriter:
    def __init__(self, key: ColumnWriter, value: ColumnWriter, *, takes_null: bool) -> None:
        self._key = key
        self._value = value
        self._takes_null = takes_null

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        borders, keys = items_of(values, values.keys)
        _, items = items_of(values, values.items)
        inner = Refusals()
        pieces = write_required(self._key, keys, inner)
        pieces = pieces + write_column(self._value, items, inner, takes_null=self._takes_null)
        refusals.take_items(inner, borders, lambda at, _: str(keys[at].as_py()))
        return write_blocks(pieces, borders)


def _branches(positions: Numbers) -> pa.Array:
    return varints(zigzag(positions))


class NullableWriter:
    """A union of null and the column's type. `null`: its branch; without one, nulls are refused."""

    def __init__(self, inner: ColumnWriter, branch: int, null: int | None) -> None:
        self._inner = inner
        self._branch = branch
        self._null = null

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        if not values.null_count:
            return [single(self._branch), *self._inner.write(values, refusals)]
        if self._null is None:
            return [single(self._branch), *write_required(self._inner, values, refusals)]
        positions = np.where(valid(values), self._branch, self._null)
        return [_branches(positions), *write_present(self._inner, values, refusals)]


def single(branch: int) -> bytes:
    """The branch and its writer."""
    return bytes(_branches(np.array([branch]))[0].as_py())


class NullsWriter:
    """A column without any value, as null or in a union with null. `branch`: written for each row."""

    def __init__(self, branch: bytes = b"") -> None:
        self._branch = branch

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        if values.null_count < len(values):
            refusals.note(valid(values), lambda _: "a value, where the schema takes null alone")
        return [self._branch]


class WidenedWriter:
    """Whole numbers in a union of int and long: each is an int if it can be."""

    def __init__(self, int_branch: int, long_branch: int) -> None:
        self._int, self._long = int_branch, long_branch

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        numbers = whole(values, *_LONG, refusals)
        is_int = (numbers >= _INT[0]) & (numbers <= _INT[1])
        return [_branches(np.where(is_int, self._int, self._long)), varints(zigzag(numbers))]


class IndexedWriter:
    """A union whose inner writer writes the branch itself, and null."""

    def __init__(self, inner: ColumnWriter, null: int | None) -> None:
        self._inner = inner
        self._null = null

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        if not values.null_count or self._null is None:
            return write_required(self._inner, values, refusals)
        is_there = valid(values)
        nulls = spread(joined([single(self._null)], int((~is_there).sum())), ~is_there)
        return [nulls, *write_present(self._inner, values, refusals)]


class MembersWriter:
    """A union as a struct with a member for each branch but null, one of which is set: as our columns have it."""

    def __init__(self, members: Sequence[tuple[str, int, ColumnWriter]], null: int | None) -> None:
        self._members = members
        self._null = null

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        positions = np.full(len(values), -1 if self._null is None else self._null)
        count = np.zeros(len(values), dtype=np.int64)
        pieces: list[Piece] = []
        for column, (name, branch, writer) in enumerate(self._members):
            member = values.field(column)
            is_there = valid(member)
            count += is_there
            positions[is_there] = branch
            inner = Refusals()
            pieces += write_present(writer, member, inner)
            refusals.take(inner, name)
        is_bad = (count > 1) | (positions < 0)
        refusals.note(is_bad, lambda row: f"{count[row]} members of a union are set, where one has to be")
        return [_branches(np.where(is_bad, 0, positions)), *pieces]
