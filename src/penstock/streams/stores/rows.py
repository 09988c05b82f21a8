"""The queries of stores in Python, for every kind of source, and their results."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeVar

from penstock.streams.stores.errors import TOO_LARGE, StoreError

# Of one request: an answer has a row for each.
MOST_KEYS: Final = 1_000
_PAGE: Final = 1_000
Place = TypeVar("Place")


@dataclass(frozen=True, slots=True)
class Row:
    key: Any  # of a windowed row without its window
    value: Any
    timestamp_ms: int
    partition: int
    offset: int
    position: Mapping[int, int]  # where the store stood: by partition, the offset behind what was read
    start_ms: int | None = None  # of a windowed row
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StoreState:
    name: str
    topic: str
    is_ready: bool  # it was read to its end once
    rows: int
    position: Mapping[int, int]
    lag: int | None  # records behind; None while an end is unknown


def position_of(given: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in given.items()}


def row_of(row: Mapping[str, Any], position: Mapping[int, int]) -> Row:
    """From an answer's JSON: a row, or a window. A value that is no JSON is bytes."""
    key, start, end = row["key"], row.get("start"), row.get("end")
    if start is None and isinstance(key, dict) and key.keys() == {"key", "start", "end"}:
        key, start, end = key["key"], key["start"], key["end"]
    value = base64.b64decode(row["base64"]) if "base64" in row else row["value"]
    return Row(key, value, row["timestamp"], row["partition"], row["offset"], position, start, end)


def state_of(state: Mapping[str, Any]) -> StoreState:
    return StoreState(
        state["name"],
        state["topic"],
        state["state"] == "ready",
        state["rows"],
        position_of(state["position"]),
        state["lag"],
    )


def text_of(key: Any) -> str | None:
    """A key as a URL has it."""
    if key is None or isinstance(key, str):
        return key
    return json.dumps(key, ensure_ascii=False, separators=(",", ":"))


def ask_in_parts(ask: Callable[[Sequence[Any]], list[Row | None]], keys: Sequence[Any]) -> list[Row | None]:
    """Of all keys at once, or of parts where that would be more than one answer takes."""
    if len(keys) <= MOST_KEYS:
        try:
            return ask(keys)
        except StoreError as error:
            if error.status != TOO_LARGE or len(keys) == 1:
                raise
    middle = len(keys) // 2
    return [*ask_in_parts(ask, keys[:middle]), *ask_in_parts(ask, keys[middle:])]


def ask_by_pages(
    ask: Callable[[int, Place | None], tuple[list[Row], Place | None]], limit: int | None
) -> Iterator[Row]:
    """`ask` gets the size of a page and the place behind which it begins; it returns the next place."""
    after: Place | None = None
    left = limit
    while left is None or left > 0:
        rows, after = ask(_PAGE if left is None else min(_PAGE, left), after)
        yield from rows
        if after is None:
            return
        left = None if left is None else left - len(rows)


class StoreSource(Protocol):
    """Stores of one application. `min_position` (partition: offset) waits for up to `wait_s` until the store has read
    everything before these offsets; StoreError if it has not."""

    def stores(self) -> list[StoreState]: ...

    def get(
        self, store: str, key: Any, *, min_position: Mapping[int, int] | None = None, wait_s: float | None = None
    ) -> Row | None:
        return self.get_many(store, [key], min_position=min_position, wait_s=wait_s)[0]

    def get_many(
        self,
        store: str,
        keys: Sequence[Any],
        *,
        min_position: Mapping[int, int] | None = None,
        wait_s: float | None = None,
    ) -> list[Row | None]: ...

    def range(
        self, store: str, *, first: Any = None, last: Any = None, prefix: str | None = None, limit: int | None = None
    ) -> Iterator[Row]:
        """In the order of keys, both ends included."""
        ...

    def windows(
        self, store: str, key: Any = None, *, start_ms: int | None = None, end_ms: int | None = None
    ) -> Iterator[Row]:
        """Windows of a key (None: of all keys) that begin from `start_ms` to `end_ms`, both included; the oldest is
        the first."""
        ...

    def close(self) -> None: ...


class OneStore:
    """One store of a source: what `app.query` returns."""

    def __init__(self, source: StoreSource, store: str) -> None:
        self._source = source
        self._store = store

    def get(self, key: Any, **more: Any) -> Row | None:
        return self._source.get(self._store, key, **more)

    def get_many(self, keys: Sequence[Any], **more: Any) -> list[Row | None]:
        return self._source.get_many(self._store, keys, **more)

    def range(self, **more: Any) -> Iterator[Row]:
        return self._source.range(self._store, **more)

    def windows(self, key: Any = None, **more: Any) -> Iterator[Row]:
        return self._source.windows(self._store, key, **more)

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
