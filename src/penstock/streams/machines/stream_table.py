"""A stream's rows with the table's row at the time when they come. A change of the table emits nothing.

Rows of one batch come in the order of `row_order`; batches follow each other in the order of offsets, so no position
has to be remembered. A stream's row without a value joins nothing and is dropped; one without a key finds nothing, and
a left join keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.row_order import in_order

STREAM, TABLE = 0, 1


@dataclass(frozen=True, slots=True)
class StreamTableMachine:
    how: Literal["inner", "left"]
    columns: ClassVar[str] = "key string, micros bigint, partition int, offset bigint, left string, right string"
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        return {"row": StateSpec(StateKind.VALUE, "value string")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        state = states.value("row")
        held = state.get()
        before = current = None if held is None else held[0]
        for row in in_order(rows):
            if row.side == TABLE:
                current = row.value
            elif row.value is not None and (current is not None or self.how == "left"):
                yield (key, row.micros, row.partition, row.offset, row.value, current)
        if current is None and before is not None:
            state.clear()
        elif current is not None and current != before:
            state.put((current,))

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())
