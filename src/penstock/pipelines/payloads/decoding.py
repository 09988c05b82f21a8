"""A batch of keys or values to one column, by a format. For tasks: blocks for a schema that is seen for the first time.

A row that has no value of the format has null in `values` and the reason in `errors`. A registry out of reach is an
exception that fails the task, because the rows may be good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.payloads.formats import PayloadFormat, PayloadKind
from penstock.pipelines.payloads.json_values import object_rows
from penstock.pipelines.payloads.writers import DecoderFinder, Writers, writers_of
from penstock.serdes.columns.decoding import decode_framed
from penstock.serdes.columns.payloads import places, read_frames
from penstock.serdes.errors import TooManyRowsError

_Result = TypeVar("_Result")

# The headers that name the schema of keys and of values, where the bytes do not.
KEY_SCHEMA_HEADER = "__key_schema_id"
VALUE_SCHEMA_HEADER = "__value_schema_id"


@dataclass(frozen=True, slots=True)
class Decoded:
    """As many as there were payloads."""

    # Of the decoder's type. Null where there is an error, and where the payload is null.
    values: pa.Array
    # Text, null where the row has a value or the payload is null (a tombstone is no error).
    errors: pa.Array
    # The id or the guid of the schema that the row names, as text, null where it names none.
    schemas: pa.Array


class PayloadDecoder(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    def decode(self, payloads: pa.Array, headers: pa.Array | None = None) -> Decoded:
        """`payloads` are binary; `headers` as records have them, a list of structs of key and value.

        Raises RegistryClientError where the registry does not answer or refuses the login, and TooManyRowsError where
        fewer rows are a batch, see `in_pieces`.
        """
        ...


def open_decoder(
    payload_format: PayloadFormat, *, is_key: bool, fields: frozenset[str] | None = None
) -> PayloadDecoder:
    """`fields`: the top-level fields that are wanted. The type has only those, in the schema's order; None means all.

    A field that is not wanted is not checked. A format that is no record has no fields, and its value as a whole.
    Raises UnusableSchemaError, ChoiceError.
    """
    match payload_format.kind:
        case PayloadKind.REGISTRY:
            return _RegistryDecoder(writers_of(payload_format, fields), is_key=is_key)
        case PayloadKind.JSON:
            return _JsonDecoder(payload_format.type, fields)
        case PayloadKind.TEXT:
            return _TextDecoder()
        case PayloadKind.BYTES:
            return _BytesDecoder()


class _RegistryDecoder:
    def __init__(self, writers: Writers, *, is_key: bool) -> None:
        self._writers = writers
        self._header = KEY_SCHEMA_HEADER if is_key else VALUE_SCHEMA_HEADER
        self.type: pa.DataType = writers.type

    def decode(self, payloads: pa.Array, headers: pa.Array | None = None) -> Decoded:
        named = None if headers is None else header_values(headers, self._header)
        with DecoderFinder(self._writers) as finding:
            columns = decode_framed(read_frames(payloads, named), finding.find, self.type)
        return Decoded(columns.values, _of_values(columns.errors, payloads), columns.schemas)


class _JsonDecoder:
    def __init__(self, kind: pa.DataType, fields: frozenset[str] | None) -> None:
        self._rows = object_rows(kind, fields)
        self.type: pa.DataType = self._rows.type

    def decode(self, payloads: pa.Array, headers: pa.Array | None = None) -> Decoded:
        decoded = self._rows.decode(places(payloads)[0])
        errors = _texts(decoded.errors, len(payloads))
        return Decoded(decoded.values, _of_values(errors, payloads), pa.nulls(len(payloads), pa.string()))


class _TextDecoder:
    type = pa.string()

    def decode(self, payloads: pa.Array, headers: pa.Array | None = None) -> Decoded:
        none = pa.nulls(len(payloads), pa.string())
        try:
            return Decoded(payloads.cast(pa.string()), none, none)
        except pa.ArrowInvalid:
            texts = [_text(each) for each in payloads.to_pylist()]
            values = pa.array(texts, pa.string())
            is_bad = pc.and_(values.is_null(), payloads.is_valid())
            return Decoded(values, pc.if_else(is_bad, "the bytes are no UTF-8 text", none), none)


class _BytesDecoder:
    type = pa.binary()

    def decode(self, payloads: pa.Array, headers: pa.Array | None = None) -> Decoded:
        none = pa.nulls(len(payloads), pa.string())
        return Decoded(payloads.cast(pa.binary()), none, none)


def in_pieces(count: int, decode: Callable[[int, int], _Result]) -> Iterator[_Result]:
    """Decodes the rows from one to before another: all at once, or in halves where they are too many for one column."""

    def of(start: int, end: int) -> Iterator[_Result]:
        try:
            made = decode(start, end)
        except TooManyRowsError:
            if end - start < 2:
                raise
            half = (start + end) // 2
            yield from of(start, half)
            yield from of(half, end)
        else:
            yield made

    return of(0, count)


def header_values(headers: pa.Array, name: str) -> pa.Array | None:
    """For each row the first header of the name, as other readers of payloads have it; None where no row has one."""
    flat = headers.flatten()
    found = np.flatnonzero(pc.equal(flat.field("key"), name).fill_null(False).to_numpy(zero_copy_only=False))
    if not len(found):
        return None
    rows = pc.list_parent_indices(headers).to_numpy()[found]
    place = np.full(len(headers), -1, dtype=np.int64)
    place[rows[::-1]] = found[::-1]  # of several the first one stays
    return flat.field("value").take(pa.array(place, mask=place < 0))


def _of_values(errors: pa.Array, payloads: pa.Array) -> pa.Array:
    """Without those of records that have no value."""
    return pc.if_else(payloads.is_valid(), errors, None) if payloads.null_count else errors


def _texts(errors: dict[int, str], count: int) -> pa.Array:
    texts: list[str | None] = [None] * count
    for row, text in errors.items():
        texts[row] = text
    return pa.array(texts, pa.string())


def _text(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None
