"""Virtual time: what is due next happens next, and nothing takes longer than it is said to take."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import NamedTuple

from penstock.testing.clock import A_MOMENT_MS

# The owner of an event decides among events of one moment, and not the order in which they were asked for: the order
# in which a broker wakes waiting requests may depend on the addresses of objects, and must not matter.
BROKER = -1
_FIRST_MACHINE = -10


def owner_of(place: int) -> int:
    """Of the events of one machine among several. Clients have the numbers from 0 on."""
    return _FIRST_MACHINE - place


class _Event(NamedTuple):
    when_ms: float
    owner: int
    number: int
    action: Callable[[], None]


class World:
    """Also the `Clock` of the broker. The wall clock can be set; the time that passes cannot."""

    def __init__(self) -> None:
        self.time_ms = 0.0
        self.wall_offset_ms = A_MOMENT_MS
        self._events: list[_Event] = []
        self._numbers: dict[int, int] = {}

    def now_ms(self) -> int:
        return int(self.time_ms) + self.wall_offset_ms

    def monotonic_ms(self) -> int:
        return int(self.time_ms)

    def at(self, when_ms: float, owner: int, action: Callable[[], None]) -> None:
        number = self._numbers[owner] = self._numbers.get(owner, 0) + 1
        heapq.heappush(self._events, _Event(max(when_ms, self.time_ms), owner, number, action))

    def after(self, delay_ms: float, owner: int, action: Callable[[], None]) -> None:
        self.at(self.time_ms + delay_ms, owner, action)

    def next_time(self) -> float | None:
        return self._events[0].when_ms if self._events else None

    def step(self) -> None:
        """The next event, at its time."""
        event = heapq.heappop(self._events)
        self.time_ms = event.when_ms
        event.action()


class MachineClock:
    """The clock of one machine among several. Its wall clock may differ from the others'."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.skew_ms = 0

    def now_ms(self) -> int:
        return self._world.now_ms() + self.skew_ms

    def monotonic_ms(self) -> int:
        return self._world.monotonic_ms()
