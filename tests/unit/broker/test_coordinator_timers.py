"""The timers of a coordinator on a loop whose time is virtual: put off, brought forward, cancelled, forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.broker.runtimes.coordinator_timers import CoordinatorTimers
from penstock.coordinators.outcome import TimerChange
from tests.own_time import pass_time, run_in_own_time


class Key(NamedTuple):
    partition: int
    name: str


A, B = Key(0, "a"), Key(1, "b")


class Fired:
    """What fired, with the time in milliseconds."""

    def __init__(self) -> None:
        self.timers: CoordinatorTimers[Key] = CoordinatorTimers(self._note)
        self.seen: list[tuple[str, int]] = []

    def _note(self, key: Key) -> None:
        self.seen.append((key.name, now_ms()))


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


def run(use: Callable[[Fired, int], Awaitable[None]]) -> list[tuple[str, int]]:
    """What fired in the end, with the milliseconds since the beginning."""
    fired = Fired()

    async def begin() -> int:
        start = now_ms()
        await use(fired, start)
        await pass_time(100)
        return start

    start = run_in_own_time(begin())
    return [(name, at_ms - start) for name, at_ms in fired.seen]


def test_timer_fires_once_and_at_its_last_deadline_when_it_is_put_off() -> None:
    async def use(fired: Fired, start: int) -> None:
        fired.timers.apply([TimerChange(A, 1000)])
        for _ in range(5):
            await pass_time(0.9)
            fired.timers.apply([TimerChange(A, 1000)])

    assert run(use) == [("a", 5500)]


def test_timer_fires_earlier_when_it_is_brought_forward() -> None:
    async def use(fired: Fired, start: int) -> None:
        fired.timers.apply([TimerChange(A, 5000)])
        fired.timers.apply([TimerChange(A, 9000)])
        fired.timers.apply([TimerChange(A, 200)])

    assert run(use) == [("a", 200)]


def test_timer_does_not_fire_when_it_is_cancelled_after_it_was_put_off() -> None:
    async def use(fired: Fired, start: int) -> None:
        fired.timers.apply([TimerChange(A, 1000), TimerChange(B, 1000)])
        await pass_time(0.5)
        fired.timers.apply([TimerChange(A, 1000)])
        await pass_time(0.7)  # the loop's own timer is over
        fired.timers.apply([TimerChange(A, None)])

    assert run(use) == [("b", 1000)]


def test_timer_is_another_when_it_is_set_again_after_its_partition_was_forgotten() -> None:
    async def use(fired: Fired, start: int) -> None:
        fired.timers.apply([TimerChange(A, 1000), TimerChange(B, 1000)])
        forgotten = fired.timers.forget(A.partition)
        fired.timers.apply([TimerChange(A, 2000)])
        await pass_time(1.5)  # the forgotten ones come up before they are cancelled
        for handle in forgotten:
            handle.cancel()

    assert run(use) == [("b", 1000), ("a", 2000)]


def test_timer_can_be_set_again_when_it_fires() -> None:
    async def use(fired: Fired, start: int) -> None:
        fired.timers.apply([TimerChange(A, 300)])
        await pass_time(0.5)
        fired.timers.apply([TimerChange(A, 300)])

    assert run(use) == [("a", 300), ("a", 800)]
