"""Writers of fields with their tags, and of messages, which are their fields in the order of their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from penstock.serdes.columns.encoding.numbers import numpy_of
from penstock.serdes.columns.encoding.pieces import Piece, grouped, joined, sizes_of, spread, varints
from penstock.serdes.columns.encoding.protobuf.values import sized, tag
from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.columns.encoding.writers import ColumnWriter, items_of, valid, write_required
from penstock.serdes.columns.payloads import Numbers

_SIZED = 2
_END = 4


class FieldWriter(Protocol):
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        """`values` may have nulls. An absent field has no bytes."""
        ...


@dataclass(frozen=True, slots=True)
class SingleWriter:
    """`has_presence`: null is an absent field. Without it null is refused, and zero is not written."""

    tag: bytes
    value: ColumnWriter
    has_presence: bool
    # The name of the enum's first value, where the field has one.
    zero: str | None = None

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        is_there = valid(values) if values.null_count else np.ones(len(values), dtype=bool)
        if not self.has_presence:
            refusals.note(~is_there, lambda _: "null, where the schema takes no null")
            is_there = is_there & ~_is_zero(values, self.zero)
        if is_there.all():
            return [self.tag, *self.value.write(values, refusals)]
        inner = Refusals()
        present = values.filter(pa.array(is_there))
        pieces = self.value.write(present, inner)
        refusals.take_at(inner, np.flatnonzero(is_there))
        return [spread(joined([self.tag, *pieces], len(present)), is_there)]


def _is_zero(values: pa.Array, zero: str | None) -> Numbers:
    """The values that a reader fills in for an absent field. Nulls may be either."""
    kind = values.type
    if zero is not None and kinds.is_string(kind):
        return numpy_of(pc.equal(values, zero).fill_null(False))
    if kinds.is_string(kind) or kinds.is_binary(kind):
        return numpy_of(pc.equal(pc.binary_length(values), 0).fill_null(False))
    if kinds.is_boolean(kind):
        return ~numpy_of(values.fill_null(False))
    if kinds.is_integer(kind):
        return np.equal(numpy_of(values.fill_null(0)), 0)
    if kinds.is_floating(kind):
        numbers = numpy_of(values.fill_null(0))
        return np.equal(numbers, 0) & ~np.signbit(numbers)
    return np.zeros(len(values), dtype=bool)


@dataclass(frozen=True, slots=True)
class RequiredWriter:
    """A required field of proto2."""

    tag: bytes
    value: ColumnWriter

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [self.tag, *write_required(self.value, values, refusals)]


@dataclass(frozen=True, slots=True)
class RepeatedWriter:
    """A list that is null is an empty one: Protobuf knows no difference."""

    number: int
    # Of each item; None where all items are in one piece of bytes.
    item_tag: bytes | None
    value: ColumnWriter

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        borders, items, which = _items(values)
        inner = Refusals()
        pieces = write_required(self.value, items, inner)
        _take_items(refusals, inner, borders, which)
        if self.item_tag is not None:
            return [_at(grouped(joined([self.item_tag, *pieces], len(items)), borders), which)]
        packed = grouped(joined(pieces, len(items)), borders)
        is_there = np.diff(borders) > 0
        heads = joined([tag(self.number, _SIZED), varints(sizes_of(packed)[is_there])], int(is_there.sum()))
        return [_at(spread(heads, is_there), which), _at(packed, which)]


@dataclass(frozen=True, slots=True)
class MapWriter:
    number: int
    key: tuple[bytes, ColumnWriter]
    value: tuple[bytes, ColumnWriter]

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        present, which = _present(values)
        borders, keys = items_of(present, present.keys)
        _, items = items_of(present, present.items)
        inner = Refusals()
        entry: list[Piece] = [self.key[0], *write_required(self.key[1], keys, inner)]
        entry += [self.value[0], *write_required(self.value[1], items, inner)]
        at = np.arange(len(values)) if which is None else np.flatnonzero(which)
        outer = Refusals()
        outer.take_items(inner, borders, lambda position, _: str(keys[position].as_py()))
        refusals.take_at(outer, at)
        entries = joined([tag(self.number, _SIZED), *sized(entry, len(keys))], len(keys))
        return [_at(grouped(entries, borders), which)]


def _present(values: pa.Array) -> tuple[pa.Array, Numbers | None]:
    if not values.null_count:
        return values, None
    is_there = valid(values)
    return values.filter(pa.array(is_there)), is_there


def _items(values: pa.Array) -> tuple[Numbers, pa.Array, Numbers | None]:
    present, which = _present(values)
    return *items_of(present, present.values), which


def _take_items(refusals: Refusals, inner: Refusals, borders: Numbers, which: Numbers | None) -> None:
    outer = Refusals()
    outer.take_items(inner, borders, lambda _, position: position)
    refusals.take_at(outer, np.arange(len(borders)) if which is None else np.flatnonzero(which))


def _at(found: pa.Array, which: Numbers | None) -> pa.Array:
    return found if which is None else spread(found, which)


@dataclass(frozen=True, slots=True)
class MessageWriter:
    """The fields alone. `choices`: columns of which at most one is set."""

    fields: Sequence[tuple[str, int, FieldWriter]]
    choices: Sequence[tuple[str, Sequence[int]]] = ()

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        pieces: list[Piece] = []
        for name, position, writer in self.fields:
            inner = Refusals()
            pieces += writer.write(values.field(position), inner)
            refusals.take(inner, name)
        for name, positions in self.choices:
            count = sum(valid(values.field(position)).astype(np.int64) for position in positions)
            self._refuse(name, np.asarray(count), refusals)
        return pieces or [b""]

    def _refuse(self, name: str, count: Numbers, refusals: Refusals) -> None:
        refusals.note(count > 1, lambda row: f"{count[row]} fields of the oneof {name} are set, where one may be")


@dataclass(frozen=True, slots=True)
class InnerWriter:
    """A message inside another: its size, then its fields."""

    message: ColumnWriter

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return sized(self.message.write(values, refusals), len(values))


@dataclass(frozen=True, slots=True)
class GroupWriter:
    """A message inside another, of proto2: its fields, then a tag that ends it."""

    number: int
    message: ColumnWriter

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [*self.message.write(values, refusals), tag(self.number, _END)]


@dataclass(frozen=True, slots=True)
class WrappedWriter:
    """A wrapper: a message with one field, which is the column's value."""

    field: FieldWriter

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return sized(self.field.write(values, refusals), len(values))
