"""States in memory: for batch frames, where all rows of a key are there at once, and for tests of machines."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.streams.machines.machine import Machine, MachineRecord

Values = tuple[Any, ...]


@dataclass(slots=True)
class MemoryValue:
    held: Values | None = None

    def get(self) -> Values | None:
        return self.held

    def put(self, value: Values) -> None:
        self.held = value

    def clear(self) -> None:
        self.held = None


@dataclass(slots=True)
class MemoryList:
    held: list[Values] = field(default_factory=list)

    def get(self) -> list[Values]:
        return list(self.held)

    def append(self, value: Values) -> None:
        self.held.append(value)

    def put(self, values: list[Values]) -> None:
        self.held = list(values)

    def clear(self) -> None:
        self.held = []


@dataclass(slots=True)
class MemoryMap:
    held: dict[Values, Values] = field(default_factory=dict)

    def get(self, key: Values) -> Values | None:
        return self.held.get(key)

    def put(self, key: Values, value: Values) -> None:
        self.held[key] = value

    def remove(self, key: Values) -> None:
        self.held.pop(key, None)

    def items(self) -> Iterator[tuple[Values, Values]]:
        return iter(list(self.held.items()))

    def clear(self) -> None:
        self.held = {}


@dataclass(slots=True)
class MemoryStates:
    """The states of one key."""

    values: dict[str, MemoryValue] = field(default_factory=dict)
    lists: dict[str, MemoryList] = field(default_factory=dict)
    maps: dict[str, MemoryMap] = field(default_factory=dict)

    def value(self, name: str) -> MemoryValue:
        return self.values.setdefault(name, MemoryValue())

    def list(self, name: str) -> MemoryList:
        return self.lists.setdefault(name, MemoryList())

    def map(self, name: str) -> MemoryMap:
        return self.maps.setdefault(name, MemoryMap())

    def is_empty(self) -> bool:
        """Whether nothing is remembered of the key."""
        return not (
            any(each.held is not None for each in self.values.values())
            or any(each.held for each in self.lists.values())
            or any(each.held for each in self.maps.values())
        )


@dataclass(slots=True)
class MemoryClock:
    watermark_ms: int | None = None
    processing_ms: int = 0
    is_last: bool = False
    timers: set[int] = field(default_factory=set)  # of the key at hand

    def ring(self, at_ms: int) -> None:
        self.timers.add(at_ms)

    def silence(self, at_ms: int) -> None:
        self.timers.discard(at_ms)


@dataclass(slots=True)
class MemoryRun:
    """A machine, batch after batch, with the states of all keys."""

    machine: Machine
    states: dict[Any, MemoryStates] = field(default_factory=dict)
    timers: dict[Any, set[int]] = field(default_factory=dict)

    def batch(
        self, rows: Iterable[tuple[Any, MachineRecord]], watermark_ms: int | None = None, processing_ms: int = 0
    ) -> list[Values]:
        """The rows of a batch, each with its key, then the timers that ring: by the watermark or the clock."""
        found: list[Values] = []
        for key, records in by_key(rows).items():
            found += self.machine.rows(key, records, self._of(key), self._clock(key, watermark_ms, processing_ms))
        now = watermark_ms if self.machine.time_mode == "EventTime" else processing_ms
        for at, key in sorted(
            (at, key) for key, ats in self.timers.items() for at in ats if now is not None and at <= now
        ):
            found += self.machine.timer(key, at, self._of(key), self._clock(key, watermark_ms, processing_ms))
            self.timers[key].discard(at)
        return found

    def _of(self, key: Any) -> MemoryStates:
        return self.states.setdefault(key, MemoryStates())

    def _clock(self, key: Any, watermark_ms: int | None, processing_ms: int) -> MemoryClock:
        return MemoryClock(watermark_ms, processing_ms, timers=self.timers.setdefault(key, set()))


def by_key(rows: Iterable[tuple[Any, MachineRecord]]) -> dict[Any, list[MachineRecord]]:
    found: dict[Any, list[MachineRecord]] = {}
    for key, record in rows:
        found.setdefault(key, []).append(record)
    return found


def run_once(machine: Machine, rows: Mapping[Any, list[MachineRecord]]) -> Iterator[Values]:
    """A machine over all rows there are, as over a batch frame.

    Timers ring once, in their order, after the key's last row: time goes on for ever behind it. Those that are set
    while timers ring are left out, else one that sets itself anew would never end."""
    for key, records in rows.items():
        states, clock = MemoryStates(), MemoryClock(is_last=True)
        yield from machine.rows(key, records, states, clock)
        rung = list(clock.timers)
        heapq.heapify(rung)
        while rung:
            at = heapq.heappop(rung)
            if at in clock.timers:  # a timer before may have silenced it
                clock.timers.discard(at)
                yield from machine.timer(key, at, states, clock)
