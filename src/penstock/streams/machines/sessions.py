"""An author's function over sessions: rows of a key with no gap between them that is longer than `gap_ms`.

A row can join two sessions, and a fold of one cannot be added to that of another: so the rows of open sessions are
kept, and folded when the session is closed. That is once the watermark is more than the gap past its last row. A
session ends with its last row, as Kafka's does.

Results are final, or, without `is_final`, come with each batch that has changed a session. A session that has grown has
other bounds, and so another key: the result under the old ones is deleted. A session that closes was sent before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.row_order import in_order
from penstock.streams.machines.summary import Folding
from penstock.streams.machines.window_close import MICROS, NO_TIMER, Bell, watermark_of

Row = tuple[int, str]  # microseconds, value


@dataclass(frozen=True, slots=True)
class SessionFoldMachine:
    folding: Folding
    gap_ms: int
    is_final: bool = True
    columns: ClassVar[str] = "key string, start bigint, end bigint, micros bigint, offset bigint, value string"
    time_mode: ClassVar[TimeMode] = TimeMode.EVENT

    def states(self) -> Mapping[str, StateSpec]:
        held = "held array<struct<micros: bigint, value: string>>"
        return {"rows": StateSpec(StateKind.VALUE, f"timer_ms bigint, {held}")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        if key is None:
            return
        watermark = watermark_of(clock)
        timer, before = states.value("rows").get() or (NO_TIMER, [])
        bell, held = Bell(timer), [(micros, value) for micros, value in before]
        yield from self._take_closed(key, held, watermark)
        # A row is late if the session that it would be in is closed. Sessions that are not have only rows in them
        # that were in time, so a row that joins one is in time, too, however old it is.
        told = self._sessions(held)
        held += [(row.micros, row.value) for row in in_order(rows) if row.value is not None]
        self._take_late(held, watermark)
        if not self.is_final:
            yield from self._changes(key, told, self._sessions(held))
        elif clock.is_last:
            yield from (self._result(key, session) for session in self._sessions(held))
        self._keep(bell, held, states, clock)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        state = states.value("rows").get()
        if key is None or state is None:
            return
        bell, held = Bell(state[0]), [(micros, value) for micros, value in state[1]]
        yield from self._take_closed(key, held, watermark_of(clock))
        bell.rang(at_ms)
        self._keep(bell, held, states, clock)

    def _sessions(self, held: list[Row]) -> list[list[Row]]:
        sessions: list[list[Row]] = []
        for row in sorted(held, key=lambda row: row[0]):
            if sessions and row[0] // MICROS - sessions[-1][-1][0] // MICROS <= self.gap_ms:
                sessions[-1].append(row)
            else:
                sessions.append([row])
        return sessions

    def _is_closed(self, session: list[Row], watermark: int) -> bool:
        return session[-1][0] // MICROS + self.gap_ms < watermark

    def _take_closed(self, key: str, held: list[Row], watermark: int) -> Iterator[tuple[Any, ...]]:
        sessions = self._sessions(held)
        held[:] = [row for session in sessions if not self._is_closed(session, watermark) for row in session]
        if self.is_final:
            yield from (self._result(key, session) for session in sessions if self._is_closed(session, watermark))

    def _changes(self, key: str, before: list[list[Row]], after: list[list[Row]]) -> Iterator[tuple[Any, ...]]:
        """Rows only come, so a session with as many rows within the same bounds is the same."""
        told = {_bounds(session): len(session) for session in before}
        now = {_bounds(session) for session in after}
        for session in before:
            if (bounds := _bounds(session)) not in now:
                yield (key, *bounds, session[-1][0], len(session) + 1, None)
        yield from (self._result(key, each) for each in after if told.get(_bounds(each)) != len(each))

    def _take_late(self, held: list[Row], watermark: int) -> None:
        sessions = self._sessions(held)
        held[:] = [row for session in sessions if not self._is_closed(session, watermark) for row in session]

    def _keep(self, bell: Bell, held: list[Row], states: States, clock: Clock) -> None:
        if held:
            first = min(session[-1][0] for session in self._sessions(held)) // MICROS
            bell.want(first + self.gap_ms + 1, clock)
            states.value("rows").put((bell.at_ms, held))
        else:
            states.value("rows").clear()

    def _result(self, key: str, session: list[Row]) -> tuple[Any, ...]:
        start, last = session[0][0], session[-1][0]
        value = self.folding.of([value for _, value in session])
        return (key, start // MICROS, last // MICROS, last, len(session), value)


def _bounds(session: list[Row]) -> tuple[int, int]:
    return session[0][0] // MICROS, session[-1][0] // MICROS
