"""What is remembered of clients, bounded in number whatever names the clients invent.

A rate in whose windows nothing happened says the same as a new one, so it is forgotten first. When there are too many
that say something, the one that was asked for longest ago goes: its client gains what it had spent, and nobody loses.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

# Of each kind of quota. Twice as many clients as a broker is made for; one takes some 2 KB when it is busy.
MAX_SENSORS = 10_000

Key = TypeVar("Key", bound=Hashable)
Sensor = TypeVar("Sensor")


class Sensors(Generic[Key, Sensor]):
    __slots__ = ("_limit", "_sensors", "evictions")

    def __init__(self, limit: int = MAX_SENSORS) -> None:
        self._limit = limit
        self._sensors: OrderedDict[Key, Sensor] = OrderedDict()  # the one asked for last is the last
        self.evictions = 0  # of sensors that had something to say

    def __len__(self) -> int:
        return len(self._sensors)

    def get(self, key: Key, make: Callable[[], Sensor], is_idle: Callable[[Sensor], bool]) -> Sensor:
        sensor = self._sensors.get(key)
        if sensor is not None:
            self._sensors.move_to_end(key)
            return sensor
        self._forget_idle(is_idle)
        sensor = self._sensors[key] = make()
        if len(self._sensors) > self._limit:
            self._sensors.popitem(last=False)
            self.evictions += 1
        return sensor

    def clear(self) -> None:
        self._sensors.clear()

    def _forget_idle(self, is_idle: Callable[[Sensor], bool]) -> None:
        """Two for each new one, so that the number falls when the clients do."""
        for _ in range(2):
            oldest = next(iter(self._sensors), None)
            if oldest is None or not is_idle(self._sensors[oldest]):
                return
            del self._sensors[oldest]
