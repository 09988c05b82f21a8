"""Waiting writers with acks=all, until all in-sync replicas have their records.

The order is by offset: a rising high watermark looks at the writers that it reaches and at no other, however many wait.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush

from penstock.protocol.errors import ErrorCode

# The offset to reach, a number that makes entries comparable, the waiting writer, and the writer's deadline.
_Entry = tuple[int, int, asyncio.Future[ErrorCode], asyncio.TimerHandle]


class Acknowledgements:
    __slots__ = ("_done_early", "_entries", "_number")

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._number = 0
        self._done_early = 0  # entries that are over, by time or because the client is gone, but still in the heap

    def __len__(self) -> int:
        return len(self._entries)

    def wait(self, end_offset: int, timeout_ms: int) -> asyncio.Future[ErrorCode]:
        """Costs about 3 us."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ErrorCode] = loop.create_future()
        timer = loop.call_later(max(timeout_ms, 0) / 1000, self._expire, future)
        self._number += 1
        heappush(self._entries, (end_offset, self._number, future, timer))
        return future

    def release(self, high_watermark: int, code: ErrorCode) -> None:
        """Gives the code to every writer whose records are below the high watermark."""
        entries = self._entries
        while entries and entries[0][0] <= high_watermark:
            _, _, future, timer = heappop(entries)
            timer.cancel()
            if future.done():
                self._done_early = max(self._done_early - 1, 0)
            else:
                future.set_result(code)

    def refuse_all(self, code: ErrorCode) -> None:
        entries, self._entries = self._entries, []
        self._done_early = 0
        for _, _, future, timer in sorted(entries, key=lambda entry: entry[1]):
            timer.cancel()
            if not future.done():
                future.set_result(code)

    def _expire(self, future: asyncio.Future[ErrorCode]) -> None:
        if not future.done():
            future.set_result(ErrorCode.REQUEST_TIMED_OUT)
        self._done_early += 1
        # Under a watermark that stands still such entries must not pile up.
        if self._done_early * 2 > len(self._entries):
            self._entries = [entry for entry in self._entries if not entry[2].done()]
            heapify(self._entries)
            self._done_early = 0
