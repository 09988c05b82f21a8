"""Kafka's sliding windows: rows of a key that are at most `size_ms` apart, both ends included.

Each row, at t, begins two windows: [t - size, t], the last of whose rows it is, and [t + 1, t + 1 + size], the first
window without it, if there are rows in it. No window begins before 1970: rows before `size` are in [0, size]. A window
is closed once the watermark is past its end; a row is late once [t + 1, t + 1 + size] is closed. A row that is not late
still counts only in windows that are not closed.

The machine keeps the rows that a window may still need, and makes the windows of them anew.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.row_order import in_order
from penstock.streams.machines.summary import Summary
from penstock.streams.machines.window_close import MICROS, NEVER_MS, NO_TIMER, Bell, watermark_of


class Held(NamedTuple):
    at_ms: int
    micros: int
    value: str


@dataclass(frozen=True, slots=True)
class SlidingMachine:
    size_ms: int
    is_final: bool
    summary: Summary

    @property
    def columns(self) -> str:
        return f"key string, start bigint, end bigint, micros bigint, offset bigint, {self.summary.column}"

    @property
    def time_mode(self) -> TimeMode:
        return TimeMode.EVENT

    def states(self) -> Mapping[str, StateSpec]:
        held = "held array<struct<at_ms: bigint, micros: bigint, value: string>>"
        return {"rows": StateSpec(StateKind.VALUE, f"closed_ms bigint, timer_ms bigint, {held}")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        if key is None:
            return
        watermark = watermark_of(clock)
        state = states.value("rows").get()
        closed, timer, before = state or (NEVER_MS, NO_TIMER, [])
        held, bell = [Held(*each) for each in before], Bell(timer)
        if self.is_final:
            yield from self._closed(key, held, closed, watermark)
        new = [
            Held(row.micros // MICROS, row.micros, row.value)
            for row in in_order(rows)
            if row.value is not None and row.micros // MICROS + 1 + self.size_ms > watermark
        ]
        held = sorted([*held, *new], key=lambda each: each.at_ms)
        if not self.is_final:
            yield from self._touched(key, held, new, self._starts([Held(*each) for each in before]), watermark)
        elif clock.is_last:
            yield from self._windows(key, held, sorted(self._starts(held)))
        self._keep(held, bell, watermark, states, clock)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        state = states.value("rows").get()
        if key is None or state is None:
            return
        closed, timer, before = state
        held, bell, watermark = [Held(*each) for each in before], Bell(timer), watermark_of(clock)
        if self.is_final:
            yield from self._closed(key, held, closed, watermark)
        bell.rang(at_ms)
        self._keep(held, bell, watermark, states, clock)

    def _keep(self, held: list[Held], bell: Bell, watermark: int, states: States, clock: Clock) -> None:
        needed = [each for each in held if each.at_ms + 1 + self.size_ms >= watermark]
        if not needed:
            states.value("rows").clear()
            return
        if self.is_final:
            ends = (start + self.size_ms for start in self._starts(needed))
            following = min((end for end in ends if end >= watermark), default=needed[-1].at_ms + 1 + self.size_ms)
        else:
            following = needed[-1].at_ms + 1 + self.size_ms
        bell.want(following + 1, clock)
        states.value("rows").put((watermark, bell.at_ms, [tuple(each) for each in needed]))

    def _starts(self, held: list[Held]) -> set[int]:
        """The starts of all windows of these rows, which are sorted by time."""
        times = [each.at_ms for each in held]
        starts = {max(0, at - self.size_ms) for at in times}
        for number, at in enumerate(times):
            following = bisect_right(times, at, lo=number)
            if following < len(times) and times[following] <= at + 1 + self.size_ms:
                starts.add(at + 1)
        return starts

    def _closed(self, key: str, held: list[Held], closed: int, watermark: int) -> Iterator[tuple[Any, ...]]:
        if watermark > closed and held:
            starts = (start for start in self._starts(held) if closed <= start + self.size_ms < watermark)
            yield from self._windows(key, held, sorted(starts))

    def _touched(
        self, key: str, held: list[Held], new: list[Held], starts_before: set[int], watermark: int
    ) -> Iterator[tuple[Any, ...]]:
        """Windows that have new rows in them, and those that new rows begin behind themselves, with old rows."""
        starts = sorted(start for start in self._starts(held) if start + self.size_ms >= watermark)
        touched = set(starts) - starts_before
        for row in new:
            touched.update(starts[bisect_left(starts, row.at_ms - self.size_ms) : bisect_right(starts, row.at_ms)])
        yield from self._windows(key, held, sorted(touched))

    def _windows(self, key: str, held: list[Held], starts: list[int]) -> Iterator[tuple[Any, ...]]:
        times = [each.at_ms for each in held]
        for start in starts:
            end = start + self.size_ms
            rows = held[bisect_left(times, start) : bisect_right(times, end)]
            if rows:
                micros = max(each.micros for each in rows)
                yield (key, start, end, micros, len(rows), self.summary.of([each.value for each in rows]))
