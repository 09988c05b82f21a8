"""Fields of a message: each finds its values in all rows at once, and gives a column with a row for each.

Rows that have the field next read it; the others take what stands for nothing. A list is read in rounds, one value of
each row, or as many as a packed one has; then all values of all rows are made at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.serdes.columns.avro.lanes import Lanes, varints_at
from penstock.serdes.columns.decoding import scattered
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.columns.protobuf.scalars import Kind
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
# No row has it next. So rows that have the field's number fail, as they do when fields come in another order.
_NEVER = -2


class Field(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    @property
    def tag(self) -> int: ...

    @property
    def columns(self) -> int: ...

    def read(self, lanes: Lanes, tags: Numbers) -> pa.Array:
        """As many values as there are lanes; those of failed lanes mean nothing."""
        ...

    def of(self, value: Any) -> Any: ...


def _number_type(wire: int) -> type[np.unsignedinteger[Any]]:
    return np.uint32 if wire == FIXED32 else np.uint64


class SingleField:
    def __init__(self, kind: Kind, number: int, *, has_presence: bool, is_read: bool = True) -> None:
        self.type = kind.type
        self.tag = number << 3 | kind.wire if is_read else _NEVER
        self.columns = kind.columns
        self._kind = kind
        self._size = tag_size(number << 3)
        self._has_presence = has_presence
        self._is_nested = pa.types.is_struct(kind.type)

    def read(self, lanes: Lanes, tags: Numbers) -> pa.Array:
        has = tags == self.tag
        count = int(np.count_nonzero(has))
        if not count and self._has_presence:
            return pa.nulls(len(lanes), self.type)
        is_whole = count == len(lanes)
        if self._kind.wire != SPAN:
            found = self._kind.make(lanes, self._numbers(lanes, tags, None if is_whole else np.flatnonzero(has)))
        elif self._is_nested and self._has_presence and 2 * count < len(lanes):
            return self._read_few(lanes, tags, np.flatnonzero(has))
        else:
            inner = self._spans(lanes, tags, None if is_whole else np.flatnonzero(has))
            found = self._kind.make(inner, _NO_NUMBERS)
            if inner.failed.any():
                lanes.fail(inner.failed)
        return found if is_whole or not self._has_presence else _with_nulls(found, has)

    def _numbers(self, lanes: Lanes, tags: Numbers, which: Numbers | None) -> Numbers:
        if which is None:
            lanes.position += self._size
            found = read_numbers(lanes, self._kind.wire)
            tags[:] = read_tags(lanes)
            return found
        absent = self._kind.absent % (1 << 64)
        numbers: Numbers = np.full(len(lanes), absent, dtype=_number_type(self._kind.wire))
        if len(which):
            some = lanes.some(which)
            some.position += self._size
            numbers[which] = read_numbers(some, self._kind.wire)
            lanes.take_back(which, some)
            tags[which] = read_tags(some)
        return numbers

    def _spans(self, lanes: Lanes, tags: Numbers, which: Numbers | None) -> Lanes:
        """Lanes of what the field has; nothing in those that do not have it."""
        if which is None:
            lanes.position += self._size
            starts, ends = read_spans(lanes)
            tags[:] = read_tags(lanes)
        else:
            starts, ends = lanes.position.copy(), lanes.position.copy()
            if len(which):
                starts[which], ends[which] = _step_spans(lanes, tags, which, self._size)
        return Lanes(lanes.data, starts, ends, lanes.failed.copy(), lanes.zeros)

    def _read_few(self, lanes: Lanes, tags: Numbers, which: Numbers) -> pa.Array:
        starts, ends = _step_spans(lanes, tags, which, self._size)
        inner = Lanes(lanes.data, starts, ends, lanes.failed[which], lanes.zeros)
        found = self._kind.make(inner, _NO_NUMBERS)
        lanes.fail(which[inner.failed])
        return scattered(found, which, len(lanes))

    def of(self, value: Any) -> Any:
        return self._kind.of(value)


def _step_spans(lanes: Lanes, tags: Numbers, which: Numbers, size: int) -> tuple[Numbers, Numbers]:
    some = lanes.some(which)
    some.position += size
    found = read_spans(some)
    lanes.take_back(which, some)
    tags[which] = read_tags(some)
    return found


def _with_nulls(values: pa.Array, has: Numbers) -> pa.Array:
    """Values that were just made: without nulls, and from the beginning of their buffers."""
    validity = pa.py_buffer(np.packbits(has, bitorder="little"))
    if pa.types.is_struct(values.type):
        children = [values.field(number) for number in range(values.type.num_fields)]
        return pa.Array.from_buffers(values.type, len(values), [validity], children=children)
    return pa.Array.from_buffers(values.type, len(values), [validity, *values.buffers()[1:]])


class _Items:
    """What rounds over the lists of all lanes gave."""

    def __init__(self, kind: Kind, number: int, lanes: Lanes, tags: Numbers) -> None:
        self._kind = kind
        self._lanes = lanes
        self._tags = tags
        self._size = tag_size(number << 3)
        self._tag = number << 3 | kind.wire
        self._packed_tag = number << 3 | SPAN if kind.wire != SPAN else _NEVER
        self._owners: list[Numbers] = []
        # Numbers, or where values begin; and where they end.
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
                give_up(self._lanes, tags, active)
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
            starts, ends = _step_spans(self._lanes, self._tags, which, self._size)
            self._found.append(starts)
            self._ends.append(ends)
            return
        some = self._lanes.some(which)
        some.position += self._size
        self._found.append(read_numbers(some, self._kind.wire))
        self._lanes.take_back(which, some)
        self._tags[which] = read_tags(some)

    def _read_packed(self, which: Numbers) -> None:
        if not len(which):
            return
        starts, ends = _step_spans(self._lanes, self._tags, which, self._size)
        inner = Lanes(self._lanes.data, starts, ends, self._lanes.failed[which], self._lanes.zeros)
        owners, numbers = unpacked(inner, self._kind.wire)
        if inner.failed.any():
            give_up(self._lanes, self._tags, which[inner.failed])
        self._owners.append(which[owners])
        self._found.append(numbers)

    def _made(self) -> tuple[Numbers, pa.Array]:
        lanes = self._lanes
        offsets = np.zeros(len(lanes) + 1, dtype=np.int32)
        if not self._owners:
            return offsets, pa.array([], self._kind.type)
        order: Any = slice(None)
        owners = np.concatenate(self._owners)
        check_count(len(owners), self._kind.columns)
        if len(self._owners) > 1:
            order = np.argsort(owners, kind="stable")
            owners = owners[order]
        np.cumsum(np.bincount(owners, minlength=len(lanes)), out=offsets[1:])
        found = np.concatenate(self._found)[order]
        ends = np.concatenate(self._ends)[order] if self._ends else np.zeros(len(owners), dtype=np.int64)
        position = found if self._ends else np.zeros(len(owners), dtype=np.int64)
        inner = Lanes(lanes.data, position, ends, lanes.failed[owners], lanes.zeros)
        items = self._kind.make(inner, found)
        if inner.failed.any():
            give_up(lanes, self._tags, owners[inner.failed])
        return offsets, items


def unpacked(lanes: Lanes, wire: int) -> tuple[Numbers, Numbers]:
    """Numbers side by side, with the lane that each is of."""
    if wire != VARINT:
        size = 8 if wire == FIXED64 else 4
        lanes.fail_if((lanes.end - lanes.position) % size != 0)
        packed = lanes.cut(lanes.position, lanes.end - lanes.position)
        offsets, data = _buffers(packed)
        numbers = data[: offsets[-1]].view("<u8" if size == 8 else "<u4")
        return np.repeat(np.arange(len(lanes)), np.diff(offsets) // size), numbers
    # The last byte ends a number.
    lanes.fail_if((lanes.end > lanes.position) & (lanes.data[lanes.end - 1] > 0x7F))
    offsets, data = _buffers(lanes.cut(lanes.position, lanes.end - lanes.position))
    data = data[: offsets[-1]]
    last = np.flatnonzero(data < 0x80)
    counts = np.diff(np.searchsorted(last, offsets))
    owners = np.repeat(np.arange(len(lanes)), counts)
    if len(last) == len(data):
        return owners, data.astype(np.uint64)
    first = np.zeros(len(last), dtype=np.int64)
    first[1:] = last[:-1] + 1
    numbers, sizes = varints_at(lanes.data, first + (lanes.position - offsets[:-1])[owners])
    is_bad = sizes != last - first + 1
    if is_bad.any():
        lanes.fail(owners[is_bad])
    return owners, numbers


def _buffers(values: pa.Array) -> tuple[Numbers, Numbers]:
    _, offsets, data = values.buffers()
    empty = np.zeros(0, dtype=np.uint8)
    return np.frombuffer(offsets, dtype=np.int32)[: len(values) + 1], (
        np.frombuffer(data, dtype=np.uint8) if data is not None else empty
    )


class RepeatedField:
    def __init__(self, kind: Kind, number: int, *, is_read: bool = True) -> None:
        self.type = pa.list_(pa.field("element", kind.type, nullable=False))
        self.tag = number << 3 | kind.wire if is_read else _NEVER
        self.columns = kind.columns
        self._kind = kind
        self._number = number

    def read(self, lanes: Lanes, tags: Numbers) -> pa.Array:
        if self.tag == _NEVER:
            return pa.array([[]] * len(lanes), self.type)
        offsets, items = _Items(self._kind, self._number, lanes, tags).read()
        return pa.Array.from_buffers(self.type, len(lanes), [None, pa.py_buffer(offsets)], children=[items])

    def of(self, value: Any) -> Any:
        check_count(len(value), self.columns)
        return [self._kind.of(each) for each in value]


class MapField:
    """Entries are messages with a key and a value. Of a key that comes twice the last one holds: such rows fail."""

    def __init__(self, entry: Kind, fields: Sequence[Kind], number: int, *, is_read: bool = True) -> None:
        self._key, self._value = fields
        self.columns = entry.columns
        self._entry = entry
        self._number = number
        self.tag = number << 3 | SPAN if is_read else _NEVER
        self.type = pa.map_(self._key.type, pa.field("value", self._value.type, nullable=False))

    def read(self, lanes: Lanes, tags: Numbers) -> pa.Array:
        if self.tag == _NEVER:
            return pa.array([[]] * len(lanes), self.type)
        offsets, entries = _Items(self._entry, self._number, lanes, tags).read()
        children = [entries.field(0), entries.field(1)] if len(entries) else [pa.array([], self._key.type)]
        if not len(entries):
            children.append(pa.array([], self._value.type))
        else:
            self._fail_twins(lanes, tags, offsets, children[0])
        inner = pa.StructArray.from_arrays(children, fields=[self.type.key_field, self.type.item_field])
        return pa.Array.from_buffers(self.type, len(lanes), [None, pa.py_buffer(offsets)], children=[inner])

    def _fail_twins(self, lanes: Lanes, tags: Numbers, offsets: Numbers, keys: pa.Array) -> None:
        counts = np.diff(offsets)
        if counts.max() < 2:
            return
        encoded = keys.dictionary_encode()
        distinct = len(encoded.dictionary)
        both = np.repeat(np.arange(len(counts)), counts) * distinct + encoded.indices.to_numpy()
        both.sort()
        twins = both[1:][both[1:] == both[:-1]]
        if len(twins):
            give_up(lanes, tags, np.unique(twins // distinct))

    def of(self, value: Any) -> Any:
        return [(self._key.of(key), self._value.of(value[key])) for key in value]
