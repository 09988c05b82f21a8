"""Questions to a file of stores: each answer is of one moment, rows and position alike. Blocks: pages are for a thread.

Every question follows an index and ends after so many rows or bytes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.streams.stores.errors import TOO_LARGE, StoreError
from penstock.streams.stores.keys import ALL, UNWINDOWED, Bounds, Cursor, StoredKey, bounds_of, candidates, whole_text

MOST_ROWS = 10_000
# A page ends before it is much larger: a slow client holds as much.
MOST_PAGE_BYTES = 4 * 1024 * 1024
_COLUMNS = "sort, start, finish, text, value, raw, timestamp, partition, record"
_FIRST_MS, _LAST_MS = -(1 << 62), 1 << 62


class Found(NamedTuple):
    order: bytes
    start: int
    end: int
    text: bytes  # the key's JSON
    value: bytes | None  # JSON; None: see `raw`
    raw: bytes | None
    timestamp_ms: int
    partition: int
    offset: int

    @property
    def is_windowed(self) -> bool:
        return self.start != UNWINDOWED

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.order, self.start, self.end)

    @property
    def whole_key(self) -> bytes:
        return whole_text(self.text, self.start, self.end)

    @property
    def size(self) -> int:
        return len(self.text) + len(self.value or b"") + 2 * len(self.raw or b"")


class Moment(NamedTuple):
    """Where a store stands."""

    number: int
    position: bytes  # JSON
    is_ready: bool


class Page(NamedTuple):
    moment: Moment
    rows: list[Found]
    next: Cursor | None  # None: there is no more


class KeyRange(NamedTuple):
    """By texts of a URL; None: no bound."""

    first: str | None = None
    last: str | None = None
    prefix: str | None = None


class TimeRange(NamedTuple):
    """Of the starts of windows, both included."""

    first_ms: int = _FIRST_MS
    last_ms: int = _LAST_MS


class UnknownStoreError(LookupError):
    """There is none of this name."""


class StoreReader:
    """For several threads: each has a connection of its own."""

    def __init__(self, path: Path, busy_ms: int = 5_000) -> None:
        """`busy_ms`: how long to wait for a lock, which readers of this file meet as good as never; then
        sqlite3.OperationalError."""
        self._path = path
        self._busy_ms = busy_ms
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._lock = threading.Lock()

    def close(self) -> None:
        """When no thread asks any more."""
        with self._lock:
            for connection in self._opened:
                connection.close()
            self._opened.clear()

    # ------------------------------------------------------------------------------------ questions

    def get(self, store: str, text: str) -> tuple[Moment, Found | None]:
        """By a key as the text of a URL has it."""
        with self._moment(store) as (connection, moment):
            for key in candidates(text):
                found = _get(connection, moment, key)
                if found is not None:
                    return moment, found
        return moment, None

    def get_all(self, store: str, keys: Sequence[StoredKey]) -> tuple[Moment, list[Found | None]]:
        """Raises StoreError where the rows are too large together; one row is answered whatever its size."""
        rows: list[Found | None] = []
        size = 0
        with self._moment(store) as (connection, moment):
            for key in keys:
                found = _get(connection, moment, key)
                rows.append(found)
                size += 0 if found is None else found.size
                if size > MOST_PAGE_BYTES and len(keys) > 1:
                    limit = f"an answer has {MOST_PAGE_BYTES:,} bytes at most"
                    raise StoreError(TOO_LARGE, f"the rows of these keys are too large: {limit}", "Ask for fewer keys.")
        return moment, rows

    def keys(self, store: str, wanted: KeyRange, limit: int, after: Cursor | None) -> Page:
        """Windowed rows too, all windows of a key. In the order of keys."""
        with self._moment(store) as (connection, moment):
            bounds = _bounds(connection, moment, wanted)
            begin = Cursor(bounds.first, UNWINDOWED, UNWINDOWED)
            where = f"(sort, start, finish) {'>=' if after is None or after < begin else '>'} (?, ?, ?) AND sort < ?"
            place = begin if after is None else max(after, begin)
            rows = _select(connection, moment, where, "sort, start, finish", (*place, bounds.behind, limit + 1))
            return _page(moment, rows, limit)

    def windows(self, store: str, text: str, times: TimeRange, limit: int, after: Cursor | None) -> Page:
        """Of a key as the text of a URL has it, the oldest first."""
        with self._moment(store) as (connection, moment):
            key = _windowed(connection, moment, text)
            if key is None:
                return Page(moment, [], None)
            first = (times.first_ms, UNWINDOWED) if after is None else (after.start, after.end)
            where = "sort = ? AND (start, finish) > (?, ?) AND start >= ? AND start <= ?"
            rows = _select(connection, moment, where, "start, finish", (key.order, *first, *times, limit + 1))
            return _page(moment, rows, limit)

    def all_windows(self, store: str, times: TimeRange, limit: int, after: Cursor | None) -> Page:
        """Of all keys, the oldest first, then in the order of keys."""
        with self._moment(store) as (connection, moment):
            place = (times.first_ms, b"", UNWINDOWED) if after is None else (after.start, after.order, after.end)
            # The index has windows alone, and this condition lets SQLite use it.
            where = f"start > {_FIRST_MS} AND (start, sort, finish) > (?, ?, ?) AND start >= ? AND start <= ?"
            rows = _select(connection, moment, where, "start, sort, finish", (*place, *times, limit + 1))
            return _page(moment, rows, limit)

    # ------------------------------------------------------------------------------------ one moment

    @contextlib.contextmanager
    def _moment(self, store: str) -> Iterator[tuple[sqlite3.Connection, Moment]]:
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            query = "SELECT id, position, restoring FROM stores WHERE name = ?"
            found = connection.execute(query, (store,)).fetchone()
            if found is None:
                raise UnknownStoreError(store)
            number, position, restoring = found
            yield connection, Moment(number, position.encode(), restoring == "[]" and position != "{}")
        finally:
            connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False
            )
            connection.execute(f"PRAGMA busy_timeout={self._busy_ms:d}")
            self._own.connection = connection
            with self._lock:
                self._opened.append(connection)
        return connection


def _get(connection: sqlite3.Connection, moment: Moment, key: StoredKey) -> Found | None:
    where = "sort = ? AND start = ? AND finish = ?"
    rows = _select(connection, moment, where, "sort", (*key[:3], 1))
    return next(map(Found._make, rows), None)


def _windowed(connection: sqlite3.Connection, moment: Moment, text: str) -> StoredKey | None:
    """The first meaning of the text that has windows."""
    query = f"SELECT 1 FROM rows_{moment.number:d} WHERE sort = ? AND start > ? LIMIT 1"  # noqa: S608  # a number
    for key in candidates(text):
        if connection.execute(query, (key.order, UNWINDOWED)).fetchone() is not None:
            return key
    return None


def _bounds(connection: sqlite3.Connection, moment: Moment, wanted: KeyRange) -> Bounds:
    """The first key of the store shows the kind of all its keys: those of an application are of one kind."""
    if wanted == KeyRange():
        return ALL
    query = f"SELECT sort FROM rows_{moment.number:d} ORDER BY sort LIMIT 1"  # noqa: S608  # a number
    first = connection.execute(query).fetchone()
    return ALL if first is None else bounds_of(first[0][:1], *wanted)


def _select(
    connection: sqlite3.Connection, moment: Moment, where: str, order: str, values: tuple[object, ...]
) -> sqlite3.Cursor:
    return connection.execute(
        f"SELECT {_COLUMNS} FROM rows_{moment.number:d} WHERE {where} ORDER BY {order} LIMIT ?",  # noqa: S608  # ours
        values,
    )


def _page(moment: Moment, rows: sqlite3.Cursor, limit: int) -> Page:
    """`rows` may have one more than the limit, which shows that there is more."""
    taken: list[Found] = []
    size = 0
    for row in map(Found._make, rows):
        if len(taken) == limit or (taken and size + row.size > MOST_PAGE_BYTES):
            return Page(moment, taken, taken[-1].cursor)
        taken.append(row)
        size += row.size
    return Page(moment, taken, None)
