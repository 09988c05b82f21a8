"""Long work on the loop, in slices: all callers together get one slice in each turn of the loop.

Short work waits for one slice, however many callers have long work.
"""

from __future__ import annotations

import asyncio


class FairYield:
    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def take(self) -> None:
        """Returns when it is the caller's turn, first come, first served; a slice takes a millisecond or so."""
        async with self._lock:
            await asyncio.sleep(0)
