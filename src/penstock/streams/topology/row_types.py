"""Dataclasses as schemas: the DDL of Spark's SQL for the fields of one.

@dataclass
class Click:                     every column may be null, as a JSON object may lack a field
    user: str                    -> `user` STRING
    at: datetime                 -> `at` TIMESTAMP
    price: Decimal               -> `price` DECIMAL(38,18)
    tags: list[str]              -> `tags` ARRAY<STRING>
    of: dict[str, Place]         -> `of` MAP<STRING, STRUCT<...>>
    note: str | None = None      -> `note` STRING
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from penstock.pipelines.sql_identifiers import quote
from penstock.streams.topology.errors import StreamsError

_SIMPLE: dict[Any, str] = {
    str: "STRING",
    int: "BIGINT",
    float: "DOUBLE",
    bool: "BOOLEAN",
    bytes: "BINARY",
    datetime: "TIMESTAMP",
    date: "DATE",
    # As exact as Spark is, with as many digits on either side as money and measures ask for.
    Decimal: "DECIMAL(38,18)",
}
_HINT = (
    "str, int, float, bool, bytes, datetime, date, Decimal, list, dict, other dataclasses and Optional of these "
    "are known. Write the columns as DDL where these are not enough."
)


def columns_of(row_type: Any) -> str:
    """The DDL of a dataclass's fields."""
    if not (isinstance(row_type, type) and is_dataclass(row_type)):
        raise StreamsError(f"{row_type!r} is no dataclass", "Give a dataclass or the columns as DDL.")
    return ", ".join(f"{quote(name)} {kind}" for name, kind in _fields(row_type, ()))


def _fields(row_type: type, outer: tuple[type, ...]) -> list[tuple[str, str]]:
    if row_type in outer:
        raise StreamsError(f"{row_type.__qualname__} has itself as a field, which columns cannot have")
    try:
        hints = get_type_hints(row_type, include_extras=True)
    except NameError as error:
        raise StreamsError(
            f"a type of {row_type.__qualname__} cannot be found: {error}",
            "Define the dataclass, and its types, in a module.",
        ) from error
    found = [
        (each.name, _kind(hints[each.name], f"{row_type.__qualname__}.{each.name}", (*outer, row_type)))
        for each in fields(row_type)
    ]
    if not found:
        raise StreamsError(f"{row_type.__qualname__} has no fields")
    return found


def _kind(hint: Any, where: str, outer: tuple[type, ...]) -> str:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kind(arguments[0], where, outer)
    if origin in (Union, types.UnionType):
        inner = [each for each in arguments if each is not type(None)]
        if len(inner) == 1:
            return _kind(inner[0], where, outer)
    elif origin is list:
        return f"ARRAY<{_kind(arguments[0], where, outer)}>"
    elif origin is dict:
        return f"MAP<{_kind(arguments[0], where, outer)}, {_kind(arguments[1], where, outer)}>"
    elif isinstance(hint, type) and is_dataclass(hint):
        return "STRUCT<" + ", ".join(f"{quote(name)}: {kind}" for name, kind in _fields(hint, outer)) + ">"
    raise StreamsError(f"{where} has a type that no column has: {getattr(hint, '__name__', hint)}", _HINT)
