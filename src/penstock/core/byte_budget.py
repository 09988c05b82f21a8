"""Bytes that callers share: a caller that finds too few free waits, and callers get theirs in the order of coming."""

from __future__ import annotations

import asyncio
from collections import deque


class ByteBudget:
    def __init__(self, size: int) -> None:
        self.size = size
        self._taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def taken(self) -> int:
        return self._taken

    async def take(self, size: int) -> None:
        """The caller gives as many back, unless this raises. A `size` above the whole budget is a mistake of the
        caller, who would wait for ever.
        """
        assert size <= self.size, "more than there is in all"
        if self._waiting or self._taken + size > self.size:
            await self._wait(size)
        else:
            self._taken += size

    def take_more(self, size: int) -> bool:
        """For a caller that has room already, ahead of those that wait. False where fewer bytes are free."""
        if self._taken + size > self.size:
            return False
        self._taken += size
        return True

    def give_back(self, size: int) -> None:
        self._taken -= size
        if self._waiting:
            self._let_in()

    async def _wait(self, size: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._taken -= size
            self._let_in()
            raise

    def _let_in(self) -> None:
        """A caller that was cancelled a moment ago may still stand in the queue: its task has not run since."""
        while self._waiting:
            size, turn = self._waiting[0]
            if not turn.done():
                if self._taken + size > self.size:
                    return
                self._taken += size
                turn.set_result(None)
            self._waiting.popleft()
