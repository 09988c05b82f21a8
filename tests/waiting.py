"""Waiting on a loop for what nobody tells a test of: the turns of other tasks, a thread, a file, a socket."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator

# Longer than anything takes on a busy machine.
PATIENCE_S = 20.0
# What only needs the turns of other tasks is seen at once. What takes longer is done elsewhere, on a thread or behind a
# socket, and is left the core meanwhile.
_TURNS = 100
_PAUSE_S = 0.001


async def until(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Returns as soon as it holds; a test that waits in vain ends."""
    async with asyncio.timeout(patience_s):
        for pause_s in _pauses():
            if condition():
                return
            await asyncio.sleep(pause_s)


async def eventually(condition: Callable[[], Awaitable[object]]) -> None:
    """`until`, for a condition that has to be asked for."""
    async with asyncio.timeout(PATIENCE_S):
        for pause_s in _pauses():
            if await condition():
                return
            await asyncio.sleep(pause_s)


async def turns(count: int = 5) -> None:
    """Everybody else on the loop gets as many."""
    for _ in range(count):
        await asyncio.sleep(0)


def _pauses() -> Iterator[float]:
    return itertools.chain(itertools.repeat(0.0, _TURNS), itertools.repeat(_PAUSE_S))
