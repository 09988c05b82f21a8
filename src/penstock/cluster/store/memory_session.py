"""The session of a store in memory, with the faults that a test or the simulation can inject.

They can cut its connection (`suspend`, or `cut` without notice), restore it (`heal`), end the session (`expire`), and
lose the answer to a change (`lose_answer`). Time is the loop's, so that all of this runs in virtual time. The course of
events is ZooKeeper's: a client that is cut off notices after two thirds of the session's timeout, the server ends the
session when the timeout is over, and the client learns that when it is connected again.
"""

from __future__ import annotations

import asyncio
import enum

from penstock.cluster.store.interface import (
    SessionListeners,
    SessionState,
    StoreError,
    StoreErrorKind,
    Watches,
)
from penstock.cluster.store.memory_tree import MemoryTree

# The share of its timeout after which a session without an answer counts as disconnected, as in ZooKeeper's clients.
_NOTICED_AFTER = 2 / 3


class LostAnswer(enum.Enum):
    """The moment of the disconnection, relative to the change whose answer is lost."""

    BEFORE_THE_CHANGE = enum.auto()
    AFTER_THE_CHANGE = enum.auto()


class MemorySession:
    def __init__(self, tree: MemoryTree, timeout_ms: int) -> None:
        self.state = SessionState.CONNECTED
        self.id = tree.begin_session(self._hear)
        self.watches = Watches()
        self.listeners = SessionListeners()
        self._tree = tree
        self.timeout_s = timeout_ms / 1000
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of the first call
        self._connection = 0  # one more with each connection that is lost
        self._cut_at: float | None = None  # the last contact, while the server cannot be reached
        # Set while the server is unreachable and the client has not noticed.
        self._noticed: asyncio.Future[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._lost_answer: LostAnswer | None = None

    @property
    def last_contact(self) -> float:
        return self.loop().time() if self._cut_at is None else self._cut_at

    # ---- what a test or the simulation does to the session

    def cut(self) -> None:
        """The network loses everything without notice: requests wait for answers that do not come."""
        if self._cut_at is not None:
            return
        loop = self.loop()
        self._cut_at = loop.time()
        self._noticed = loop.create_future()
        session_id = self.id
        self._timers = [
            loop.call_later(self.timeout_s * _NOTICED_AFTER, self.suspend),
            loop.call_later(self.timeout_s, self._tree.end_session, session_id),
        ]

    def suspend(self) -> None:
        """The connection is reset, or the client notices a cut."""
        self.cut()
        if self._noticed is not None:
            self._connection += 1
            self._notice()
            self._enter(SessionState.SUSPENDED)

    def heal(self) -> None:
        """The server is reachable again. If it has ended the session, the client learns that now."""
        if self._cut_at is None:
            return
        self._cut_at = None
        for timer in self._timers:
            timer.cancel()
        self._notice()
        if not self._tree.has_session(self.id):
            self._learn_the_end()
        elif self.state is SessionState.SUSPENDED:
            self._connect()
        else:
            self.watches.tell_all()  # the answers on their way during the cut

    def expire(self) -> None:
        """The server ends the session. A connected client learns that at once."""
        self._tree.end_session(self.id)
        if self._cut_at is None and not self._is_closed:
            self._connection += 1
            self._learn_the_end()

    def lose_answer(self, when: LostAnswer) -> None:
        """The next transaction ends with an unknown outcome. The connection comes back at once."""
        self._lost_answer = when

    def take_lost_answer(self) -> LostAnswer | None:
        lost, self._lost_answer = self._lost_answer, None
        return lost

    def reconnect(self) -> None:
        """The connection is reset, and comes back at once."""
        self.suspend()
        self.loop().call_soon(self.heal)

    def _learn_the_end(self) -> None:
        self._enter(SessionState.ENDED)
        self.loop().call_soon(self._begin_again)

    def _begin_again(self) -> None:
        if self._is_closed or self.state is not SessionState.ENDED:
            return
        if self._cut_at is None:
            self.id = self._tree.begin_session(self._hear)
            self._connect()

    def _connect(self) -> None:
        self._enter(SessionState.CONNECTED)
        self.watches.tell_all()

    def _enter(self, state: SessionState) -> None:
        if not self._is_closed:
            self.state = state
            self.listeners.tell(state)

    def _notice(self) -> None:
        noticed, self._noticed = self._noticed, None
        if noticed is not None and not noticed.done():
            noticed.set_result(None)

    # ---- what the store asks of it

    async def reach(self, path: str, kind: StoreErrorKind) -> int:
        """The connection of a request. A request into a cut connection fails when the client notices the cut."""
        self.loop()
        connection = self._connection
        await self.receive(connection, path, kind)
        self.check(path)
        return connection

    async def receive(self, connection: int, path: str, kind: StoreErrorKind) -> None:
        """An answer comes over the connection of its request, or never."""
        while self._noticed is not None:
            await asyncio.shield(self._noticed)
        if connection != self._connection:
            raise StoreError(kind, path)

    def close(self) -> None:
        """Without a connection the session stays until its timeout is over, as any other silent session."""
        self._is_closed = True
        self.state = SessionState.ENDED
        if self._cut_at is None:
            self._tree.end_session(self.id)

    def check(self, path: str) -> None:
        if self._is_closed:
            raise StoreError(StoreErrorKind.CLOSED, path)
        if self.state is SessionState.SUSPENDED:
            raise StoreError(StoreErrorKind.UNAVAILABLE, path)
        if self.state is SessionState.ENDED or not self._tree.has_session(self.id):
            raise StoreError(StoreErrorKind.SESSION_ENDED, path)

    def _hear(self, changed: set[str]) -> None:
        """A change of the tree calls this, perhaps in the turn of another loop."""
        if self._cut_at is not None or self._loop is None:
            return
        try:
            is_our_turn = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # the simulation ends sessions between turns
            is_our_turn = False
        if is_our_turn:
            self.watches.tell(changed)
        elif not self._loop.is_closed():
            self._loop.call_soon(self.watches.tell, changed)

    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop
