"""From payloads that are JSON objects to a struct: all rows the quick way, and those that do not fit it one by one.

The quick way lets msgspec make only the wanted values, of the types that they should have. `take` looks again at a
value that msgspec refuses (1.0 for a whole number, a value of another type, text that is no JSON): it converts the
value or knows the reason of the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from penstock.serdes.columns.decoding import DecodedRows
from penstock.serdes.columns.payloads import Payloads
from penstock.serdes.errors import PayloadError

# Converts a value that is not null for a column. Raises PayloadError.
Take = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ObjectColumn:
    name: str
    type: pa.DataType
    take: Take
    # Whether `take` converts any value, so that its type does not limit the values that it takes.
    is_any: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether msgspec either gives the same as `take`, or refuses."""
        return self.type in _QUICK and not self.is_any


_QUICK: dict[pa.DataType, Any] = {pa.bool_(): bool, pa.int64(): int, pa.float64(): float, pa.string(): str}
# Rows that are read at once. Those of a whole batch would outlive several rounds of Python's garbage collector, which
# then looks at all of them again.
_ROWS = 1 << 12
NO_JSON = "the payload is no JSON"
_SURROGATES = "a string has half of a surrogate pair, which no UTF-8 text can have"


def parsed(payload: bytes) -> Any:
    """Raises PayloadError."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise PayloadError(NO_JSON) from None


class ObjectRows:
    """`is_null_a_row`: a payload that is the JSON null is a row of null, else it is an error."""

    def __init__(self, columns: Sequence[ObjectColumn], *, is_null_a_row: bool) -> None:
        self._columns = columns
        self._fields = [pa.field(each.name, each.type) for each in columns]
        self.type: pa.DataType = pa.struct(self._fields)
        self._is_null_a_row = is_null_a_row

    def _decoder(self) -> Callable[[bytes], Any] | None:
        """A type of objects with the wanted values, in their order. None where msgspec cannot look for a name: one with
        a quote, a backslash or a control character.
        """
        names = [f"f{number}" for number in range(len(self._columns))]
        kinds = [_QUICK[each.type] | None if each.is_plain else Any for each in self._columns]
        try:
            row = msgspec.defstruct(
                "Row",
                [(name, kind, None) for name, kind in zip(names, kinds, strict=True)],
                rename=dict(zip(names, (each.name for each in self._columns), strict=True)),
                gc=False,
            )
        except ValueError:
            return None
        return msgspec.json.Decoder(row).decode

    def decode(self, payloads: Payloads) -> DecodedRows:
        decode = self._decoder()
        errors: dict[int, str] = {}
        found = [pa.array([], self.type)]
        for begin in range(0, len(payloads), _ROWS):
            decoded = self._decode(payloads.rows(np.arange(begin, min(begin + _ROWS, len(payloads)))), decode)
            found.append(decoded.values)
            errors.update({begin + row: text for row, text in decoded.errors.items()})
        return DecodedRows(pa.concat_arrays(found), errors)

    def _decode(self, payloads: Payloads, decode: Callable[[bytes], Any] | None) -> DecodedRows:
        errors: dict[int, str] = {}
        if decode is None:
            rows = [self._row(number, payload, errors) for number, payload in enumerate(payloads.pieces())]
        else:
            rows = self._quick_rows(payloads, decode, errors)
        try:
            return DecodedRows(self._struct(rows), errors)
        except (pa.ArrowException, ValueError, OverflowError):
            return self._singly(payloads, errors)

    def _quick_rows(self, payloads: Payloads, decode: Callable[[bytes], Any], errors: dict[int, str]) -> list[Any]:
        astuple = msgspec.structs.astuple
        takes = [(place, each.take) for place, each in enumerate(self._columns) if not each.is_plain]
        rows: list[Any] = []
        for number, payload in enumerate(payloads.pieces()):
            try:
                row: Any = astuple(decode(payload))
                if takes:
                    row = list(row)
                    for place, take in takes:
                        if row[place] is not None:
                            row[place] = take(row[place])
            except (PayloadError, msgspec.MsgspecError, ValueError, RecursionError):
                row = self._row(number, payload, errors)
            rows.append(row)
        return rows

    def _row(self, number: int, payload: bytes, errors: dict[int, str]) -> list[Any] | None:
        try:
            value = parsed(payload)
            if value is None and self._is_null_a_row:
                return None
            return self.take(value)
        except PayloadError as error:
            errors[number] = str(error)
            return None

    def take(self, value: Any) -> list[Any]:
        """Of a value of JSON that is not null. Raises PayloadError."""
        if not isinstance(value, dict):
            raise PayloadError(f"expected an object, not {type(value).__name__}")
        found = []
        for each in self._columns:
            inner = value.get(each.name)
            try:
                found.append(None if inner is None else each.take(inner))
            except PayloadError as error:
                raise error.inside(each.name) from None
        return found

    def _struct(self, rows: list[Any]) -> pa.Array:
        is_null = np.fromiter((row is None for row in rows), dtype=bool, count=len(rows))
        if is_null.any():
            empty = (None,) * len(self._columns)
            rows = [empty if row is None else row for row in rows]
        if not self._fields:
            return pa.Array.from_buffers(self.type, len(rows), [pa.array(~is_null).buffers()[1]])
        columns = zip(*rows, strict=True) if rows else [() for _ in self._fields]
        arrays = [pa.array(list(values), each.type) for values, each in zip(columns, self._fields, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=self._fields, mask=pa.array(is_null))

    def _singly(self, payloads: Payloads, errors: dict[int, str]) -> DecodedRows:
        """Some value is one that Arrow cannot hold."""
        found = [pa.array([], self.type)]
        for number, payload in enumerate(payloads.pieces()):
            row = None if number in errors else self._row(number, payload, errors)
            try:
                found.append(self._struct([row]))
            except (pa.ArrowException, ValueError, OverflowError):
                errors[number] = _SURROGATES
                found.append(pa.nulls(1, self.type))
        return DecodedRows(pa.concat_arrays(found), errors)


class ValueRows:
    """Payloads that are any other values."""

    def __init__(self, kind: pa.DataType, take: Take) -> None:
        self.type = kind
        self._take = take

    def decode(self, payloads: Payloads) -> DecodedRows:
        values: list[Any] = []
        errors: dict[int, str] = {}
        for number, payload in enumerate(payloads.pieces()):
            try:
                value = parsed(payload)
                values.append(None if value is None else self._take(value))
            except PayloadError as error:
                errors[number] = str(error)
                values.append(None)
        try:
            return DecodedRows(pa.array(values, self.type), errors)
        except (pa.ArrowException, ValueError, OverflowError):
            return DecodedRows(pa.concat_arrays(self._singly(values, errors)), errors)

    def _singly(self, values: list[Any], errors: dict[int, str]) -> list[pa.Array]:
        found = [pa.array([], self.type)]
        for number, value in enumerate(values):
            try:
                found.append(pa.array([value], self.type))
            except (pa.ArrowException, ValueError, OverflowError):
                errors[number] = _SURROGATES
                found.append(pa.nulls(1, self.type))
        return found
