"""Writers of JSON text, for each type that columns have."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes.columns.encoding.numbers import numpy_of, shown
from penstock.serdes.columns.encoding.pieces import Piece, grouped, joined, spread
from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.columns.encoding.texts import decimal_texts, texts_of
from penstock.serdes.columns.encoding.writers import (
    ColumnWriter,
    items_of,
    valid,
    write_column,
    write_present,
    write_required,
)
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import PayloadError

_ESCAPED = '["\\\\\x00-\x1f]'


class CastWriter:
    """Whole numbers and booleans, whose text Arrow writes."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [values.cast(pa.string()).cast(pa.binary())]


class FloatWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        text = shown(values)
        is_bad = ~np.isfinite(numpy_of(values))
        refusals.note(is_bad, lambda row: f"{text(row)}, which JSON has no number for")
        return [values.cast(pa.string()).cast(pa.binary())]


class DecimalWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [decimal_texts(values).cast(pa.binary())]


class TextWriter:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        is_escaped = pc.match_substring_regex(values, _ESCAPED)
        if pc.any(is_escaped).as_py():
            texts = [json.dumps(each, ensure_ascii=False)[1:-1] for each in values.filter(is_escaped).to_pylist()]
            values = pc.replace_with_mask(values, is_escaped, pa.array(texts, values.type))
        return [b'"', values.cast(pa.binary()), b'"']


class QuotedWriter:
    """Dates, times and decimals as text."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [b'"', texts_of(values).cast(pa.binary()), b'"']


class Base64Writer:
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        texts = [base64.b64encode(each) for each in values.to_pylist()]
        return [b'"', pa.array(texts, pa.binary()), b'"']


class RawWriter:
    """Text that is JSON already."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        for row, text in enumerate(values.to_pylist()):
            try:
                msgspec.json.decode(text)
            except (msgspec.MsgspecError, RecursionError):
                refusals.add(row, PayloadError("the text is no JSON, which a column of this schema has to be"))
        return [values.cast(pa.binary())]


class NullableWriter:
    def __init__(self, inner: ColumnWriter) -> None:
        self._inner = inner

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        if not values.null_count:
            return self._inner.write(values, refusals)
        return [*write_present(self._inner, values, refusals), _only(b"null", ~valid(values))]


class NullsWriter:
    """A column without any value."""

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        return [b"null"]


def _only(text: bytes, where: Numbers) -> Piece:
    if where.all():
        return text
    return spread(joined([text], int(where.sum())), where)


class Property(NamedTuple):
    name: str
    position: int
    writer: ColumnWriter
    # The writer writes null; without this, null is left out, unless the property is required.
    takes_null: bool
    is_required: bool


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    properties: Sequence[Property]

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        pieces: list[Piece] = [b"{"]
        has_before = np.zeros(len(values), dtype=bool)
        for each in self.properties:
            column = values.field(each.position)
            inner = Refusals()
            label = json.dumps(each.name, ensure_ascii=False).encode() + b":"
            is_there = np.ones(len(values), dtype=bool) if each.takes_null or not column.null_count else valid(column)
            if each.takes_null:
                written = each.writer.write(column, inner)
            elif each.is_required:
                written = write_required(each.writer, column, inner)
            else:
                written = write_present(each.writer, column, inner)
            has_comma = has_before & is_there
            if has_comma.any():
                pieces.append(_only(b",", has_comma))
            pieces += [_only(label, is_there), *written]
            refusals.take(inner, each.name)
            has_before = has_before | is_there
        return [*pieces, b"}"]


def _separated(pieces: list[Piece], borders: Numbers) -> pa.Array:
    """Items with commas between those of one list."""
    count = int(borders[-1])
    has_comma = np.ones(count, dtype=bool)
    has_comma[borders[1:][np.diff(borders) > 0] - 1] = False
    if has_comma.any():
        pieces = [*pieces, _only(b",", has_comma)]
    return grouped(joined(pieces, count), borders)


@dataclass(frozen=True, slots=True)
class ListWriter:
    item: ColumnWriter
    takes_null: bool

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        borders, items = items_of(values, values.values)
        inner = Refusals()
        pieces = write_column(self.item, items, inner, takes_null=self.takes_null)
        refusals.take_items(inner, borders, lambda _, position: position)
        return [b"[", _separated(pieces, borders), b"]"]


@dataclass(frozen=True, slots=True)
class MapWriter:
    value: ColumnWriter
    takes_null: bool

    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        borders, keys = items_of(values, values.keys)
        _, items = items_of(values, values.items)
        inner = Refusals()
        pieces = [*write_required(TextWriter(), keys, inner), b":"]
        pieces += write_column(self.value, items, inner, takes_null=self.takes_null)
        refusals.take_items(inner, borders, lambda at, _: str(keys[at].as_py()))
        return [b"{", _separated(pieces, borders), b"}"]
