"""An event loop in virtual time, for one life of a broker.

What is ready runs in the order in which it became so, as in asyncio's own loops. Timers are events of the world. Work
for threads waits for a moment that chance chooses, and then runs in one piece: a thread seen from the loop, without a
thread. When the life ends, everything that waits is cancelled, and nothing of it reaches the world any more.

A paused loop stands still, as a stopped process does: time goes on, timers become due, and all of that runs when the
loop goes on.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from penstock.broker.session import Settling
from proof.simulation.world import BROKER, World

# A loop that never comes to rest is a bug of its own.
_MOST_TURNS = 200_000
# How long work for a thread takes, mostly and sometimes.
_JOB_MS = (0.0, 0.05, 0.2, 1.0, 5.0, 40.0)


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, world: World, chance: random.Random, owner: int = BROKER) -> None:
        """`owner` is whose events the loop's timers are, in the world's order."""
        self._world = world
        self._chance = chance
        self._owner = owner
        self._ready: deque[asyncio.Handle] = deque()
        self._is_closed = False
        self._is_dying = False
        self.tasks: dict[asyncio.Task[Any], None] = {}  # in the order in which they began
        self.failures: list[str] = []
        self.is_in_thread = False  # while work for a thread runs
        self.is_paused = False
        self.slowness = 1.0  # how many times longer than usual work for threads takes

    # ---- what asyncio asks of a loop

    def time(self) -> float:
        return self._world.time_ms / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self._is_closed

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        when_ms = when * 1000
        while when_ms / 1000 < when:  # or a timer would fire a rounding error too early, and again, and again
            when_ms = math.nextafter(when_ms, math.inf)
        self._world.at(when_ms, self._owner, lambda: self._fire(handle))
        return handle

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        if not self._is_closed and not handle.cancelled():
            self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Its event finds it cancelled."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self.tasks.pop(task, None)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()

        async def work() -> Any:
            self.is_in_thread = True
            try:
                return func(*args)
            finally:
                self.is_in_thread = False

        def hand_over(done: asyncio.Task[Any]) -> None:
            error = None if done.cancelled() else done.exception()
            if future.done():
                return
            if done.cancelled():
                future.cancel()
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(done.result())

        def run() -> None:
            if not self._is_closed and not future.cancelled():
                self.create_task(work(), name="thread").add_done_callback(hand_over)

        if self._is_dying:
            self.call_soon(run)
        else:
            self._world.after(self._chance.choice(_JOB_MS) * self.slowness, self._owner, run)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_dying:
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")

    # ---- what the simulation asks of it

    def enter(self, action: Callable[[], None]) -> None:
        """Does something inside the loop, then lets it come to rest. A paused loop does it when it goes on, and a loop
        that is in the middle of something does it next.
        """
        if self.is_paused or asyncio.events._get_running_loop() is self:
            self.call_soon(action)
            return
        asyncio.events._set_running_loop(self)
        try:
            action()
        finally:
            asyncio.events._set_running_loop(None)
        self.rest()

    def rest(self) -> None:
        """Runs what is ready until nothing is. No time passes."""
        ready, turns = self._ready, 0
        if not ready or self.is_paused:
            return
        asyncio.events._set_running_loop(self)
        try:
            while ready:
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
                turns += 1
                if turns > _MOST_TURNS:
                    raise RuntimeError("the loop does not come to rest")
        finally:
            asyncio.events._set_running_loop(None)

    @property
    def has_work(self) -> bool:
        return bool(self._ready) and not self.is_paused

    def die(self) -> None:
        """Cancels all tasks. They may clean up, on a disk that nobody looks at any more."""
        self._is_dying = True
        self.is_paused = False
        for _ in range(100):
            if not self.tasks:
                break
            for task in list(self.tasks):
                _let_go_of_what_it_awaits(task.get_coro())
                task.cancel()
            self.rest()
        self.rest()
        self._is_closed = True
        if self.tasks:
            raise RuntimeError(f"{len(self.tasks)} tasks cannot be cancelled: {next(iter(self.tasks))!r}")

    def close(self) -> None:
        self._is_closed = True


def let_go(work: object) -> None:
    """Nobody will await it: its process ended in the turn in which it was made. Python complains of coroutines that
    never began, unless they are closed. (A process that serves cancels a turn later, when they have begun.)
    """
    if isinstance(work, Settling):
        let_go(work.reply)
    elif inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        _let_go_of_what_it_awaits(work)
        work.close()


def _let_go_of_what_it_awaits(work: object) -> None:
    """What a coroutine that has not begun was given."""
    if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        assert work.cr_frame is not None  # until it ends
        for each in work.cr_frame.f_locals.values():
            let_go(each)
