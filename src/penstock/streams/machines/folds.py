"""An author's function over the rows of a key: for ever, or per window that is aligned to 1970.

A window takes rows until the watermark has reached its end; then its state is dropped. With `is_final` its result comes
out at that time, once; else it comes out with each batch that has changed it. Of each result `offset` is the number of
rows in it, which orders the results of a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.row_order import in_order
from penstock.streams.machines.summary import Folding
from penstock.streams.machines.window_close import MICROS, NO_TIMER, Bell, watermark_of


@dataclass(frozen=True, slots=True)
class FoldMachine:
    folding: Folding
    columns: ClassVar[str] = "key string, micros bigint, offset bigint, value string"
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        return {"folded": StateSpec(StateKind.VALUE, "count bigint, micros bigint, value string")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        if key is None:
            return
        state = states.value("folded")
        before, micros, value = state.get() or (0, 0, None)
        count = before

        def values() -> Iterator[str]:
            nonlocal count, micros
            for row in in_order(rows):
                if row.value is not None:
                    count, micros = count + 1, max(micros, row.micros)
                    yield row.value

        value = self.folding.more(value, values())
        if count > before:
            state.put((count, micros, value))
            yield (key, micros, count, value)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())


@dataclass(frozen=True, slots=True)
class TableFoldMachine:
    """Folds the members of a group, as `regroups` sends them: a value is three lines, the sign, the member's key, the
    row.

    All rows of a batch that leave are taken back before any joins: each has joined in an earlier batch, so nothing is
    taken back that was not given. Without a state there is nothing to take back from."""

    adding: Folding
    subtracting: Folding
    columns: ClassVar[str] = FoldMachine.columns
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        return {"folded": StateSpec(StateKind.VALUE, "count bigint, micros bigint, value string")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        state = states.value("folded")
        count, micros, value = state.get() or (0, 0, None)
        joining: list[str] = []
        leaving: list[str] = []
        for row in in_order(rows):
            assert row.value is not None
            sign, _, text = row.value.split("\n", 2)
            (joining if sign == "1" else leaving).append(text)
            micros = max(micros, row.micros)
        for text in leaving:
            if value is not None:
                value = self.subtracting.more(value, [text])
        value = self.adding.more(value, joining) if joining else value
        state.put((count + 1, micros, value))
        yield (key, micros, count + 1, value)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())


@dataclass(slots=True)
class OpenWindow:
    count: int = 0
    micros: int = 0
    value: str | None = None


@dataclass(frozen=True, slots=True)
class WindowFoldMachine:
    folding: Folding
    size_ms: int
    every_ms: int
    is_final: bool
    columns: ClassVar[str] = "key string, start bigint, end bigint, micros bigint, offset bigint, value string"
    time_mode: ClassVar[TimeMode] = TimeMode.EVENT

    def states(self) -> Mapping[str, StateSpec]:
        windows = "array<struct<start: bigint, count: bigint, micros: bigint, value: string>>"
        return {"windows": StateSpec(StateKind.VALUE, f"timer_ms bigint, windows {windows}")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        if key is None:
            return
        watermark = watermark_of(clock)
        bell, windows = self._load(states)
        if self.is_final:
            yield from self._take_closed(key, windows, watermark)
        new: dict[int, list[str]] = {}
        for row in in_order(rows):
            if row.value is None:
                continue
            for start in self._starts(row.micros // MICROS):
                if start + self.size_ms > watermark:
                    window = windows.setdefault(start, OpenWindow())
                    window.count, window.micros = window.count + 1, max(window.micros, row.micros)
                    new.setdefault(start, []).append(row.value)
        for start, values in sorted(new.items()):
            windows[start].value = self.folding.more(windows[start].value, values)
            if not self.is_final:
                yield self._result(key, start, windows[start])
        if self.is_final and clock.is_last:
            yield from (self._result(key, start, window) for start, window in sorted(windows.items()))
        self._keep(bell, windows, watermark, states, clock)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        if key is None or states.value("windows").get() is None:
            return
        watermark = watermark_of(clock)
        bell, windows = self._load(states)
        if self.is_final:
            yield from self._take_closed(key, windows, watermark)
        bell.rang(at_ms)
        self._keep(bell, windows, watermark, states, clock)

    def _starts(self, at_ms: int) -> range:
        first = max(0, at_ms - self.size_ms + self.every_ms) // self.every_ms * self.every_ms
        return range(first, at_ms + 1, self.every_ms)

    def _load(self, states: States) -> tuple[Bell, dict[int, OpenWindow]]:
        timer, held = states.value("windows").get() or (NO_TIMER, [])
        return Bell(timer), {start: OpenWindow(*rest) for start, *rest in held}

    def _keep(self, bell: Bell, windows: dict[int, OpenWindow], watermark: int, states: States, clock: Clock) -> None:
        held = sorted(
            (start, each.count, each.micros, each.value)
            for start, each in windows.items()
            if start + self.size_ms > watermark
        )
        if held:
            bell.want(held[0][0] + self.size_ms, clock)
            states.value("windows").put((bell.at_ms, held))
        else:
            states.value("windows").clear()

    def _take_closed(self, key: str, windows: dict[int, OpenWindow], watermark: int) -> Iterator[tuple[Any, ...]]:
        for start in sorted(start for start in windows if start + self.size_ms <= watermark):
            yield self._result(key, start, windows.pop(start))

    def _result(self, key: str, start: int, window: OpenWindow) -> tuple[Any, ...]:
        return (key, start, start + self.size_ms, window.micros, window.count, window.value)
