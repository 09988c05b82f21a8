"""A store in memory: for tests, and for embedded brokers whose data is temporary anyway.

A transaction of many operations gives others their turns of the loop in between. A lock keeps other users of the store
from seeing half of it. Every call looks at the tree and at its session only while it holds the lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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
    StoreError,
    StoreErrorKind,
    Watcher,
    Watches,
    check_operation,
    check_path,
    parent_of,
    path_and_parents,
    sequence_path,
)

# Operations done in one turn of the loop: about 1 ms.
_OPERATIONS_PER_TURN = 200


@dataclass(slots=True)
class _Entry:
    data: bytes
    version: int = FIRST_VERSION
    # The session that made it, for an ephemeral node.
    owner: object | None = None
    next_sequence: int = 0
    children: set[str] = field(default_factory=set)


@dataclass(slots=True)
class MemoryTree:
    """What several sessions on one store in memory share."""

    entries: dict[str, _Entry] = field(default_factory=lambda: {"/": _Entry(b"")})
    watches: Watches = field(default_factory=Watches)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # held by a transaction under way


class MemoryStore:
    """One session. Give several stores the same tree to play several brokers of one cluster."""

    def __init__(self, tree: MemoryTree | None = None) -> None:
        self._tree = tree or MemoryTree()
        self._closed = False

    async def read(self, path: str) -> Node | None:
        return (await self.read_many([path]))[0]

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        async with self._tree.lock:
            self._check_open(paths[0] if paths else "/")
            entries = [self._tree.entries.get(path) for path in paths]
            return [None if entry is None else Node(entry.data, entry.version) for entry in entries]

    async def children(self, path: str) -> list[str]:
        check_path(path)
        async with self._tree.lock:
            self._check_open(path)
            return sorted(self._expect(path, ANY_VERSION).children)

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        (created,) = await self.transaction([Create(path, data, ephemeral, sequence)])
        assert isinstance(created, str)
        return created

    async def ensure_path(self, path: str) -> None:
        check_path(path)
        async with self._tree.lock:
            self._check_open(path)
            await self._transact([Create(each) for each in path_and_parents(path) if each not in self._tree.entries])

    async def compare_and_set(self, path: str, data: bytes, expected_version: int | None) -> int:
        (version,) = await self.transaction([CompareAndSet(path, data, expected_version)])
        assert isinstance(version, int)
        return version

    async def delete(self, path: str, expected_version: int | None = ANY_VERSION) -> None:
        await self.transaction([Delete(path, expected_version)])

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        async with self._tree.lock:
            self._check_open(operations[0].path if operations else "/")
            return await self._transact(operations)

    async def _transact(self, operations: Sequence[Operation]) -> Sequence[Result]:
        """With the lock held."""
        undo: list[Callable[[], None]] = []
        changed: set[str] = set()
        results: list[Result] = []
        try:
            for operation in operations:
                if results and len(results) % _OPERATIONS_PER_TURN == 0:
                    await asyncio.sleep(0)
                results.append(self._apply(operation, undo, changed))
        except BaseException:  # also when the caller is cancelled
            for step in reversed(undo):
                step()
            raise
        self._tree.watches.tell(changed)
        return results

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        return self._tree.watches.add(path, watcher)

    async def close(self) -> None:
        async with self._tree.lock:
            mine = [path for path, entry in self._tree.entries.items() if entry.owner is self]
            await self._transact([Delete(path) for path in mine])
            self._closed = True

    def _apply(self, operation: Operation, undo: list[Callable[[], None]], changed: set[str]) -> Result:
        check_operation(operation)
        match operation:
            case Create():
                path = self._create(operation, undo)
                changed.update((path, parent_of(path)))
                return path
            case CompareAndSet(path, data, expected_version):
                version = self._set(self._expect(path, expected_version), data, undo)
                changed.add(path)
                return version
            case Delete(path, expected_version):
                self._delete(path, self._expect(path, expected_version), undo)
                changed.update((path, parent_of(path)))
                return None
            case Check(path, expected_version):
                self._expect(path, expected_version)
                return None

    def _create(self, operation: Create, undo: list[Callable[[], None]]) -> str:
        entries = self._tree.entries
        parent = self._expect(parent_of(operation.path), ANY_VERSION)
        if parent.owner is not None:
            raise StoreError(StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS, operation.path)
        path = sequence_path(operation.path, parent.next_sequence) if operation.sequence else operation.path
        if path in entries:
            raise StoreError(StoreErrorKind.NODE_EXISTS, path)
        name = path.rpartition("/")[2]
        entries[path] = _Entry(operation.data, owner=self if operation.ephemeral else None)
        parent.children.add(name)
        parent.next_sequence += operation.sequence

        def take_back() -> None:
            del entries[path]
            parent.children.discard(name)
            parent.next_sequence -= operation.sequence

        undo.append(take_back)
        return path

    @staticmethod
    def _set(entry: _Entry, data: bytes, undo: list[Callable[[], None]]) -> int:
        before = entry.data, entry.version

        def take_back() -> None:
            entry.data, entry.version = before

        undo.append(take_back)
        entry.data, entry.version = data, entry.version + 1
        return entry.version

    def _delete(self, path: str, entry: _Entry, undo: list[Callable[[], None]]) -> None:
        if entry.children:
            raise StoreError(StoreErrorKind.NOT_EMPTY, path)
        entries = self._tree.entries
        siblings = entries[parent_of(path)].children
        name = path.rpartition("/")[2]
        del entries[path]
        siblings.discard(name)

        def take_back() -> None:
            entries[path] = entry
            siblings.add(name)

        undo.append(take_back)

    def _expect(self, path: str, expected_version: int | None) -> _Entry:
        entry = self._tree.entries.get(path)
        if entry is None:
            raise StoreError(StoreErrorKind.NO_NODE, path)
        if expected_version is not ANY_VERSION and entry.version != expected_version:
            raise StoreError(StoreErrorKind.BAD_VERSION, path)
        return entry

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise StoreError(StoreErrorKind.CLOSED, path)
