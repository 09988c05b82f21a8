"""The timers of a coordinator, on the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from penstock.coordinators.newcomers import NOBODY, Arrival, Newcomer, NewcomerBounds, Newcomers
from penstock.coordinators.outcome import TimerChange, TimerKey

Key = TypeVar("Key", bound=TimerKey)


# The loop may be this much early, because it counts milliseconds.
_EARLY_SECONDS = 0.001
# A timer of the loop is no longer than this. So a timer that comes nearer can mostly be postponed, too: each new member
# of a group has five minutes until its first generation begins, and its session timeout from then on.
_LONGEST_WAIT_SECONDS = 30.0
# The removal of a member from its group takes some 40 us, and more where it changes the group.
_DROPPED_PER_TURN = 50


class _Timer(Generic[Key]):
    """One timer of the loop. `deadline` may be later: then the loop gets a new timer when this timer is due."""

    __slots__ = ("arrival", "deadline", "due", "handle")

    def __init__(self, deadline: float, due: float, handle: asyncio.TimerHandle) -> None:
        self.deadline = deadline
        self.due = due
        self.handle = handle
        # The newest newcomer whose arrival is awaited, if the key is a newcomer.
        self.arrival: Arrival[Key] | None = None


class CoordinatorTimers(Generic[Key]):
    """Most timers are sessions, which each heartbeat and each generation postpones. To postpone a timer costs 0.3 us,
    since the loop is not involved. Tried: a new timer of the loop each time (1.5 us). Bench: rebalance.
    """

    def __init__(
        self,
        on_timer: Callable[[Key], None],
        bounds: NewcomerBounds = NOBODY,
        on_dropped: Callable[[Key, Newcomer], None] = lambda _key, _newcomer: None,
    ) -> None:
        """`on_dropped` is called instead of `on_timer` for a newcomer that has to go before its timer is due."""
        self._on_timer = on_timer
        self._on_dropped = on_dropped
        self.newcomers: Newcomers[Key] = Newcomers(bounds)
        self._is_making_room = False
        self._timers: dict[int, dict[Key, _Timer[Key]]] = {}  # by partition

    def apply(self, changes: Collection[TimerChange[Key]]) -> None:
        if not changes:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        for key, delay_ms, newcomer in changes:
            timers = self._timers.get(key.partition)
            if timers is None:
                timers = self._timers[key.partition] = {}
            timer = timers.get(key)
            if timer is not None and timer.arrival is not None:
                self.newcomers.remove(timer.arrival)
                timer.arrival = None
            if delay_ms is None:
                if timer is not None:
                    del timers[key]
                    timer.handle.cancel()
                continue
            deadline = now + delay_ms / 1000
            if timer is not None and timer.due <= deadline:
                timer.deadline = deadline
            else:
                if timer is not None:
                    timer.handle.cancel()
                due = min(deadline, now + _LONGEST_WAIT_SECONDS)
                timer = timers[key] = _Timer(deadline, due, loop.call_at(due, self._fire, timers, key))
            if newcomer is not None:
                timer.arrival = self.newcomers.add(key, newcomer)
        if self.newcomers.are_too_many and not self._is_making_room:
            # In a turn of its own: the newcomer to drop may be in the group that is being changed.
            self._is_making_room = True
            loop.call_soon(self._make_room)

    def _fire(self, timers: dict[Key, _Timer[Key]], key: Key) -> None:
        timer = timers.get(key)
        if timer is None:  # forgotten
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if timer.deadline - now > _EARLY_SECONDS:
            timer.due = min(timer.deadline, now + _LONGEST_WAIT_SECONDS)
            timer.handle = loop.call_at(timer.due, self._fire, timers, key)
            return
        del timers[key]
        if timer.arrival is not None:
            self.newcomers.remove(timer.arrival)
        self._on_timer(key)

    def _make_room(self) -> None:
        self._is_making_room = False
        for _ in range(_DROPPED_PER_TURN):
            found = self.newcomers.find_dispensable()
            if found is None:
                return
            self._timers[found.key.partition].pop(found.key).handle.cancel()
            self.newcomers.remove(found)
            self._on_dropped(found.key, found.newcomer)
        if not self._is_making_room:
            self._is_making_room = True
            asyncio.get_running_loop().call_soon(self._make_room)

    def forget(self, partition: int) -> list[asyncio.TimerHandle]:
        """No timer of the partition fires any more. Returns their handles, to be cancelled at leisure: new timers of
        the same keys are others.
        """
        timers = self._timers.pop(partition, {})
        forgotten = []
        for timer in timers.values():
            forgotten.append(timer.handle)
            if timer.arrival is not None:
                self.newcomers.remove(timer.arrival)
        timers.clear()
        return forgotten

    def cancel_all(self) -> None:
        for partition in list(self._timers):
            for handle in self.forget(partition):
                handle.cancel()
