"""Reads the parameters of a request: limits, places, times, keys. They are a stranger's text before these checks."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from starlette.datastructures import QueryParams

from penstock.http.operations import Parameter
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.keys import Cursor, NotJsonError, StoredKey, body_decoder, key_of
from penstock.streams.stores.positions import parse_position, position_of
from penstock.streams.stores.rows import MOST_KEYS
from penstock.streams.stores.store_queries import Patience
from penstock.streams.stores.store_reader import MOST_ROWS, KeyRange, TimeRange

USUAL_ROWS: Final = 100
_MOST_DIGITS: Final = 18
_PATIENCE: Final = ("min_position", "wait")
KEY_NAMES: Final = ("from", "to", "prefix", "limit", "after", *_PATIENCE)
WINDOW_NAMES: Final = ("from", "to", "limit", "after", *_PATIENCE)
GET_NAMES: Final = _PATIENCE
_DESCRIBED: Final = (
    Parameter(
        "from", "The first key, or of windows the first start (milliseconds or ISO 8601); included.", {"type": "string"}
    ),
    Parameter("to", "The last key, or of windows the last start; included.", {"type": "string"}),
    Parameter("prefix", "What keys begin with, where they are text.", {"type": "string"}),
    Parameter(
        "limit",
        f"The most rows of a page; at most {MOST_ROWS:,}.",
        {"type": "integer", "minimum": 1, "default": USUAL_ROWS},
    ),
    Parameter("after", "`next` of the page before.", {"type": "string"}),
    Parameter(
        "min_position", "Wait until everything before is in the store: 0:12,1:7 or a JSON object.", {"type": "string"}
    ),
    Parameter("wait", "For how many seconds; 5 with min_position, 60 at most.", {"type": "number", "minimum": 0}),
)


def described(names: tuple[str, ...]) -> tuple[Parameter, ...]:
    return tuple(each for each in _DESCRIBED if each.name in names)


def check_names(query: QueryParams, known: tuple[str, ...]) -> None:
    """A misspelt name would be a bound that is left out. Raises StoreError."""
    given = [name for name, _ in query.multi_items()]
    for name in given:
        if name not in known:
            raise StoreError(400, f"no parameter {name[:40]!r} here", f"There are: {', '.join(known)}.")
        if given.count(name) > 1:
            raise StoreError(400, f"the parameter {name} is given twice")


def read_limit(query: QueryParams) -> int:
    """More than `MOST_ROWS` are these: `next` leads on."""
    text = query.get("limit", str(USUAL_ROWS))
    if not text.isascii() or not text.isdigit() or int(text[:_MOST_DIGITS]) < 1:
        raise StoreError(400, "limit is a number, 1 at least")
    return min(MOST_ROWS, int(text)) if len(text) <= _MOST_DIGITS else MOST_ROWS


def read_after(query: QueryParams) -> Cursor | None:
    text = query.get("after")
    return Cursor.decode(text) if text else None


def read_keys(query: QueryParams) -> KeyRange:
    return KeyRange(query.get("from"), query.get("to"), query.get("prefix"))


def read_times(query: QueryParams) -> TimeRange:
    usual = TimeRange()
    first, last = query.get("from"), query.get("to")
    return TimeRange(
        usual.first_ms if first is None else _read_time("from", first),
        usual.last_ms if last is None else _read_time("to", last),
    )


def _read_time(name: str, text: str) -> int:
    """Milliseconds since 1970, or ISO 8601, in UTC where the text names no zone."""
    if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    try:
        # In a URL a plus that was not quoted is a space.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError:
        hint = "Say 1700000000000 or 2026-11-17T09:00:00Z."
        raise StoreError(400, f"{name} is a time: milliseconds since 1970, or ISO 8601", hint) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def read_patience(query: QueryParams) -> Patience:
    wait = query.get("wait")
    return Patience(parse_position(query.get("min_position")), None if wait is None else _seconds(wait))


def _seconds(given: Any) -> float:
    try:
        wait_s = float(given)
    except (TypeError, ValueError, OverflowError):
        wait_s = math.nan
    if not 0 <= wait_s < math.inf:
        raise StoreError(400, "wait is a number of seconds")
    return wait_s


def read_body(body: bytes) -> tuple[list[StoredKey], Patience]:
    """`{"keys": [...], "min_position": {...}, "wait": 1}`; keys are JSON."""
    try:
        given = body_decoder.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StoreError(400, f"the body is no JSON: {error}") from None
    if not isinstance(given, dict) or not isinstance(given.get("keys"), list):
        raise StoreError(400, 'the body is like {"keys": ["DE", 7], "min_position": {"0": 12}, "wait": 1}')
    unknown = given.keys() - {"keys", *_PATIENCE}
    if unknown:
        raise StoreError(400, f"the body has no field {min(unknown)[:40]!r}")
    if len(given["keys"]) > MOST_KEYS:
        raise StoreError(400, f"at most {MOST_KEYS} keys in one request")
    try:
        keys = [key_of(key) for key in given["keys"]]
    except NotJsonError as error:
        raise StoreError(400, f"a key is no JSON: {error}") from None
    wait = given.get("wait")
    return keys, Patience(position_of(given.get("min_position")), None if wait is None else _seconds(wait))
