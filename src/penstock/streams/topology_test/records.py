"""Rows of a test as the records of a topic, and back. Pure.

A row is a dict of the value's columns, in which these are not of the value:

    _key        as the source's key format takes it; a row without one has no key
    _timestamp  milliseconds since 1970, a datetime (without a zone: UTC), or text as ISO 8601 has it
    _headers    pairs of a name and bytes
    _null       True: a record without a value

A `Record` has the same by position: Record("ann", {"n": 1}, 1000), and Record("ann", None) deletes. Of text and raw
topics a row may be the text, or the bytes, alone. Bytes where a format wants something else are taken as they are: so
a test sends records that do not decode.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, is_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from penstock.streams.topology.errors import StreamsError
from penstock.streams.topology.formats import Format, FormatKind
from penstock.streams.topology.nodes import HEADERS, KEY, NULL, TIMESTAMP

Headers = tuple[tuple[str, bytes], ...]
# Encodes a key or a value by a registry: the topic, whether it is a key, the format, and what is to be written.
ByRegistry = Callable[[str, bool, Format, Any], bytes]
_OF_THE_RECORD = frozenset({KEY, TIMESTAMP, HEADERS, NULL})


@dataclass(frozen=True, slots=True)
class Record:
    """`timestamp`: milliseconds since 1970 of what is read; of what is piped also a datetime or text."""

    key: Any
    value: Any
    timestamp: Any = None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class RawRecord:
    """As it would lie in a topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: Headers = ()
    topic: str | None = None  # that the row has chosen; None: the output's


def record_of(row: Any) -> Record:
    """The row in one form. Raises StreamsError."""
    if isinstance(row, Record):
        return row
    if is_dataclass(row) and not isinstance(row, type):
        return Record(None, asdict(row))
    if not isinstance(row, Mapping):
        return Record(None, row)
    value: dict[str, Any] | None = {name: each for name, each in row.items() if name not in _OF_THE_RECORD}
    if row.get(NULL):
        if value:
            raise StreamsError(f"a row with {NULL} has no value, and this one has {', '.join(value)}")
        value = None
    return Record(row.get(KEY), value, row.get(TIMESTAMP), tuple(row.get(HEADERS) or ()))


def timestamp_ms(given: Any) -> int:
    """Raises StreamsError."""
    if isinstance(given, str):
        try:
            given = datetime.fromisoformat(given)
        except ValueError:
            raise StreamsError(f"{given!r} is no time", "Write it as 2026-05-01T10:00:00Z.") from None
    if isinstance(given, datetime):
        zoned = given if given.tzinfo else given.replace(tzinfo=UTC)
        return round(zoned.timestamp() * 1000)
    if isinstance(given, bool) or not isinstance(given, int):
        raise StreamsError(f"{given!r} is no time", "A record's time is milliseconds, a datetime, or text.")
    return given


def encode(topic: str, is_key: bool, kind: Format, given: Any, by_registry: ByRegistry) -> bytes | None:
    """Raises StreamsError for what the format cannot write."""
    if given is None or isinstance(given, bytes):
        return given
    what = "key" if is_key else "value"
    if kind.kind is FormatKind.REGISTRY:
        return by_registry(topic, is_key, kind, _plain(given))
    if kind.kind is FormatKind.JSON:
        return json_bytes(given)
    if isinstance(given, Mapping) and not is_key and set(given) == {"value"}:
        return encode(topic, is_key, kind, given["value"], by_registry)
    if kind.kind is FormatKind.RAW or isinstance(given, Mapping):
        raise StreamsError(
            f"the {what} of topic {topic} is {kind.kind.value}, and a row has {given!r}",
            f"Give the {'bytes' if kind.kind is FormatKind.RAW else 'text'}, or say json(...) where the topic is read.",
        )
    return str(given).encode()


def json_bytes(given: Any) -> bytes:
    return json.dumps(_plain(given), default=_json_default, ensure_ascii=False).encode()


def _plain(given: Any) -> Any:
    return asdict(given) if is_dataclass(given) and not isinstance(given, type) else given


def _json_default(given: Any) -> Any:
    """As Spark reads it from JSON."""
    if isinstance(given, datetime):
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).isoformat()
    if isinstance(given, date):
        return given.isoformat()
    if isinstance(given, Decimal):
        return str(given)
    if isinstance(given, bytes):
        return base64.b64encode(given).decode()
    raise StreamsError(f"{given!r} cannot be written as JSON")


def hashable(key: Any) -> Any:
    """A key that can be looked up in a dict: the values of an object, in their order."""
    if isinstance(key, Mapping):
        return tuple(hashable(each) for each in key.values())
    if isinstance(key, list):
        return tuple(hashable(each) for each in key)
    return key


def last_by_key(records: Iterable[Record]) -> dict[Any, Any]:
    """A table: the last value of each key; deleted ones are left out."""
    table: dict[Any, Any] = {}
    for record in records:
        key = hashable(record.key)
        table.pop(key, None)
        if record.value is not None:
            table[key] = record.value
    return table
