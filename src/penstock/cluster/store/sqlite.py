"""The store of a standalone broker: one SQLite file in the data directory.

The store is durable: SQLite's write-ahead log is synced at every commit. SQLite's exclusive lock admits one process at
a time. So ephemeral nodes of earlier sessions are removed as soon as a process has opened the file: it is alone, and
all ephemeral nodes are its own. Its session lasts until it is closed and never loses a connection.

All calls run on one thread of the store's own, in order, so an fsync never holds up the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from penstock.cluster.store.interface import (
    ANY_VERSION,
    FIRST_VERSION,
    Check,
    CompareAndSet,
    Create,
    Delete,
    Node,
    Operation,
    Result,
    SessionListener,
    SessionState,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
    Watcher,
    Watches,
    check_operation,
    check_path,
    parent_of,
    path_and_parents,
    sequence_path,
)

if TYPE_CHECKING:
    import sqlite3

# Rises with every change of the table; a file of a later version is refused instead of misread.
SCHEMA_VERSION = 1
# "Pens" in ASCII: distinguishes our file from any other SQLite database.
APPLICATION_ID = 0x50656E73

_SCHEMA = """
CREATE TABLE node (
    path TEXT PRIMARY KEY,
    parent TEXT NOT NULL,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL,
    next_sequence INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX node_parent ON node (parent);
INSERT INTO node VALUES ('/', '', x'', 0, 0, 0);
"""

Argument = TypeVar("Argument")
Value = TypeVar("Value")


class SqliteStore:
    def __init__(self, path: Path, connection: sqlite3.Connection, executor: ThreadPoolExecutor) -> None:
        """Use `open`."""
        self._path = path
        self._executor = executor
        self._watches = Watches()
        self._closed = False
        self._session_id = os.urandom(8).hex()
        self._nodes = _Nodes(connection, self._session_id)

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def session_state(self) -> SessionState:
        return SessionState.ENDED if self._closed else SessionState.CONNECTED

    @property
    def last_contact(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def session_timeout_s(self) -> float:
        return math.inf

    @property
    def transaction_limit(self) -> TransactionLimit | None:
        return None

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        """The state never changes."""
        return lambda: None

    @classmethod
    async def open(cls, path: Path, *, durable: bool = True) -> SqliteStore:
        """Creates the file if it is missing. Without `durable`, a crash of the machine may lose the last changes.

        Raises StoreError: IN_USE, CORRUPT, or UNAVAILABLE when the directory cannot be written.
        """
        executor = ThreadPoolExecutor(1, thread_name_prefix="penstock-store")
        try:
            connection = await asyncio.get_running_loop().run_in_executor(executor, _open, path, durable)
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return cls(path, connection, executor)

    async def sync(self, path: str) -> None:
        await self.read(path)

    async def read(self, path: str) -> Node | None:
        return (await self.read_many([path]))[0]

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        return await self._run(self._nodes.read_many, paths)

    async def children(self, path: str) -> list[str]:
        check_path(path)
        return await self._run(self._nodes.children, path)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        (created,) = await self.transaction([Create(path, data, ephemeral, sequence)])
        assert isinstance(created, str)
        return created

    async def ensure_path(self, path: str) -> None:
        check_path(path)
        self._watches.tell(await self._run(self._nodes.ensure_path, path))

    async def compare_and_set(self, path: str, data: bytes, expected_version: int | None) -> int:
        (version,) = await self.transaction([CompareAndSet(path, data, expected_version)])
        assert isinstance(version, int)
        return version

    async def delete(self, path: str, expected_version: int | None = ANY_VERSION) -> None:
        await self.transaction([Delete(path, expected_version)])

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        results, changed = await self._run(self._nodes.transaction, operations)
        self._watches.tell(changed)
        return results

    def watch(self, path: str, watcher: Watcher, *, children: bool = True) -> Callable[[], None]:
        return self._watches.add(path, watcher, children=children)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._executor, _translated, self._path, self._nodes.close)
        finally:
            self._executor.shutdown(wait=False)

    async def _run(self, function: Callable[[Argument], Value], argument: Argument) -> Value:
        if self._closed:
            raise StoreError(StoreErrorKind.CLOSED, str(self._path))
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, _translated, self._path, lambda: function(argument))


class _Nodes:
    """The table of nodes. Everything here runs on the store's thread."""

    def __init__(self, connection: sqlite3.Connection, session_id: str) -> None:
        self._connection = connection
        self._session_id = session_id

    def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        select = "SELECT data, version, ephemeral FROM node WHERE path = ?"
        rows = (self._connection.execute(select, (path,)).fetchone() for path in paths)
        return [None if row is None else Node(row[0], row[1], self._session_id if row[2] else None) for row in rows]

    def children(self, path: str) -> list[str]:
        self._expect(path, ANY_VERSION)
        rows = self._connection.execute("SELECT path FROM node WHERE parent = ? ORDER BY path", (path,))
        return [row[0].rpartition("/")[2] for row in rows]

    def transaction(self, operations: Sequence[Operation]) -> tuple[list[Result], set[str]]:
        for operation in operations:
            check_operation(operation)
        changed: set[str] = set()
        with _transaction(self._connection):
            results = [self._apply(operation, changed) for operation in operations]
        return results, changed

    def ensure_path(self, path: str) -> set[str]:
        nodes = path_and_parents(path)
        missing = [Create(each) for each, node in zip(nodes, self.read_many(nodes), strict=True) if node is None]
        return self.transaction(missing)[1] if missing else set()

    def _apply(self, operation: Operation, changed: set[str]) -> Result:
        match operation:
            case Create():
                path = self._create(operation)
                changed.update((path, parent_of(path)))
                return path
            case CompareAndSet(path, data, expected_version):
                version = self._expect(path, expected_version)[0] + 1
                update = "UPDATE node SET data = ?, version = ? WHERE path = ?"
                self._connection.execute(update, (data, version, path))
                changed.add(path)
                return version
            case Delete(path, expected_version):
                self._expect(path, expected_version)
                if self._connection.execute("SELECT 1 FROM node WHERE parent = ? LIMIT 1", (path,)).fetchone():
                    raise StoreError(StoreErrorKind.NOT_EMPTY, path)
                self._connection.execute("DELETE FROM node WHERE path = ?", (path,))
                changed.update((path, parent_of(path)))
                return None
            case Check(path, expected_version):
                self._expect(path, expected_version)
                return None

    def _create(self, operation: Create) -> str:
        parent = parent_of(operation.path)
        _, is_ephemeral, next_sequence = self._expect(parent, ANY_VERSION)
        if is_ephemeral:
            raise StoreError(StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS, operation.path)
        path = operation.path
        if operation.sequence:
            path = sequence_path(path, next_sequence)
            update = "UPDATE node SET next_sequence = ? WHERE path = ?"
            self._connection.execute(update, (next_sequence + 1, parent))
        row = (path, parent, operation.data, FIRST_VERSION, operation.ephemeral, 0)
        insert = "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        if self._connection.execute(insert, row).rowcount == 0:
            raise StoreError(StoreErrorKind.NODE_EXISTS, path)
        return path

    def _expect(self, path: str, expected_version: int | None) -> tuple[int, int, int]:
        select = "SELECT version, ephemeral, next_sequence FROM node WHERE path = ?"
        row: tuple[int, int, int] | None = self._connection.execute(select, (path,)).fetchone()
        if row is None:
            raise StoreError(StoreErrorKind.NO_NODE, path)
        if expected_version is not ANY_VERSION and row[0] != expected_version:
            raise StoreError(StoreErrorKind.BAD_VERSION, path)
        return row

    def close(self) -> None:
        try:
            with _transaction(self._connection):
                self._connection.execute("DELETE FROM node WHERE ephemeral")
        finally:
            self._connection.close()


def _open(path: Path, durable: bool) -> sqlite3.Connection:
    return _translated(path, lambda: _open_untranslated(path, durable))


def _open_untranslated(path: Path, durable: bool) -> sqlite3.Connection:
    import sqlite3  # an embedded broker with its metadata in memory never pays for the import

    # The file has credentials in it: it is for its owner alone, and SQLite gives the files beside it the same mode. An
    # existing file is not opened: its close would end the locks of another connection of this process. Where the file
    # cannot be made, SQLite reports the reason.
    with contextlib.suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    # Only the executor's thread uses the connection, and no other process holds the file: no need to wait.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=True)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        connection.execute("PRAGMA trusted_schema = OFF")
        with _transaction(connection):
            _prepare(path, connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(path: Path, connection: sqlite3.Connection) -> None:
    """Creates or checks the table, and removes the remains of earlier sessions."""
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application_id == 0 and version == 0 and not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
        for statement in filter(str.strip, _SCHEMA.split(";")):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        return
    if application_id != APPLICATION_ID:
        raise StoreError(StoreErrorKind.CORRUPT, str(path), "this is not a Penstock metadata store")
    if version != SCHEMA_VERSION:
        detail = f"its schema version is {version}, this version of Penstock reads {SCHEMA_VERSION}"
        raise StoreError(StoreErrorKind.CORRUPT, str(path), detail)
    connection.execute("DELETE FROM node WHERE ephemeral")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _translated(path: Path, function: Callable[[], Value]) -> Value:
    """Runs a function and turns SQLite's errors into ours."""
    import sqlite3

    try:
        return function()
    except sqlite3.OperationalError as error:
        kind = StoreErrorKind.IN_USE if error.sqlite_errorcode == sqlite3.SQLITE_BUSY else StoreErrorKind.NOT_WRITABLE
        detail = kind.value if kind is StoreErrorKind.IN_USE else str(error)
        raise StoreError(kind, str(path), detail) from error
    except sqlite3.DatabaseError as error:
        detail = f"the metadata store is damaged ({error}); restore it from a backup or move it away to start anew"
        raise StoreError(StoreErrorKind.CORRUPT, str(path), detail) from error
