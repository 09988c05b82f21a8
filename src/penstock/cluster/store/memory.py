"""A store in memory: for embedded brokers whose data is temporary anyway, for tests, and for the simulation.

A test or the simulation can take a session's connection away (`suspend`, or `cut` without a word), give it back
(`heal`), end the session (`expire`), and lose the answer to a change (`lose_answer`). Time is the loop's, so that all
of this runs in virtual time. The course of events is ZooKeeper's: a client that is cut off notices after two thirds of
the session's timeout, the server ends the session when the timeout is over, and the client learns that when it is
connected again.
"""

from __future__ import annotations

import asyncio
import enum
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
    SessionListeners,
    SessionState,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
    Watcher,
    Watches,
    check_path,
    check_transaction,
    path_and_parents,
)
from penstock.cluster.store.memory_tree import MemoryTree

__all__ = ["LostAnswer", "MemoryStore", "MemoryTree"]

# The share of its timeout after which a session without an answer is taken for disconnected, as in ZooKeeper's clients.
_NOTICED_AFTER = 2 / 3


class LostAnswer(enum.Enum):
    """When the connection breaks, seen from the change whose answer is lost."""

    BEFORE_THE_CHANGE = enum.auto()
    AFTER_THE_CHANGE = enum.auto()


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
        self._session_timeout_s = session_timeout_ms / 1000
        self._transaction_limit = transaction_limit
        self._watches = Watches()
        self._listeners = SessionListeners()
        self._closed = False
        self._session_id = self._tree.begin_session(self._hear)
        self._session_state = SessionState.CONNECTED
        self._loop: asyncio.AbstractEventLoop | None = None  # that of the first call
        self._connection = 0  # one more with each connection that is lost
        self._cut_at: float | None = None  # the last contact, while the server cannot be reached
        self._noticed: asyncio.Future[None] | None = None  # while it cannot be reached, and nobody here knows
        self._timers: list[asyncio.TimerHandle] = []
        self._lost_answer: LostAnswer | None = None

    # ---- the session

    @property
    def session_id(self) -> str:
        return self._session_id

    @property
    def session_state(self) -> SessionState:
        return self._session_state

    @property
    def last_contact(self) -> float:
        return self._own_loop().time() if self._cut_at is None else self._cut_at

    @property
    def transaction_limit(self) -> TransactionLimit | None:
        return self._transaction_limit

    def on_session(self, listener: SessionListener) -> Callable[[], None]:
        return self._listeners.add(listener)

    # ---- calls

    async def sync(self, path: str) -> None:
        await self.read(path)

    async def read(self, path: str) -> Node | None:
        return (await self.read_many([path]))[0]

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        for path in paths:
            check_path(path)
        about = paths[0] if paths else "/"
        connection = await self._reach(about, StoreErrorKind.UNAVAILABLE)
        async with self._tree.turns:
            self._check_open(about)
            entries = [self._tree.entries.get(path) for path in paths]
            nodes = [None if entry is None else Node(entry.data, entry.version, entry.owner) for entry in entries]
        await self._receive(connection, about, StoreErrorKind.UNAVAILABLE)
        return nodes

    async def children(self, path: str) -> list[str]:
        check_path(path)
        connection = await self._reach(path, StoreErrorKind.UNAVAILABLE)
        async with self._tree.turns:
            self._check_open(path)
            names = sorted(self._tree.expect(path).children)
        await self._receive(connection, path, StoreErrorKind.UNAVAILABLE)
        return names

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        (created,) = await self.transaction([Create(path, data, ephemeral, sequence)])
        assert isinstance(created, str)
        return created

    async def ensure_path(self, path: str) -> None:
        check_path(path)
        connection = await self._reach(path, StoreErrorKind.OUTCOME_UNKNOWN)
        async with self._tree.turns:
            self._check_open(path)
            missing = [Create(each) for each in path_and_parents(path) if each not in self._tree.entries]
            await self._tree.transact(missing, self._session_id)
        await self._receive(connection, path, StoreErrorKind.OUTCOME_UNKNOWN)

    async def compare_and_set(self, path: str, data: bytes, expected_version: int | None) -> int:
        (version,) = await self.transaction([CompareAndSet(path, data, expected_version)])
        assert isinstance(version, int)
        return version

    async def delete(self, path: str, expected_version: int | None = ANY_VERSION) -> None:
        await self.transaction([Delete(path, expected_version)])

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        check_transaction(operations, self._transaction_limit)
        about = operations[0].path if operations else "/"
        connection = await self._reach(about, StoreErrorKind.OUTCOME_UNKNOWN)
        async with self._tree.turns:
            self._check_open(about)
            lost, self._lost_answer = self._lost_answer, None
            if lost is LostAnswer.BEFORE_THE_CHANGE:
                self._reconnect()
                raise StoreError(StoreErrorKind.OUTCOME_UNKNOWN, about)
            results = await self._tree.transact(operations, self._session_id)
        if lost is LostAnswer.AFTER_THE_CHANGE:
            self._reconnect()
        await self._receive(connection, about, StoreErrorKind.OUTCOME_UNKNOWN)
        return results

    def watch(self, path: str, watcher: Watcher) -> Callable[[], None]:
        self._own_loop()
        return self._watches.add(path, watcher)

    async def close(self) -> None:
        """Without a connection the session stays until its timeout is over, as any other that nobody hears of."""
        if self._closed:
            return
        async with self._tree.turns:
            self._closed = True
            self._session_state = SessionState.ENDED
            if self._cut_at is None:
                self._tree.end_session(self._session_id)

    # ---- what a test or the simulation does to the session

    def cut(self) -> None:
        """No word comes or goes any more, and nobody is told: questions wait for answers that do not come."""
        if self._cut_at is not None:
            return
        loop = self._own_loop()
        self._cut_at = loop.time()
        self._noticed = loop.create_future()
        session_id = self._session_id
        self._timers = [
            loop.call_later(self._session_timeout_s * _NOTICED_AFTER, self.suspend),
            loop.call_later(self._session_timeout_s, self._tree.end_session, session_id),
        ]

    def suspend(self) -> None:
        """The connection is reset, or a cut is noticed."""
        self.cut()
        if self._noticed is not None:
            self._connection += 1
            self._notice()
            self._enter(SessionState.SUSPENDED)

    def heal(self) -> None:
        """The server can be reached again. If it has ended the session, that is learnt now."""
        if self._cut_at is None:
            return
        self._cut_at = None
        for timer in self._timers:
            timer.cancel()
        self._notice()
        if not self._tree.has_session(self._session_id):
            self._learn_the_end()
        elif self._session_state is SessionState.SUSPENDED:
            self._connect()
        else:
            self._watches.tell_all()  # what was on its way during the cut

    def expire(self) -> None:
        """The server ends the session. A connected client learns that at once."""
        self._tree.end_session(self._session_id)
        if self._cut_at is None and not self._closed:
            self._connection += 1
            self._learn_the_end()

    def lose_answer(self, when: LostAnswer) -> None:
        """The next transaction ends with an unknown outcome. The connection comes back at once."""
        self._lost_answer = when

    def _reconnect(self) -> None:
        self.suspend()
        self._own_loop().call_soon(self.heal)

    def _learn_the_end(self) -> None:
        self._enter(SessionState.ENDED)
        self._own_loop().call_soon(self._begin_again)

    def _begin_again(self) -> None:
        if self._closed or self._session_state is not SessionState.ENDED:
            return
        if self._cut_at is None:
            self._session_id = self._tree.begin_session(self._hear)
            self._connect()

    def _connect(self) -> None:
        self._enter(SessionState.CONNECTED)
        self._watches.tell_all()

    def _enter(self, state: SessionState) -> None:
        if not self._closed:
            self._session_state = state
            self._listeners.tell(state)

    def _notice(self) -> None:
        noticed, self._noticed = self._noticed, None
        if noticed is not None and not noticed.done():
            noticed.set_result(None)

    # ---- the way there and back

    async def _reach(self, path: str, kind: StoreErrorKind) -> int:
        """The connection that a question goes over. A question into silence fails when the silence is noticed."""
        self._own_loop()
        connection = self._connection
        await self._receive(connection, path, kind)
        self._check_open(path)
        return connection

    async def _receive(self, connection: int, path: str, kind: StoreErrorKind) -> None:
        """An answer comes over the connection that its question went over, or never."""
        while self._noticed is not None:
            await asyncio.shield(self._noticed)
        if connection != self._connection:
            raise StoreError(kind, path)

    def _check_open(self, path: str) -> None:
        if self._closed:
            raise StoreError(StoreErrorKind.CLOSED, path)
        if self._session_state is SessionState.SUSPENDED:
            raise StoreError(StoreErrorKind.UNAVAILABLE, path)
        if self._session_state is SessionState.ENDED or not self._tree.has_session(self._session_id):
            raise StoreError(StoreErrorKind.SESSION_ENDED, path)

    def _hear(self, changed: set[str]) -> None:
        """Called by whoever changes the tree, perhaps in the turn of another loop."""
        if self._cut_at is not None or self._loop is None:
            return
        try:
            is_our_turn = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # the simulation ends sessions between turns
            is_our_turn = False
        if is_our_turn:
            self._watches.tell(changed)
        elif not self._loop.is_closed():
            self._loop.call_soon(self._watches.tell, changed)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop
