"""Values of JSON as columns of declared types. What does not fit its column is null there, and harms nothing else.

Text is taken as it is, and any other value as its JSON text; bytes are base64; dates and times are ISO 8601, those
without a zone in UTC. Spark's `from_json` does the same.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import types

from penstock.serdes.columns.json_objects import ObjectColumn, ObjectRows, Take


def object_rows(kind: pa.DataType, fields: frozenset[str] | None = None) -> ObjectRows:
    """Reads payloads that are objects with the fields of a struct. Any other payload is an error."""
    wanted = [each for each in kind if fields is None or each.name in fields]
    return ObjectRows([ObjectColumn(each.name, each.type, take_of(each.type)) for each in wanted], is_null_a_row=False)


def take_of(kind: pa.DataType) -> Take:
    """Converts a value that is not null; the result is null if it does not fit."""
    if types.is_struct(kind):
        return _struct(kind)
    if types.is_map(kind):
        take = _or_null(take_of(kind.item_type))
        return lambda value: [(key, take(each)) for key, each in value.items()] if isinstance(value, dict) else None
    if types.is_list(kind):
        take = _or_null(take_of(kind.value_type))
        return lambda value: [take(each) for each in value] if isinstance(value, list) else None
    if types.is_signed_integer(kind):
        return _whole(kind.bit_width)
    if types.is_decimal(kind):
        return _decimal(kind)
    if types.is_timestamp(kind):
        return _timestamp(is_local=kind.tz is None)
    return _TAKES.get(kind, lambda value: None)


def _or_null(take: Take) -> Take:
    return lambda value: None if value is None else take(value)


def _struct(kind: pa.DataType) -> Take:
    takes = [(each.name, _or_null(take_of(each.type))) for each in kind]

    def take(value: Any) -> Any:
        return {name: inner(value.get(name)) for name, inner in takes} if isinstance(value, dict) else None

    return take


def _whole(bits: int) -> Take:
    bound = 1 << bits - 1

    def take(value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return value if type(value) is int and -bound <= value < bound else None

    return take


def _number(value: Any) -> Any:
    if type(value) is not int and type(value) is not float:
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _decimal(kind: pa.DataType) -> Take:
    unit, beyond = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def take(value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        try:
            number = Decimal(str(value)).quantize(unit)
        except (InvalidOperation, ValueError):
            return None
        return number if number.is_finite() and abs(number) < beyond else None

    return take


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _boolean(value: Any) -> Any:
    return value if isinstance(value, bool) else None


def _binary(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        return None


def _iso(read: Callable[[str], Any]) -> Take:
    def take(value: Any) -> Any:
        try:
            return read(value) if isinstance(value, str) else None
        except ValueError:
            return None

    return take


def _timestamp(*, is_local: bool) -> Take:
    def read(text: str) -> datetime:
        found = datetime.fromisoformat(text)
        if is_local:
            return found.replace(tzinfo=None)
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    return _iso(read)


_TAKES: dict[pa.DataType, Take] = {
    pa.bool_(): _boolean,
    pa.float32(): _number,
    pa.float64(): _number,
    pa.string(): _text,
    pa.binary(): _binary,
    pa.date32(): _iso(date.fromisoformat),
}
