"""The shared state of several sessions on one store in memory: the nodes, the connected sessions, and the turn.

A transaction of many operations gives other tasks their turns of the loop in between. The turn, a lock, keeps other
users from seeing half of it. Users may live in several event loops of one thread, as the brokers of a simulation do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from penstock.cluster.store.interface import (
    ANY_VERSION,
    FIRST_VERSION,
    Check,
    CompareAndSet,
    Create,
    Delete,
    Operation,
    Result,
    StoreError,
    StoreErrorKind,
    check_operation,
    parent_of,
    sequence_path,
)

# The number of operations in one turn of the loop: about 1 ms.
_OPERATIONS_PER_TURN = 200

# Called with the changed paths.
Listener = Callable[[set[str]], None]


@dataclass(slots=True)
class Entry:
    data: bytes
    version: int = FIRST_VERSION
    # The session of an ephemeral node.
    owner: str | None = None
    next_sequence: int = 0
    children: set[str] = field(default_factory=set)


class Turns:
    """A fair lock for tasks of several loops in one thread; asyncio's own belongs to one loop."""

    def __init__(self, after: Callable[[], None]) -> None:
        """`after` is called at the end of each turn, before the next one begins."""
        self.is_held = False
        self._after = after
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        if not self.is_held:
            self.is_held = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._pass_on()  # it had its turn already
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        self._after()
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.is_held = False


class MemoryTree:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {"/": Entry(b"")}
        self.turns = Turns(self._remove_ended)
        self._listeners: dict[str, Listener] = {}  # by session
        self._ended: list[str] = []  # sessions whose nodes are deleted at the end of the current turn
        self._session_count = 0

    def begin_session(self, listener: Listener) -> str:
        self._session_count += 1
        session_id = f"{self._session_count:x}"
        self._listeners[session_id] = listener
        return session_id

    def has_session(self, session_id: str) -> bool:
        return session_id in self._listeners

    def end_session(self, session_id: str) -> None:
        """As the server does it: whatever the session's owner knows, its ephemeral nodes are deleted."""
        if self._listeners.pop(session_id, None) is not None:
            self._ended.append(session_id)
            if not self.turns.is_held:
                self._remove_ended()

    def _remove_ended(self) -> None:
        while self._ended:
            session_id = self._ended.pop(0)
            mine = [path for path, entry in self.entries.items() if entry.owner == session_id]
            changed: set[str] = set()
            for path in mine:
                self._apply(Delete(path), session_id, [], changed)
            self._tell(changed)

    def _tell(self, changed: set[str]) -> None:
        for listener in list(self._listeners.values()):
            listener(changed)

    async def transact(self, operations: Sequence[Operation], session_id: str) -> Sequence[Result]:
        """Call with the turn held."""
        undo: list[Callable[[], None]] = []
        changed: set[str] = set()
        results: list[Result] = []
        try:
            for operation in operations:
                if results and len(results) % _OPERATIONS_PER_TURN == 0:
                    await asyncio.sleep(0)
                results.append(self._apply(operation, session_id, undo, changed))
        except BaseException:  # also when the caller is cancelled
            for step in reversed(undo):
                step()
            raise
        self._tell(changed)
        return results

    def expect(self, path: str, expected_version: int | None = ANY_VERSION) -> Entry:
        entry = self.entries.get(path)
        if entry is None:
            raise StoreError(StoreErrorKind.NO_NODE, path)
        if expected_version is not ANY_VERSION and entry.version != expected_version:
            raise StoreError(StoreErrorKind.BAD_VERSION, path)
        return entry

    def _apply(
        self, operation: Operation, session_id: str, undo: list[Callable[[], None]], changed: set[str]
    ) -> Result:
        check_operation(operation)
        match operation:
            case Create():
                path = self._create(operation, session_id, undo)
                changed.update((path, parent_of(path)))
                return path
            case CompareAndSet(path, data, expected_version):
                version = self._set(self.expect(path, expected_version), data, undo)
                changed.add(path)
                return version
            case Delete(path, expected_version):
                self._delete(path, self.expect(path, expected_version), undo)
                changed.update((path, parent_of(path)))
                return None
            case Check(path, expected_version):
                self.expect(path, expected_version)
                return None

    def _create(self, operation: Create, session_id: str, undo: list[Callable[[], None]]) -> str:
        entries = self.entries
        parent = self.expect(parent_of(operation.path))
        if parent.owner is not None:
            raise StoreError(StoreErrorKind.NO_CHILDREN_FOR_EPHEMERALS, operation.path)
        path = sequence_path(operation.path, parent.next_sequence) if operation.sequence else operation.path
        if path in entries:
            raise StoreError(StoreErrorKind.NODE_EXISTS, path)
        name = path.rpartition("/")[2]
        entries[path] = Entry(operation.data, owner=session_id if operation.ephemeral else None)
        parent.children.add(name)
        parent.next_sequence += operation.sequence

        def take_back() -> None:
            del entries[path]
            parent.children.discard(name)
            parent.next_sequence -= operation.sequence

        undo.append(take_back)
        return path

    @staticmethod
    def _set(entry: Entry, data: bytes, undo: list[Callable[[], None]]) -> int:
        before = entry.data, entry.version

        def take_back() -> None:
            entry.data, entry.version = before

        undo.append(take_back)
        entry.data, entry.version = data, entry.version + 1
        return entry.version

    def _delete(self, path: str, entry: Entry, undo: list[Callable[[], None]]) -> None:
        if entry.children:
            raise StoreError(StoreErrorKind.NOT_EMPTY, path)
        entries = self.entries
        siblings = entries[parent_of(path)].children
        name = path.rpartition("/")[2]
        del entries[path]
        siblings.discard(name)

        def take_back() -> None:
            entries[path] = entry
            siblings.add(name)

        undo.append(take_back)
