"""The rates and buckets of clients, bounded in number whatever names the clients invent.

A rate without an event in its windows has the value of a new one, so it is forgotten first. When too many others are
left, the least recently used one goes: its client gets back what it had spent, and no client loses.
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
        self._sensors: OrderedDict[Key, Sensor] = OrderedDict()  # the one used last is the last
        self.evictions = 0  # of sensors that still counted

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
        """Forgets up to two idle ones for each new one, so that the number falls with that of the clients."""
        for _ in range(2):
            oldest = next(iter(self._sensors), None)
            if oldest is None or not is_idle(self._sensors[oldest]):
                return
            del self._sensors[oldest]
