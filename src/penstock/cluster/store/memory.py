"""A store in memory: for embedded brokers with temporary data, for tests, and for the simulation.

A test or the simulation cuts the connection, or ends the session, by `MemoryStore.session`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.cluster.store.interface import (
    ANY_VERSION,
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
    check_path,
    check_transaction,
    path_and_parents,
)
from penstock.cluster.store.memory_session import LostAnswer, MemorySession
from penstock.cluster.store.memory_tree import MemoryTree

__all__ = ["LostAnswer", "MemoryStore", "MemoryTree"]


class MemoryStore:
    """One session. Give several stores the same tree to play several brokers of one cluster."""

    def __init__(
        self,
        tree: MemoryTree | None = None,
        *,
        session_timeout_ms: int = 6000,
        transaction_limit: TransactionLimit | None = None,
    ) -> None:
        self._tree = tree or MemoryTree()
        self._transaction_limit = transaction_limit
        self.session = MemorySession(self._tree, session_timeout_ms)

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def session_state(self) -> SessionState:
        return self.session.state

    @property
    def last_contact(self) -> float:
        return self.session.last_contact

    @property
    def session_timeout_s(self) -> float:
        return self.session.timeout_s

    @property
    def transaction_limit(self) -> TransactionLimit | None:
        return self._transaction_limit

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        return self.session.listeners.add(listener)

    async def sync(self, path: str) -> None:
        await self.read(path)

    async def read(self, path: str) -> Node | None:
        return (await self.read_many([path]))[0]

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        about = paths[0] if paths else "/"
        connection = await self.session.reach(about, StoreErrorKind.UNAVAILABLE)
        async with self._tree.turns:
            self.session.check(about)
            entries = [self._tree.entries.get(path) for path in paths]
            nodes = [None if entry is None else Node(entry.data, entry.version, entry.owner) for entry in entries]
        await self.session.receive(connection, about, StoreErrorKind.UNAVAILABLE)
        return nodes

    async def children(self, path: str) -> list[str]:
        check_path(path)
        connection = await self.session.reach(path, StoreErrorKind.UNAVAILABLE)
        async with self._tree.turns:
            self.session.check(path)
            names = sorted(self._tree.expect(path).children)
        await self.session.receive(connection, path, StoreErrorKind.UNAVAILABLE)
        return names

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        (created,) = await self.transaction([Create(path, data, ephemeral, sequence)])
        assert isinstance(created, str)
        return created

    async def ensure_path(self, path: str) -> None:
        check_path(path)
        connection = await self.session.reach(path, StoreErrorKind.OUTCOME_UNKNOWN)
        async with self._tree.turns:
            self.session.check(path)
            missing = [Create(each) for each in path_and_parents(path) if each not in self._tree.entries]
            await self._tree.transact(missing, self.session.id)
        await self.session.receive(connection, path, StoreErrorKind.OUTCOME_UNKNOWN)

    async def compare_and_set(self, path: str, data: bytes, expected_version: int | None) -> int:
        (version,) = await self.transaction([CompareAndSet(path, data, expected_version)])
        assert isinstance(version, int)
        return version

    async def delete(self, path: str, expected_version: int | None = ANY_VERSION) -> None:
        await self.transaction([Delete(path, expected_version)])

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        check_transaction(operations, self._transaction_limit)
        about = operations[0].path if operations else "/"
        connection = await self.session.reach(about, StoreErrorKind.OUTCOME_UNKNOWN)
        async with self._tree.turns:
            self.session.check(about)
            lost = self.session.take_lost_answer()
            if lost is LostAnswer.BEFORE_THE_CHANGE:
                self.session.reconnect()
                raise StoreError(StoreErrorKind.OUTCOME_UNKNOWN, about)
            results = await self._tree.transact(operations, self.session.id)
        if lost is LostAnswer.AFTER_THE_CHANGE:
            self.session.reconnect()
        await self.session.receive(connection, about, StoreErrorKind.OUTCOME_UNKNOWN)
        return results

    def watch(self, path: str, watcher: Watcher, *, children: bool = True) -> Callable[[], None]:
        self.session.loop()
        return self.session.watches.add(path, watcher, children=children)

    async def close(self) -> None:
        async with self._tree.turns:
            self.session.close()
