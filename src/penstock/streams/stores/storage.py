"""Stores of one application in a SQLite file: written by one thread, read by others at the same time (WAL).

Rows and the offsets behind them change in one transaction, so that a reader sees both as of one moment, and a process
that is killed goes on where it was. The file is a copy of the brokers' records: nothing waits for the disk, and a
file that is damaged or of another format is begun anew.

Tables: `stores`, a row for each store with its position; `rows_<id>`, the rows of one store.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from penstock.client.partition_fetch import FetchedRecord
from penstock.streams.stores.keys import NotJsonError, StoredKey, parse_key

logger = logging.getLogger(__name__)

FORMAT = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS stores (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, topic_id BLOB NOT NULL,
    position TEXT NOT NULL,   -- JSON: by partition, the offset behind the last record that is in the rows
    restoring TEXT NOT NULL,  -- JSON: the partitions that were not read to their end yet
    rows INTEGER NOT NULL, skipped INTEGER NOT NULL,
    at_end_ms INTEGER NOT NULL -- when all partitions were read to their ends
)
"""
# `value` is JSON, or null where `raw` holds what is no JSON.
_ROWS = """
CREATE TABLE rows_{id} (
    sort BLOB NOT NULL, start INTEGER NOT NULL, finish INTEGER NOT NULL, text BLOB NOT NULL,
    value BLOB, raw BLOB, timestamp INTEGER NOT NULL, partition INTEGER NOT NULL, record INTEGER NOT NULL,
    PRIMARY KEY (sort, start, finish)
) WITHOUT ROWID
"""
_BY_TIME = "CREATE INDEX by_time_{id} ON rows_{id} (start, sort, finish) WHERE start > -4611686018427387904"
# The write-ahead log grows with the pages of a transaction, 16 MB of random keys; after a burst it is cut again.
_PRAGMAS = ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000", "journal_size_limit=67108864")
_raw = msgspec.json.Decoder(msgspec.Raw)
_pairs = msgspec.json.Decoder(dict[int, int])
_list = msgspec.json.Decoder(list[int])


class StorageLockedError(Exception):
    """Another process has the file."""


class Saved(NamedTuple):
    """The state of a store in the file."""

    id: int
    name: str
    topic_id: bytes
    position: dict[int, int]
    restoring: list[int]
    rows: int
    skipped: int
    at_end_ms: int


class ChangelogBatch(NamedTuple):
    """The records read of one partition."""

    partition: int
    records: Sequence[FetchedRecord]
    next_offset: int
    is_at_end: bool


class Applied(NamedTuple):
    rows: int  # that the store has now
    skipped: int  # records that have no key, or none that is JSON; since the store was begun


class Storage:
    """For one thread at a time."""

    def __init__(self, path: Path, application: str, cluster: str) -> None:
        """Raises StorageLockedError, OSError, sqlite3.Error."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._lock = os.fdopen(_open_own(path.with_name(path.name + ".lock")), "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise StorageLockedError(f"another process serves from {path}") from None
        try:
            self._connection = self._open(f"{FORMAT} {application} {cluster}")
        except BaseException:
            self._lock.close()
            raise

    def _open(self, identity: str) -> sqlite3.Connection:
        try:
            return _connect(self.path, identity)
        except sqlite3.OperationalError:  # the disk, not the file
            raise
        except sqlite3.DatabaseError as error:
            logger.warning("a file of stores is begun anew", extra={"file": str(self.path), "reason": str(error)})
        for suffix in ("-shm", "-wal", ""):  # a log without its file would be taken for the next one's
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        return _connect(self.path, identity)

    def close(self) -> None:
        self._connection.close()
        self._lock.close()

    def stores(self) -> list[Saved]:
        query = "SELECT id, name, topic_id, position, restoring, rows, skipped, at_end_ms FROM stores ORDER BY name"
        return [
            Saved(number, name, topic_id, _pairs.decode(position), _list.decode(restoring), rows, skipped, at_end_ms)
            for number, name, topic_id, position, restoring, rows, skipped, at_end_ms in self._connection.execute(query)
        ]

    def begin(self, name: str, topic_id: bytes, now_ms: int) -> Saved:
        """An empty store, instead of the one that was."""
        with self._transaction() as connection:
            self._drop(name)
            insert = "INSERT INTO stores VALUES (NULL, ?, ?, '{}', '[]', 0, 0, ?)"
            number = connection.execute(insert, (name, topic_id, now_ms)).lastrowid
            assert number is not None, "a row was inserted"
            connection.execute(_ROWS.format(id=number))
            connection.execute(_BY_TIME.format(id=number))
        return Saved(number, name, topic_id, {}, [], 0, 0, now_ms)

    def drop(self, name: str) -> None:
        with self._transaction():
            self._drop(name)

    def _drop(self, name: str) -> None:
        found = self._connection.execute("SELECT id FROM stores WHERE name = ?", (name,)).fetchone()
        if found is not None:
            self._connection.execute(f"DROP TABLE rows_{found[0]:d}")
            self._connection.execute("DELETE FROM stores WHERE id = ?", found)

    def reset(self, number: int, starts: dict[int, int]) -> int:
        """Partitions that are read anew, from these offsets on. Returns how many rows the store still has."""
        with self._transaction() as connection:
            position, restoring, rows = self._state(number)
            for partition, offset in starts.items():
                if partition in position:
                    delete = f"DELETE FROM rows_{number:d} WHERE partition = ?"  # noqa: S608  # a number of ours
                    rows -= connection.execute(delete, (partition,)).rowcount
                position[partition] = offset
            self._save_state(number, position, sorted({*restoring, *starts}), rows)
        return rows

    def apply(self, number: int, changes: Iterable[ChangelogBatch], now_ms: int) -> Applied:
        """`now_ms` is the time if all partitions are at their ends, and 0 otherwise."""
        with self._transaction() as connection:
            position, restoring, rows = self._state(number)
            skipped = 0
            for change in changes:
                latest, unreadable = _latest(change)
                skipped += unreadable
                rows += self._write(number, latest)
                position[change.partition] = change.next_offset
                if change.is_at_end and change.partition in restoring:
                    restoring.remove(change.partition)
            self._save_state(number, position, restoring, rows)
            if skipped:
                connection.execute("UPDATE stores SET skipped = skipped + ? WHERE id = ?", (skipped, number))
            if now_ms:
                connection.execute("UPDATE stores SET at_end_ms = ? WHERE id = ?", (now_ms, number))
            skipped = connection.execute("SELECT skipped FROM stores WHERE id = ?", (number,)).fetchone()[0]
        return Applied(rows, skipped)

    def _state(self, number: int) -> tuple[dict[int, int], list[int], int]:
        query = "SELECT position, restoring, rows FROM stores WHERE id = ?"
        position, restoring, rows = self._connection.execute(query, (number,)).fetchone()
        return _pairs.decode(position), _list.decode(restoring), rows

    def _save_state(self, number: int, position: dict[int, int], restoring: list[int], rows: int) -> None:
        text = msgspec.json.encode(dict(sorted(position.items()))).decode()
        update = "UPDATE stores SET position = ?, restoring = ?, rows = ? WHERE id = ?"
        self._connection.execute(update, (text, msgspec.json.encode(restoring).decode(), rows, number))

    def _write(self, number: int, latest: dict[StoredKey, Stored | None]) -> int:
        """How many rows there are more than before. Rows are deleted and inserted: an upsert would not say which of
        both it has done. 100,000 records of as many keys take 1.8 s of one core, from their bytes to the file."""
        if not latest:
            return 0
        table = f"rows_{number:d}"
        delete = f"DELETE FROM {table} WHERE sort = ? AND start = ? AND finish = ?"  # noqa: S608  # a number of ours
        deleted = self._connection.executemany(delete, [key[:3] for key in latest]).rowcount
        rows = [(*key, *row) for key, row in latest.items() if row is not None]
        if rows:
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)  # noqa: S608
        return len(rows) - deleted

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")


def _open_own(path: Path) -> int:
    """Only this user can read the file: the server checks the rights of its callers, the file cannot."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _connect(path: Path, identity: str) -> sqlite3.Connection:
    """Raises sqlite3.DatabaseError where the file is of something else."""
    os.close(_open_own(path))  # SQLite's log has the rights of the file
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE IF NOT EXISTS identity (text TEXT NOT NULL)")
        found = connection.execute("SELECT text FROM identity").fetchone()
        if found is None:
            connection.execute("INSERT INTO identity VALUES (?)", (identity,))
        elif found[0] != identity:
            raise sqlite3.DatabaseError(f"it holds {found[0]!r}, not {identity!r}")
        connection.execute(_TABLE)
    except BaseException:
        connection.close()
        raise
    return connection


class Stored(NamedTuple):
    value: bytes | None
    raw: bytes | None
    timestamp_ms: int
    partition: int
    offset: int


def _latest(change: ChangelogBatch) -> tuple[dict[StoredKey, Stored | None], int]:
    """By key, the last row, or None where it was deleted; and how many records could not be read."""
    latest: dict[StoredKey, Stored | None] = {}
    unreadable = 0
    for offset, timestamp_ms, key, value, _ in change.records:
        try:
            if key is None:
                raise NotJsonError("no key")
            stored = parse_key(key)
        except NotJsonError:
            unreadable += 1
            continue
        if value is None:
            latest[stored] = None
            continue
        shown, raw = (value, None) if _is_json(value) else (None, value)
        latest[stored] = Stored(shown, raw, timestamp_ms, change.partition, offset)
    return latest, unreadable


def _is_json(value: bytes) -> bool:
    """Answers hold the value as it is, so it has to be JSON in UTF-8 to its end."""
    try:
        value.decode()
        _raw.decode(value)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True
