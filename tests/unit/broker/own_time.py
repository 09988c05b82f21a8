"""A loop whose time stands still while something can be done, and jumps to the next timer when nothing can.

Half a minute of a broker's life takes as long as its work does, and no test depends on how fast the machine is. What a
test runs here must not use threads: time would jump over their work.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.testing.clock import A_MOMENT_MS

Result = TypeVar("Result")


class _JumpingSelector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0 if timeout is not None else None)
        if not found and timeout is not None and timeout > 0:
            self.now += timeout
        return found


class OwnTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


class LoopClock:
    """The time of the running loop."""

    def now_ms(self) -> int:
        return A_MOMENT_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


async def until(condition: Callable[[], bool]) -> None:
    """For a minute of the loop's time at most."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # whatever it is, nobody tells us of it
            await asyncio.sleep(0.01)


def run_in_own_time(scenario: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=OwnTimeLoop) as runner:
        return runner.run(scenario)
