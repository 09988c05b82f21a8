"""Columns of values that hold others: records, unions, arrays and maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes.columns.avro.row_cursors import RowCursors
from penstock.serdes.columns.avro.scalars import BytesColumn, Column, TextColumn
from penstock.serdes.columns.decoding import scattered
from penstock.serdes.columns.payloads import Numbers

# A round reads one item of each list. Once so many rounds were made and so few lists go on, single rows are quicker.
_MANY_ROUNDS = 32
# A round costs about as much as a hundred values read singly.
_FEW_LANES = 128


def struct_of(fields: list[pa.Field], columns: list[pa.Array], count: int, is_null: Numbers | None = None) -> pa.Array:
    if not fields:
        validity = None if is_null is None else pa.array(~is_null).buffers()[1]
        return pa.Array.from_buffers(pa.struct([]), count, [validity])
    mask = None if is_null is None else pa.array(is_null)
    return pa.StructArray.from_arrays(columns, fields=fields, mask=mask)


class RecordColumn:
    """`wanted`: the fields that the column has. Fields after the last of them are not even skipped."""

    def __init__(self, fields: Sequence[tuple[str, Column, bool]], wanted: frozenset[str] | None = None) -> None:
        self._wanted = [each for each in fields if wanted is None or each[0] in wanted]
        self._fields = [pa.field(name, column.type, nullable) for name, column, nullable in self._wanted]
        self.type = pa.struct(self._fields)
        self._columns = [column for _, column, _ in fields]
        self.width = _width(self._columns)
        self._steps = _steps([(column, wanted is None or name in wanted) for name, column, _ in fields])
        # Whether the values end where the record ends.
        self.is_whole = wanted is None or bool(fields and fields[-1][0] in wanted)

    def read(self, cursors: RowCursors) -> pa.Array:
        columns = []
        for column, is_wanted in self._steps:
            if is_wanted:
                columns.append(column.read(cursors))
            else:
                column.skip(cursors)
        return struct_of(self._fields, columns, len(cursors))

    def skip(self, cursors: RowCursors) -> None:
        if self.width is not None:
            cursors.skip(self.width)
            return
        for column in self._columns:
            column.skip(cursors)

    def of(self, value: Any) -> Any:
        return {name: column.of(value[name]) for name, column, _ in self._wanted}


def _width(columns: Sequence[Column]) -> int | None:
    widths = [column.width for column in columns]
    return None if None in widths else sum(each or 0 for each in widths)


def _steps(columns: Sequence[tuple[Column, bool]]) -> list[tuple[Column, bool]]:
    """The fields to read and those to skip, up to the last wanted one; neighbours of known sizes are skipped at
    once.
    """
    steps: list[tuple[Column, bool]] = []
    last = max((number for number, (_, is_wanted) in enumerate(columns) if is_wanted), default=-1)
    for column, is_wanted in columns[: last + 1]:
        before = steps[-1][0].width if steps and not steps[-1][1] else None
        if not is_wanted and column.width is not None and before is not None:
            steps[-1] = BytesColumn(before + column.width), False
        else:
            steps.append((column, is_wanted))
    return steps


class ProjectedColumn:
    """Some fields of a struct whose values are no records: of a union's."""

    width = None

    def __init__(self, inner: Column, wanted: frozenset[str]) -> None:
        self._inner = inner
        self._fields = [each for each in inner.type if each.name in wanted]
        self.type = pa.struct(self._fields)

    def read(self, cursors: RowCursors) -> pa.Array:
        found = self._inner.read(cursors)
        is_null = found.is_null().to_numpy(zero_copy_only=False)
        return struct_of(self._fields, [found.field(each.name) for each in self._fields], len(cursors), is_null)

    def skip(self, cursors: RowCursors) -> None:
        self._inner.skip(cursors)

    def of(self, value: Any) -> Any:
        found = self._inner.of(value)
        return None if found is None else {each.name: found.get(each.name) for each in self._fields}


def _branches(cursors: RowCursors, count: int) -> Numbers:
    """The branch of each lane, -1 for failed ones."""
    index = cursors.longs()
    cursors.fail_if((index < 0) | (index >= count))
    index[cursors.failed] = -1
    return index


def _read_some(column: Column, cursors: RowCursors, which: Numbers) -> pa.Array:
    """The values of some lanes, and null for the others."""
    if len(which) == len(cursors):
        return column.read(cursors)
    if not len(which):
        return pa.nulls(len(cursors), column.type)
    some = cursors.some(which)
    found = column.read(some)
    cursors.take_back(which, some)
    return scattered(found, which, len(cursors))


def _skip_some(column: Column, cursors: RowCursors, which: Numbers) -> None:
    if len(which) == len(cursors):
        column.skip(cursors)
    elif len(which):
        some = cursors.some(which)
        column.skip(some)
        cursors.take_back(which, some)


def _skip_branches(cursors: RowCursors, branches: Sequence[Column | None]) -> None:
    index = _branches(cursors, len(branches))
    for position, column in enumerate(branches):
        if column is not None and column.width != 0:
            _skip_some(column, cursors, np.flatnonzero(index == position))


class NullableColumn:
    """A union of null and one other type, and a union of one type alone."""

    width = None

    def __init__(self, inner: Column, position: int, count: int) -> None:
        self._inner = inner
        self._position = position
        self._count = count
        self.type = inner.type

    def read(self, cursors: RowCursors) -> pa.Array:
        return _read_some(self._inner, cursors, np.flatnonzero(_branches(cursors, self._count) == self._position))

    def skip(self, cursors: RowCursors) -> None:
        _skip_some(self._inner, cursors, np.flatnonzero(_branches(cursors, self._count) == self._position))

    def of(self, value: Any) -> Any:
        return None if value is None else self._inner.of(next(iter(value.values())))


class WidenedColumn:
    """int and long, or float and double, with or without null: the wider of the two."""

    width = None

    def __init__(self, branches: Sequence[Column | None], kind: pa.DataType) -> None:
        self._branches = branches
        self.type = kind

    def read(self, cursors: RowCursors) -> pa.Array:
        index = _branches(cursors, len(self._branches))
        columns = [
            _read_some(column, cursors, np.flatnonzero(index == position)).cast(self.type)
            for position, column in enumerate(self._branches)
            if column is not None
        ]
        return pc.coalesce(*columns)

    def skip(self, cursors: RowCursors) -> None:
        _skip_branches(cursors, self._branches)

    def of(self, value: Any) -> Any:
        if value is None:
            return None
        inner = next(iter(value.values()))
        return float(inner) if self.type == pa.float64() else inner


class UnionColumn:
    """Any other union: a struct with a field for each branch but null, of which one has the value, as in Spark."""

    width = None

    def __init__(self, branches: Sequence[tuple[str, Column | None]]) -> None:
        self._branches = branches
        self._members = {
            name: (f"member{number}", column)
            for number, (name, column) in enumerate((name, column) for name, column in branches if column is not None)
        }
        self._fields = [pa.field(member, column.type) for member, column in self._members.values()]
        self.type = pa.struct(self._fields)

    def read(self, cursors: RowCursors) -> pa.Array:
        index = _branches(cursors, len(self._branches))
        is_null = index < 0
        columns = []
        for position, (_, column) in enumerate(self._branches):
            if column is None:
                is_null |= index == position
            else:
                columns.append(_read_some(column, cursors, np.flatnonzero(index == position)))
        return struct_of(self._fields, columns, len(cursors), is_null)

    def skip(self, cursors: RowCursors) -> None:
        _skip_branches(cursors, [column for _, column in self._branches])

    def of(self, value: Any) -> Any:
        if value is None:
            return None
        name, inner = next(iter(value.items()))
        member, column = self._members[name]
        return {member: column.of(inner)}


class _Items:
    """The items that rounds over the lists of all lanes find."""

    def __init__(self, cursors: RowCursors, columns: Sequence[Column], *, are_empty: bool = False) -> None:
        """`are_empty`: items take no bytes."""
        self._cursors = cursors
        self._columns = columns
        self._are_empty = are_empty
        self._counts = np.zeros(len(cursors), dtype=np.int64)
        self._owners: list[Numbers] = []
        self._pieces: list[list[pa.Array]] = [[] for _ in columns]

    def read(self) -> tuple[Numbers, list[pa.Array]]:
        """The offsets of the lists, and the items of each column in the order of the lists."""
        self._go_round(self._read_round, self._begin_blocks)
        return self._ordered()

    def skip(self) -> None:
        self._go_round(self._skip_round, self._skip_blocks)

    def _go_round(self, go: Callable[[Numbers], None], begin: Callable[[Numbers, Numbers], None]) -> None:
        cursors = self._cursors
        rounds = 0
        left = np.zeros(len(cursors), dtype=np.int64)
        active = np.flatnonzero(~cursors.failed)
        while len(active):
            begin(active[left[active] == 0], left)
            active = active[left[active] > 0]
            if rounds >= _MANY_ROUNDS and len(active) < _FEW_LANES:
                cursors.fail(active)
                break
            if len(active):
                go(active)
                rounds += 1
                left[active] -= 1
                active = active[~cursors.failed[active]]

    def _begin_blocks(self, which: Numbers, left: Numbers) -> None:
        """Reads how many items follow. The size of the block follows a negative count."""
        if not len(which):
            return
        cursors = self._cursors.some(which)
        count = cursors.longs()
        sized = np.flatnonzero(count < 0)
        if len(sized):
            count[sized] = -count[sized]
            some = cursors.some(sized)
            some.longs()
            cursors.take_back(sized, some)
        # Each item takes a byte at least. Items that take none are counted, and limited, by the other reader.
        most = 0 if self._are_empty else cursors.end - cursors.position
        cursors.fail_if((count < 0) | (count > most) | cursors.failed, count)
        self._cursors.take_back(which, cursors)
        left[which] = count

    def _skip_blocks(self, which: Numbers, left: Numbers) -> None:
        """The same, but passes a block with a size at once. Another block follows it."""
        for _ in range(_MANY_ROUNDS):
            if not len(which):
                return
            cursors = self._cursors.some(which)
            count = cursors.longs()
            sized = np.flatnonzero(count < 0)
            if len(sized):
                some = cursors.some(sized)
                some.skip_spans()
                cursors.take_back(sized, some)
                count[sized] = 0
            most = 0 if self._are_empty else cursors.end - cursors.position
            cursors.fail_if((count > most) | cursors.failed, count)
            self._cursors.take_back(which, cursors)
            left[which] = count
            which = which[sized]
            which = which[~self._cursors.failed[which]]
        self._cursors.fail(which)

    def _skip_round(self, active: Numbers) -> None:
        some = self._cursors.some(active)
        for column in self._columns:
            column.skip(some)
        self._cursors.take_back(active, some)

    def _read_round(self, active: Numbers) -> None:
        some = self._cursors.some(active)
        for column, pieces in zip(self._columns, self._pieces, strict=True):
            pieces.append(column.read(some))
        self._cursors.take_back(active, some)
        self._owners.append(active)
        self._counts[active] += 1

    def _ordered(self) -> tuple[Numbers, list[pa.Array]]:
        offsets = np.zeros(len(self._counts) + 1, dtype=np.int32)
        np.cumsum(self._counts, out=offsets[1:])
        if not self._owners:
            return offsets, [pa.array([], column.type) for column in self._columns]
        order = np.empty(int(offsets[-1]), dtype=np.int64)
        begin = 0
        for number, owners in enumerate(self._owners):  # no lane misses a round before its last
            order[offsets[owners] + number] = np.arange(begin, begin + len(owners))
            begin += len(owners)
        indexes = pa.array(order)
        return offsets, [pa.concat_arrays(pieces).take(indexes) for pieces in self._pieces]


class ArrayColumn:
    width = None

    def __init__(self, item: Column, *, nullable: bool, is_empty: bool) -> None:
        self._item = item
        self._is_empty = is_empty
        self.type = pa.list_(pa.field("element", item.type, nullable))

    def read(self, cursors: RowCursors) -> pa.Array:
        offsets, (items,) = _Items(cursors, [self._item], are_empty=self._is_empty).read()
        return pa.Array.from_buffers(self.type, len(cursors), [None, pa.py_buffer(offsets)], children=[items])

    def skip(self, cursors: RowCursors) -> None:
        _Items(cursors, [self._item], are_empty=self._is_empty).skip()

    def of(self, value: Any) -> Any:
        return [self._item.of(each) for each in value]


class MapColumn:
    """Of two entries with one key the last value counts, as for readers that make a dictionary of the map."""

    width = None

    def __init__(self, values: Column, *, nullable: bool) -> None:
        self._keys = TextColumn()
        self._values = values
        self.type = pa.map_(pa.string(), pa.field("value", values.type, nullable))

    def read(self, cursors: RowCursors) -> pa.Array:
        offsets, (keys, values) = _Items(cursors, [self._keys, self._values]).read()
        offsets, keys, values = _without_repeated(offsets, keys, values)
        entries = pa.StructArray.from_arrays([keys, values], fields=[self.type.key_field, self.type.item_field])
        return pa.Array.from_buffers(self.type, len(cursors), [None, pa.py_buffer(offsets)], children=[entries])

    def skip(self, cursors: RowCursors) -> None:
        _Items(cursors, [self._keys, self._values]).skip()

    def of(self, value: Any) -> Any:
        return [(key, self._values.of(each)) for key, each in value.items()]


def _without_repeated(offsets: Numbers, keys: pa.Array, values: pa.Array) -> tuple[Numbers, pa.Array, pa.Array]:
    """Maps with each key once: at its first place, with its last value."""
    counts = np.diff(offsets)
    if not len(counts) or counts.max() < 2:
        return offsets, keys, values
    encoded = keys.dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    owners = np.repeat(np.arange(len(counts)), counts)
    entry = owners * len(encoded.dictionary) + codes
    distinct, first = np.unique(entry, return_index=True)
    if len(distinct) == len(entry):
        return offsets, keys, values
    last = len(entry) - 1 - np.unique(entry[::-1], return_index=True)[1]
    order = np.argsort(first)
    kept = np.zeros(len(offsets), dtype=np.int32)
    np.cumsum(np.bincount(owners[first], minlength=len(counts)), out=kept[1:])
    return kept, keys.take(pa.array(first[order])), values.take(pa.array(last[order]))
