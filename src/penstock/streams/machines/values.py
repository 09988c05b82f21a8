"""JSON text, as Spark writes and reads it, and Python's objects.

What JSON has no type for is text there: a time as 2026-11-17T09:00:00.000000Z, a date as 2026-11-17, bytes in base64, a
decimal as its digits, a float that is no number as "NaN" or "Infinity". `ValueReader` knows the types and makes
datetimes, dates, bytes, Decimals and floats of them. Times are in UTC.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Converter = Callable[[Any], Any]


class ValueReader:
    """Reads text of one type. `kind` is the result of DataType.jsonValue()."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._convert = _converter(kind)
        self._loads = json.JSONDecoder(parse_float=Decimal).decode if _has_decimal(kind) else json.loads

    def __reduce__(self) -> Any:
        return (ValueReader, (self._kind,))

    def __call__(self, text: str) -> Any:
        found = self._loads(text)
        return found if self._convert is None or found is None else self._convert(found)


def write(value: Any) -> str:
    """JSON in one line. NaN and infinities are written as Spark reads them."""
    return json.dumps(value, default=_written, separators=(",", ":"), ensure_ascii=False)


def _written(value: Any) -> Any:
    match value:
        case datetime():
            # Not by strftime, which writes the year 1 as "1". Without a zone it is a timestamp_ntz, or in UTC.
            if value.tzinfo is None:
                return value.isoformat(timespec="microseconds")
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case set() | frozenset():
            return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} cannot be written as a column: {value!r}")


def _converter(kind: Any) -> Converter | None:
    """None: what JSON gives is right."""
    if isinstance(kind, str):
        return Decimal if kind.startswith("decimal") else _BY_NAME.get(kind)
    match kind["type"]:
        case "struct":
            return _struct_converter(kind["fields"])
        case "array":
            return _array_converter(_converter(kind["elementType"]))
        case "map":
            return _map_converter(_converter(kind["valueType"]))
    return None


def _struct_converter(fields: list[Mapping[str, Any]]) -> Converter | None:
    converters = [(field["name"], _converter(field["type"])) for field in fields]
    needed = [(name, convert) for name, convert in converters if convert is not None]
    if not needed:
        return None

    def convert(struct: dict[str, Any]) -> dict[str, Any]:
        for name, each in needed:
            if struct.get(name) is not None:
                struct[name] = each(struct[name])
        return struct

    return convert


def _array_converter(each: Converter | None) -> Converter | None:
    if each is None:
        return None
    return lambda values: [None if value is None else each(value) for value in values]


def _map_converter(each: Converter | None) -> Converter | None:
    if each is None:
        return None
    return lambda values: {key: None if value is None else each(value) for key, value in values.items()}


def _has_decimal(kind: Any) -> bool:
    return "decimal" in json.dumps(kind)


def _moment(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


_BY_NAME: dict[str, Converter] = {
    "timestamp": _moment,
    "timestamp_ntz": datetime.fromisoformat,
    "date": date.fromisoformat,
    "binary": base64.b64decode,
    "double": float,
    "float": float,
}
