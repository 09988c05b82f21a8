"""Values of Arrow's types as JSON has them, and as a person reads them in a table. Pure.

Timestamps are ISO 8601, bytes base64, decimals text (a reader's float would round them), maps objects, and numbers that
JSON does not have ("NaN", "Infinity") text. A table shows bytes as text where they are text, nested values as JSON, and
nothing that a terminal would take for a command.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.core.words.visible_text import one_line

if TYPE_CHECKING:
    import pyarrow as pa

Convert: TypeAlias = Callable[[Any], Any]

NULL = "NULL"
_ZEROS = re.compile(r"(?<=\.\d{3})000(?=Z?$)")


def json_columns(batch: pa.RecordBatch) -> list[list[Any]]:
    """Column by column, values that `json.dumps` takes."""
    return [json_values(column) for column in batch.columns]


def json_values(column: pa.Array) -> list[Any]:
    convert = _converter(column.type)
    values = _python_values(column)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def text_values(column: pa.Array) -> list[str | None]:
    """For a table: NULL is None."""
    import pyarrow.types as types

    kind = column.type
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return [None if value is None else readable_bytes(value) for value in _python_values(column)]
    shown = [None if value is None else _shown(value) for value in json_values(column)]
    if types.is_timestamp(kind):
        return [text and _ZEROS.sub("", text) for text in shown]
    return shown


def csv_values(column: pa.Array) -> list[Any]:
    """NULL is empty; what is nested is JSON."""
    return [
        "" if value is None else value if isinstance(value, str) else _plain(value) for value in json_values(column)
    ]


def unique_names(names: Sequence[str]) -> list[str]:
    """For formats where a name stands for one column: the second `id` is `id_2`."""
    taken, chosen = set(names), list[str]()
    for name in names:
        candidate, number = name, 2
        while candidate in chosen or (candidate != name and candidate in taken):
            candidate, number = f"{name}_{number}", number + 1
        chosen.append(candidate)
    return chosen


def readable_bytes(value: bytes) -> str:
    """Text where it is text; other bytes as \\xNN."""
    return one_line(value.decode("utf-8", "backslashreplace"))


def to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    return one_line(value if isinstance(value, str) else _plain(value))


def _plain(value: Any) -> str:
    return repr(value) if isinstance(value, float) else to_json(value)


def _python_values(column: pa.Array) -> list[Any]:
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        values = [_python_value(scalar) for scalar in column]
    return values


def _python_value(scalar: Any) -> Any:
    """Of what Python does not have: a time before the year 1 or after 9999 is its number, and a struct with two fields
    of one name a tuple."""
    import pyarrow.types as types

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_struct(kind):
        return tuple(_python_value(scalar[number]) for number in range(kind.num_fields))
    if types.is_map(kind):
        pairs = scalar.values
        return [(_python_value(pair[0]), _python_value(pair[1])) for pair in pairs]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [_python_value(item) for item in scalar.values]
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        return scalar.value


def _converter(kind: pa.DataType) -> Convert | None:
    """None where the value is fit as it is."""
    import pyarrow.types as types

    if types.is_struct(kind):
        return _struct(
            [(kind.field(number).name, _converter(kind.field(number).type)) for number in range(kind.num_fields)]
        )
    if types.is_map(kind):
        return _map(_converter(kind.key_type), _converter(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _list(_converter(kind.value_type))
    for matches, convert in (
        (types.is_floating, _number),
        (types.is_decimal, _decimal),
        (types.is_temporal, moment_text),
        (
            lambda each: types.is_binary(each) or types.is_large_binary(each) or types.is_fixed_size_binary(each),
            _base64,
        ),
    ):
        if matches(kind):
            return convert
    return None


def _struct(fields: Sequence[tuple[str, Convert | None]]) -> Convert:
    names = unique_names([name for name, _ in fields])
    converts = [(name, own, convert) for name, (own, convert) in zip(names, fields, strict=True)]

    def convert_struct(value: Any) -> Any:
        values = value if isinstance(value, tuple) else [value[own] for _, own, _ in converts]
        return {name: _apply(convert, each) for (name, _, convert), each in zip(converts, values, strict=True)}

    return convert_struct


def _list(convert: Convert | None) -> Convert:
    return lambda value: [_apply(convert, item) for item in value]


def _map(key: Convert | None, item: Convert | None) -> Convert:
    def convert_map(value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else value
        return {_key_text(_apply(key, name)): _apply(item, content) for name, content in pairs}

    return convert_map


def _apply(convert: Convert | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def _key_text(value: Any) -> str:
    return value if isinstance(value, str) else _plain(value)


def _number(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> str:
    return format(value, "f")


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def moment_text(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat()[:-6] + "Z"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return _duration_text(value)
    return value


def _duration_text(value: timedelta) -> str:
    """ISO 8601: P1DT2H3M4.5S."""
    sign, size = ("-", -value) if value < timedelta(0) else ("", value)
    hours, rest = divmod(size.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{size.microseconds:06d}".rstrip("0") if size.microseconds else ""
    clock = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    clock += f"{seconds}{fraction}S" if seconds or fraction else ""
    days = f"{size.days}D" if size.days else ""
    return f"{sign}P{days}{'T' + clock if clock else ''}" if days or clock else "PT0S"
