"""A loop whose time stands still while something can be done, and jumps to the next timer when nothing can.

Half a minute of a broker's life takes as long as its work does, and no test depends on how fast the machine is. Work
for an executor is done on the loop. What a test runs here has no threads and sockets of its own: time would jump over
their work.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from penstock.testing.clock import A_MOMENT_MS

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class _JumpingSelector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(0)
        if not found:
            if timeout is None:
                raise RuntimeError("everybody waits, and nothing will happen")
            self.now += max(timeout, 0.0)
        return found


class OwnTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        """A turn later, so that whoever asks goes on first."""
        return asyncio.ensure_future(_called(func, args), loop=self)


async def _called(func: Callable[[*Arguments], Result], args: tuple[*Arguments]) -> Result:
    return func(*args)


class LoopClock:
    """The time of the running loop."""

    def now_ms(self) -> int:
        return A_MOMENT_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)


def run_in_own_time(scenario: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=OwnTimeLoop) as runner:
        return runner.run(scenario)


async def pass_time(seconds: float) -> None:
    """All timers that are due until then have fired, in no time. On another loop a test would sleep."""
    assert isinstance(asyncio.get_running_loop(), OwnTimeLoop)
    await asyncio.sleep(seconds)
