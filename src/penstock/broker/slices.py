"""Work on many elements in slices, so that no client waits long behind a request that names everything.

Rules.
- A `Work` is a generator. At each `yield` another request may have a turn. Its return value is its result.
- Work that ends within its first slice ends at once, in the turn of the loop in which the request came. Requests of a
  normal size never leave that path.
- Other work waits in one queue. In each turn of the loop one piece of work advances by one slice, so that ten large
  requests hold the loop no longer than one does.
- The broker may change between two slices of a work. The work takes values that must not change, such as the metadata
  image, once, before the first `yield`.

The decision and its alternatives are in docs/adr/0013-work-in-slices.md.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, TypeVar

Element = TypeVar("Element")
Result = TypeVar("Result")

Work = Generator[None, None, Result]

# The length of a slice: a fifth of the 10 ms that no request may exceed, because an element may be expensive (a search
# on disk) and because decoding, handling and encoding may each use up one slice in the same turn.
SLICE_SECONDS = 0.002
# The number of elements that a coordinator handles in one turn, where the elements need not be one decision: expiry,
# and leaving members. An offset takes some 10 us to delete, a member some 5 us to leave.
OFFSETS_PER_TURN = 250
# Shorter work does not count against the turn: a connection gets 64 requests served in a turn, and to note each of them
# would cost more than they take together.
_NOTED_SECONDS = 0.0001


def collect(elements: Iterable[Element]) -> Work[list[Element]]:
    """Collects the elements of a generator expression in a list, one element a step: `yield from collect(f(x) for x in
    many)`.
    """
    collected = []
    for element in elements:
        collected.append(element)
        yield
    return collected


def pieces(elements: Sequence[Element], size: int) -> Iterator[Sequence[Element]]:
    """`elements` in runs of at most `size`, for a coordinator's work on many elements in one turn. One run, if
    empty.
    """
    for start in range(0, max(len(elements), 1), size):
        yield elements[start : start + size]


class _NotYet(Enum):
    TOKEN = 0


_NOT_YET: Final = _NotYet.TOKEN  # in place of a result: the work needs another slice


class Slices:
    """Runs the work of all requests of one broker. Belongs to one event loop."""

    __slots__ = ("_is_scheduled", "_spent_seconds", "_waiting", "stopwatch")

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        self.stopwatch = stopwatch
        self._waiting: deque[asyncio.Future[None]] = deque()  # work that waits for its next turn
        self._is_scheduled = False
        self._spent_seconds = 0.0  # in this turn, by work that ended at once

    def begin(self, work: Work[Result]) -> Result | Awaitable[Result]:
        """The result, if the first slice is enough and other work has not used up this turn."""
        result = self._advance_at_once(work)
        return self.finish(work) if result is _NOT_YET else result

    async def run(self, work: Work[Result]) -> Result:
        """The same for an asynchronous handler."""
        result = self._advance_at_once(work)
        return await self.finish(work) if result is _NOT_YET else result

    async def finish(self, work: Work[Result]) -> Result:
        """The result, after as many slices as needed, each in a turn of its own."""
        while True:
            await self._next_turn()
            result = self._advance(work, self.stopwatch())
            if result is not _NOT_YET:
                return result

    async def each(self, elements: Iterable[Element]) -> AsyncIterator[Element]:
        """The elements, for an asynchronous handler that handles each of them."""
        deadline = self.stopwatch() + SLICE_SECONDS
        for element in elements:
            yield element
            if self.stopwatch() >= deadline:
                await self._next_turn()
                deadline = self.stopwatch() + SLICE_SECONDS

    def _next_turn(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._give_turn)
        return turn

    def _give_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # otherwise its client is gone
                turn.set_result(None)
                break
        self._is_scheduled = bool(self._waiting)
        if self._is_scheduled:
            asyncio.get_running_loop().call_soon(self._give_turn)

    def _advance_at_once(self, work: Work[Result]) -> Result | _NotYet:
        if self._spent_seconds >= SLICE_SECONDS:
            return _NOT_YET
        started = self.stopwatch()
        result = self._advance(work, started)
        seconds = self.stopwatch() - started
        if seconds > _NOTED_SECONDS:
            if not self._spent_seconds:
                asyncio.get_running_loop().call_soon(self._forget_spent)
            self._spent_seconds += seconds
        return result

    def _advance(self, work: Work[Result], started: float) -> Result | _NotYet:
        stopwatch, deadline = self.stopwatch, started + SLICE_SECONDS
        try:
            next(work)
            while stopwatch() < deadline:
                next(work)
        except StopIteration as stop:
            result: Result = stop.value
            return result
        return _NOT_YET

    def _forget_spent(self) -> None:
        self._spent_seconds = 0.0
