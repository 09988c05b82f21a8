"""Writers of one Arrow type's values as one type of a schema, and the way of a batch of rows through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serdes.columns.encoding.field_matches import plain_type
from penstock.serdes.columns.encoding.numbers import numpy_of
from penstock.serdes.columns.encoding.pieces import Piece, TooManyBytesError, joined, spread
from penstock.serdes.columns.encoding.refusals import Refusals
from penstock.serdes.columns.encoding.rows import EncodedRows
from penstock.serdes.columns.payloads import Numbers
from penstock.serdes.errors import UnusableSchemaError

# Rows that are written at once: their numbers stay in the processor's cache.
_ROWS = 1 << 14
_NO_NULL = "null, where the schema takes no null"


class ColumnWriter(Protocol):
    def write(self, values: pa.Array, refusals: Refusals) -> list[Piece]:
        """`values` have no null. Refused values have pieces too, which mean nothing."""
        ...


def valid(values: pa.Array) -> Numbers:
    """Marks the values that are not null."""
    return numpy_of(values.is_valid())


def write_present(writer: ColumnWriter, values: pa.Array, refusals: Refusals) -> list[Piece]:
    """Pieces of the values that are there; nulls have no bytes."""
    if not values.null_count:
        return writer.write(values, refusals)
    is_there = valid(values)
    present = values.filter(pa.array(is_there))
    inner = Refusals()
    pieces = writer.write(present, inner)
    refusals.take_at(inner, np.flatnonzero(is_there))
    return [spread(joined(pieces, len(present)), is_there)]


def write_required(writer: ColumnWriter, values: pa.Array, refusals: Refusals) -> list[Piece]:
    """As `write_present`, and refuses nulls."""
    if values.null_count:
        refusals.note(~valid(values), lambda _: _NO_NULL)
    return write_present(writer, values, refusals)


def write_column(writer: ColumnWriter, values: pa.Array, refusals: Refusals, *, takes_null: bool) -> list[Piece]:
    if takes_null:
        return writer.write(values, refusals)
    return write_required(writer, values, refusals)


def items_of(values: pa.Array, items: pa.Array) -> tuple[Numbers, pa.Array]:
    """The start of each list's items, counted from the first, and the items. The lists have no nulls."""
    offsets = values.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets - offsets[0], items.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))


class Bound(NamedTuple):
    """The writer of the rows, and whether it takes null rows. Without a writer there are problems."""

    writer: ColumnWriter | None
    takes_null: bool
    problems: list[str]


class BoundRows:
    """Encodes batches of rows: keeps the writers of the last batch's type."""

    def __init__(self, bind: Callable[[pa.DataType], Bound]) -> None:
        self._bind = bind
        self._last: tuple[pa.DataType, Bound] | None = None

    def problems(self, kind: pa.DataType) -> list[str]:
        return self._bound(plain_type(kind)).problems

    def encode(self, values: pa.Array) -> EncodedRows:
        """Raises UnusableSchemaError."""
        kind = plain_type(values.type)
        bound = self._bound(kind)
        if bound.writer is None or bound.problems:
            raise UnusableSchemaError(f"the columns do not fit the schema: {'; '.join(bound.problems)}")
        if kind != values.type:
            values = values.cast(kind)
        parts: list[pa.Array] = []
        errors: dict[int, str] = {}
        for begin in range(0, len(values), _ROWS):
            encoded = _encode_block(bound.writer, values.slice(begin, _ROWS), takes_null=bound.takes_null)
            parts.append(encoded.payloads)
            errors.update({begin + row: text for row, text in encoded.errors.items()})
        return EncodedRows(pa.concat_arrays(parts) if parts else pa.array([], pa.binary()), errors)

    def _bound(self, kind: pa.DataType) -> Bound:
        last = self._last
        if last is None or last[0] != kind:
            self._last = last = (kind, self._bind(kind))
        return last[1]


def _encode_block(writer: ColumnWriter, values: pa.Array, *, takes_null: bool) -> EncodedRows:
    refusals = Refusals()
    try:
        payloads = joined(write_column(writer, values, refusals, takes_null=takes_null), len(values))
    except TooManyBytesError:
        return _halved(writer, values, takes_null=takes_null)
    if not refusals.found:
        return EncodedRows(payloads)
    is_good = np.ones(len(values), dtype=bool)
    is_good[list(refusals.found)] = False
    payloads = pc.if_else(pa.array(is_good), payloads, pa.scalar(None, pa.binary()))
    return EncodedRows(payloads, {row: str(refusals.found[row]) for row in sorted(refusals.found)})


def _halved(writer: ColumnWriter, values: pa.Array, *, takes_null: bool) -> EncodedRows:
    if len(values) == 1:
        return EncodedRows(pa.nulls(1, pa.binary()), {0: "the row takes more than 2 GiB"})
    half = len(values) // 2
    first = _encode_block(writer, values.slice(0, half), takes_null=takes_null)
    second = _encode_block(writer, values.slice(half), takes_null=takes_null)
    errors = first.errors | {half + row: text for row, text in second.errors.items()}
    return EncodedRows(pa.concat_arrays([first.payloads, second.payloads]), errors)
