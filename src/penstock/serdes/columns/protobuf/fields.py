"""Fields of a message: each finds its values in all rows at once, and gives a column with a row for each.

Rows that have the field next read it; the others get the default. A list is read in rounds, one value of each row, or
as many as a packed one has; then all values of all rows are made at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.avro.row_cursors import RowCursors, varints_at
from penstock.serdes.columns.decoding import scattered
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.columns.protobuf.scalars import ScalarKind
from penstock.serdes.columns.protobuf.wire import (
    FEW_LANES,
    FIXED32,
    FIXED64,
    MANY_ROUNDS,
    SPAN,
    VARINT,
    check_count,
    give_up,
    read_numbers,
    read_spans,
    read_tags,
    tag_size,
)

_NO_NUMBERS = np.zeros(0, dtype=np.uint64)
# No row has this number next. So rows with the field's number fail, as they do when fields come in another order.
_NEVER = -2


class ProtobufField(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    @property
    def tag(self) -> int: ...

    @property
    def columns(self) -> int: ...

    def read(self, cursors: RowCursors, tags: Numbers) -> pa.Array:
        """As many values as there are lanes; those of failed lanes mean nothing."""
        ...

    def of(self, value: Any) -> Any: ...


def _number_type(wire: int) -> type[np.unsignedinteger[Any]]:
    return np.uint32 if wire == FIXED32 else np.uint64


class SingleField:
    def __init__(self, kind: ScalarKind, number: int, *, has_presence: bool, is_read: bool = True) -> None:
        self.type = kind.type
        self.tag = number << 3 | kind.wire if is_read else _NEVER
        self.columns = kind.columns
        self._kind = kind
        self._size = tag_size(number << 3)
        self._has_presence = has_presence
        self._is_nested = pa.types.is_struct(kind.type)

    def read(self, cursors: RowCursors, tags: Numbers) -> pa.Array:
        has = tags == self.tag
        count = int(np.count_nonzero(has))
        if not count and self._has_presence:
            return pa.nulls(len(cursors), self.type)
        is_whole = count == len(cursors)
        if self._kind.wire != SPAN:
            found = self._kind.make(cursors, self._numbers(cursors, tags, None if is_whole else np.flatnonzero(has)))
        elif self._is_nested and self._has_presence and 2 * count < len(cursors):
            return self._read_few(cursors, tags, np.flatnonzero(has))
        else:
            inner = self._spans(cursors, tags, None if is_whole else np.flatnonzero(has))
            found = self._kind.make(inner, _NO_NUMBERS)
            if inner.failed.any():
                cursors.fail(inner.failed)
        return found if is_whole or not self._has_presence else _with_nulls(found, has)

    def _numbers(self, cursors: RowCursors, tags: Numbers, which: Numbers | None) -> Numbers:
        if which is None:
            cursors.position += self._size
            found = read_numbers(cursors, self._kind.wire)
            tags[:] = read_tags(cursors)
            return found
        absent = self._kind.absent % (1 << 64)
        numbers: Numbers = np.full(len(cursors), absent, dtype=_number_type(self._kind.wire))
        if len(which):
            some = cursors.some(which)
            some.position += self._size
            numbers[which] = read_numbers(some, self._kind.wire)
            cursors.take_back(which, some)
            tags[which] = read_tags(some)
        return numbers

    def _spans(self, cursors: RowCursors, tags: Numbers, which: Numbers | None) -> RowCursors:
        """A lane for the field's bytes in each row; empty in rows without the field."""
        if which is None:
            cursors.position += self._size
            starts, ends = read_spans(cursors)
            tags[:] = read_tags(cursors)
        else:
            starts, ends = cursors.position.copy(), cursors.position.copy()
            if len(which):
                starts[which], ends[which] = _step_spans(cursors, tags, which, self._size)
        return RowCursors(cursors.data, starts, ends, cursors.failed.copy(), cursors.zeros)

    def _read_few(self, cursors: RowCursors, tags: Numbers, which: Numbers) -> pa.Array:
        starts, ends = _step_spans(cursors, tags, which, self._size)
        inner = RowCursors(cursors.data, starts, ends, cursors.failed[which], cursors.zeros)
        found = self._kind.make(inner, _NO_NUMBERS)
        cursors.fail(which[inner.failed])
        return scattered(found, which, len(cursors))

    def of(self, value: Any) -> Any:
        return self._kind.of(value)


def _step_spans(cursors: RowCursors, tags: Numbers, which: Numbers, size: int) -> tuple[Numbers, Numbers]:
    some = cursors.some(which)
    some.position += size
    found = read_spans(some)
    cursors.take_back(which, some)
    tags[which] = read_tags(some)
    return found


def _with_nulls(values: pa.Array, has: Numbers) -> pa.Array:
    """`values` are new: without nulls, and from the beginning of their buffers."""
    validity = pa.py_buffer(np.packbits(has, bitorder="little"))
    if pa.types.is_struct(values.type):
        children = [values.field(number) for number in range(values.type.num_fields)]
        return pa.Array.from_buffers(values.type, len(values), [validity], children=children)
    return pa.Array.from_buffers(values.type, len(values), [validity, *values.buffers()[1:]])


class _Items:
    """The items that rounds over the lists of all lanes find."""

    def __init__(self, kind: ScalarKind, number: int, cursors: RowCursors, tags: Numbers) -> None:
        self._kind = kind
        self._cursors = cursors
        self._tags = tags
        self._size = tag_size(number << 3)
        self._tag = number << 3 | kind.wire
        self._packed_tag = number << 3 | SPAN if kind.wire != SPAN else _NEVER
        self._owners: list[Numbers] = []
        # Numbers, or the starts of values; and the ends of values.
        self._found: list[Numbers] = []
        self._ends: list[Numbers] = []

    def read(self) -> tuple[Numbers, pa.Array]:
        """The offsets of the lists, and the items in the order of the lists."""
        tags = self._tags
        active = np.flatnonzero((tags == self._tag) | (tags == self._packed_tag))
        rounds = 0
        while len(active):
            rounds += 1
            if rounds > MANY_ROUNDS and len(active) < FEW_LANES:
                give_up(self._cursors, tags, active)
                break
            is_packed = tags[active] == self._packed_tag
            self._read_plain(active[~is_packed])
            self._read_packed(active[is_packed])
            now = tags[active]
            active = active[(now == self._tag) | (now == self._packed_tag)]
        return self._made()

    def _read_plain(self, which: Numbers) -> None:
        if not len(which):
            return
        self._owners.append(which)
        if self._kind.wire == SPAN:
            starts, ends = _step_spans(self._cursors, self._tags, which, self._size)
            self._found.append(starts)
            self._ends.append(ends)
            return
        some = self._cursors.some(which)
        some.position += self._size
        self._found.append(read_numbers(some, self._kind.wire))
        self._cursors.take_back(which, some)
        self._tags[which] = read_tags(some)

    def _read_packed(self, which: Numbers) -> None:
        if not len(which):
            return
        starts, ends = _step_spans(self._cursors, self._tags, which, self._size)
        inner = RowCursors(self._cursors.data, starts, ends, self._cursors.failed[which], self._cursors.zeros)
        owners, numbers = unpacked(inner, self._kind.wire)
        if inner.failed.any():
            give_up(self._cursors, self._tags, which[inner.failed])
        self._owners.append(which[owners])
        self._found.append(numbers)

    def _made(self) -> tuple[Numbers, pa.Array]:
        cursors = self._cursors
        offsets = np.zeros(len(cursors) + 1, dtype=np.int32)
        if not self._owners:
            return offsets, pa.array([], self._kind.type)
        order: Any = slice(None)
        owners = np.concatenate(self._owners)
        check_count(len(owners), self._kind.columns)
        if len(self._owners) > 1:
            order = np.argsort(owners, kind="stable")
            owners = owners[order]
        np.cumsum(np.bincount(owners, minlength=len(cursors)), out=offsets[1:])
        found = np.concatenate(self._found)[order]
        ends = np.concatenate(self._ends)[order] if self._ends else np.zeros(len(owners), dtype=np.int64)
        position = found if self._ends else np.zeros(len(owners), dtype=np.int64)
        inner = RowCursors(cursors.data, position, ends, cursors.failed[owners], cursors.zeros)
        items = self._kind.make(inner, found)
        if inner.failed.any():
            give_up(cursors, self._tags, owners[inner.failed])
        return offsets, items


def unpacked(cursors: RowCursors, wire: int) -> tuple[Numbers, Numbers]:
    """Numbers side by side, with the lane of each."""
    if wire != VARINT:
        size = 8 if wire == FIXED64 else 4
        cursors.fail_if((cursors.end - cursors.position) % size != 0)
        packed = cursors.cut(cursors.position, cursors.end - cursors.position)
        offsets, data = _buffers(packed)
        numbers = data[: offsets[-1]].view("<u8" if size == 8 else "<u4")
        return np.repeat(np.arange(len(cursors)), np.diff(offsets) // size), numbers
    # The last byte ends a number.
    cursors.fail_if((cursors.end > cursors.position) & (cursors.data[cursors.end - 1] > 0x7F))
    offsets, data = _buffers(cursors.cut(cursors.position, cursors.end - cursors.position))
    data = data[: offsets[-1]]
    last = np.flatnonzero(data < 0x80)
    counts = np.diff(np.searchsorted(last, offsets))
    owners = np.repeat(np.arange(len(cursors)), counts)
    if len(last) == len(data):
        return owners, data.astype(np.uint64)
    first = np.zeros(len(last), dtype=np.int64)
    first[1:] = last[:-1] + 1
    numbers, sizes = varints_at(cursors.data, first + (cursors.position - offsets[:-1])[owners])
    is_bad = sizes != last - first + 1
    if is_bad.any():
        cursors.fail(owners[is_bad])
    return owners, numbers


def _buffers(values: pa.Array) -> tuple[Numbers, Numbers]:
    _, offsets, data = values.buffers()
    empty = np.zeros(0, dtype=np.uint8)
    return np.frombuffer(offsets, dtype=np.int32)[: len(values) + 1], (
        np.frombuffer(data, dtype=np.uint8) if data is not None else empty
    )


class RepeatedField:
    def __init__(self, kind: ScalarKind, number: int, *, is_read: bool = True) -> None:
        self.type = pa.list_(pa.field("element", kind.type, nullable=False))
        self.tag = number << 3 | kind.wire if is_read else _NEVER
        self.columns = kind.columns
        self._kind = kind
        self._number = number

    def read(self, cursors: RowCursors, tags: Numbers) -> pa.Array:
        if self.tag == _NEVER:
            return pa.array([[]] * len(cursors), self.type)
        offsets, items = _Items(self._kind, self._number, cursors, tags).read()
        return pa.Array.from_buffers(self.type, len(cursors), [None, pa.py_buffer(offsets)], children=[items])

    def of(self, value: Any) -> Any:
        check_count(len(value), self.columns)
        return [self._kind.of(each) for each in value]


class MapField:
    """Entries are messages with a key and a value. Of two entries with one key the last one holds: such rows fail."""

    def __init__(self, entry: ScalarKind, fields: Sequence[ScalarKind], number: int, *, is_read: bool = True) -> None:
        self._key, self._value = fields
        self.columns = entry.columns
        self._entry = entry
        self._number = number
        self.tag = number << 3 | SPAN if is_read else _NEVER
        self.type = pa.map_(self._key.type, pa.field("value", self._value.type, nullable=False))

    def read(self, cursors: RowCursors, tags: Numbers) -> pa.Array:
        if self.tag == _NEVER:
            return pa.array([[]] * len(cursors), self.type)
        offsets, entries = _Items(self._entry, self._number, cursors, tags).read()
        children = [entries.field(0), entries.field(1)] if len(entries) else [pa.array([], self._key.type)]
        if not len(entries):
            children.append(pa.array([], self._value.type))
        else:
            self._fail_twins(cursors, tags, offsets, children[0])
        inner = pa.StructArray.from_arrays(children, fields=[self.type.key_field, self.type.item_field])
        return pa.Array.from_buffers(self.type, len(cursors), [None, pa.py_buffer(offsets)], children=[inner])

    def _fail_twins(self, cursors: RowCursors, tags: Numbers, offsets: Numbers, keys: pa.Array) -> None:
        counts = np.diff(offsets)
        if counts.max() < 2:
            return
        encoded = keys.dictionary_encode()
        distinct = len(encoded.dictionary)
        both = np.repeat(np.arange(len(counts)), counts) * distinct + encoded.indices.to_numpy()
        both.sort()
        twins = both[1:][both[1:] == both[:-1]]
        if len(twins):
            give_up(cursors, tags, np.unique(twins // distinct))

    def of(self, value: Any) -> Any:
        return [(self._key.of(key), self._value.of(value[key])) for key in value]
