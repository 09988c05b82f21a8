"""Requests that wait for something to happen to a partition: Kafka's purgatory, as futures with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Protocol


class Watched(Protocol):
    waiters: dict[Waiter, None]


class Waiter:
    """Waits until `needed` bytes more have arrived on the partitions it watches.

    The watch begins with the call of `wait`, not with the turn of the loop in which the caller awaits the result: a
    caller that looks and then waits misses no arrival between.
    """

    __slots__ = ("_future", "_hurry", "_needed", "_watched")

    def __init__(self, needed: int) -> None:
        self._needed = needed
        self._watched: list[Watched] = []
        self._hurry: asyncio.TimerHandle | None = None
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def watch(self, partition: Watched) -> None:
        """Counts arrivals from now on, for a reader that looks at its partitions in several turns of the loop and waits
        afterwards. `leave` ends the watch, unless `wait` follows.
        """
        self._watched.append(partition)
        partition.waiters[self] = None

    def leave(self) -> None:
        for partition in self._watched:
            partition.waiters.pop(self, None)
        if self._hurry is not None:
            self._hurry.cancel()

    def arrived(self, size: int) -> None:
        self._needed -= size
        if self._needed <= 0:
            self.wake()

    def wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def wake_within(self, delay_ms: int) -> None:
        """For news that can wait a little for other news. Costs 1 us, and nothing while a wake-up is due anyway."""
        if self._hurry is None and not self._future.done():
            self._hurry = asyncio.get_running_loop().call_later(delay_ms / 1000, self.wake)

    def wait(self, watched: Iterable[Watched], timeout_ms: int) -> asyncio.Future[None]:
        """Done when woken or when the time is up: the caller looks again either way. Leaves nothing behind, even on
        cancellation.
        """
        for partition in watched:
            self.watch(partition)
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, self.wake)

        def leave(_: asyncio.Future[None]) -> None:
            timer.cancel()
            self.leave()

        self._future.add_done_callback(leave)
        return self._future


class Waiters:
    """Requests that wait for one event."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}

    def wake(self) -> None:
        for waiter in tuple(self.waiters):
            waiter.wake()
