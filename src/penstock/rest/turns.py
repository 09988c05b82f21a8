"""Long work on the loop, in slices: for all callers together one slice in each turn of the loop.

Whoever has short work to do waits for one slice, however many callers have long work.
"""

from __future__ import annotations

import asyncio


class Turns:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Returns when it is the caller's turn, first come, first served; a slice takes a millisecond or so."""
        async with self._lock:
            await asyncio.sleep(0)
