"""A table's change, sent to the groups of its rows: the old row leaves its group (-1), the new one joins its own (+1).

Values are two lines: the group (empty where it is null: the row is in none) and the value to aggregate. The results
have the group as their key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.row_order import latest


@dataclass(frozen=True, slots=True)
class RegroupingMachine:
    columns: ClassVar[str] = (
        "key string, micros bigint, partition int, offset bigint, sign int, member string, value string"
    )
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        return {"row": StateSpec(StateKind.VALUE, "grouped string")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        row = latest(rows)
        if row is None or key is None:
            return
        state = states.value("row")
        held = state.get()
        for sign, grouped in ((-1, None if held is None else held[0]), (1, row.value)):
            group, _, value = (grouped or "").partition("\n")
            if group:
                yield (group, row.micros, row.partition, row.offset, sign, key, value)
        if row.value is not None:
            state.put((row.value,))
        elif held is not None:
            state.clear()

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())
