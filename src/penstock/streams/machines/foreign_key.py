"""Two tables, joined by an expression over the left row that gives the right row's key: KIP-213 in two machines.

`LeftMachine`, by the left key, remembers the row's foreign key, and sends the old one and the new one at each change.
`RightMachine`, by the foreign key, holds the right row and all left rows that refer to it, and answers with results by
the left key.

Kafka has a third step, which drops an answer that was overtaken by a newer one. There is none here to drop: all changes
of a batch go through both machines in that batch; a left row sends only its last change in the batch; of the two
foreign keys that it sends, only the new one answers. So there is one answer for a left key and batch. `offset` orders
the answers of a left key over batches: first by the changes of the left row, then by those of the right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode
from penstock.streams.machines.row_order import latest

MESSAGE, RIGHT = 0, 1
# Changes of one right row while a left row stays as it is: a hundred million. The other 36 bits of a positive bigint
# are for changes of the left row.
RIGHT_CHANGES_BITS = 27


class Ask(StrEnum):
    FIRST = "first"  # remember the left row and answer
    AGAIN = "again"  # the same, and there may be a result, by another foreign key, to take back
    FORGET = "forget"  # the row has another foreign key now, which answers
    DELETE = "delete"  # the row is gone: forget it and take the result back


@dataclass(frozen=True, slots=True)
class LeftMachine:
    """Values are two lines: the foreign key (empty where it is null) and the row. The results are rows of the foreign
    key for `RightMachine`, whose value is three lines: the request, the left key, the left row."""

    columns: ClassVar[str] = "key string, micros bigint, offset bigint, value string"
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        # A deleted row leaves its number of changes: results of a row that comes back have to be the newer ones.
        return {"row": StateSpec(StateKind.VALUE, "changes bigint, foreign string")}

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        row = latest(rows)
        if row is None or key is None:
            return
        state = states.value("row")
        changes, before = state.get() or (0, None)
        changes += 1
        if row.value is None:
            if before is not None:
                state.put((changes, None))
                yield (before or None, row.micros, changes, f"{Ask.DELETE}\n{key}\n")
            return
        foreign, _, value = row.value.partition("\n")
        state.put((changes, foreign))
        if before is not None and before != foreign and before:
            yield (before, row.micros, changes, f"{Ask.FORGET}\n{key}\n")
        ask = Ask.FIRST if before is None or before == foreign else Ask.AGAIN
        yield (foreign or None, row.micros, changes, f"{ask}\n{key}\n{value}")

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())


@dataclass(frozen=True, slots=True)
class RightMachine:
    """The results have the left key; `left` is null where the result is deleted."""

    how: Literal["inner", "left"]
    columns: ClassVar[str] = "key string, micros bigint, offset bigint, left string, right string"
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        return {
            "right": StateSpec(StateKind.VALUE, "changes bigint, micros bigint, value string"),
            "lefts": StateSpec(StateKind.MAP, "changes bigint, micros bigint, value string", key="key string"),
        }

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        rows = list(rows)
        messages = sorted((row for row in rows if row.side == MESSAGE), key=lambda row: row.offset)
        changed = latest(row for row in rows if row.side == RIGHT)
        before = states.value("right").get() or (0, 0, None)
        right = before
        if changed is not None and key is not None and (changed.value is not None or before[2] is not None):
            right = (before[0] + 1, changed.micros, changed.value)
            states.value("right").put(right)
        asked: dict[str, tuple[Ask, MachineRecord, str]] = {}
        for message in messages:
            assert message.value is not None
            ask, left_key, value = message.value.split("\n", 2)
            asked[left_key] = (Ask(ask), message, value)
        # A right row that was deleted before has no time that counts.
        yield from self._answers_of_asked(asked, before, right if right[2] is not None else (right[0], 0, None))
        if key is None:
            return
        lefts = states.map("lefts")
        for left_key, (ask, message, value) in asked.items():
            if ask in (Ask.FORGET, Ask.DELETE):
                lefts.remove((left_key,))
            else:
                lefts.put((left_key,), (message.offset, message.micros, value))
        if right is not before:
            for (left_key,), (changes, micros, value) in lefts.items():
                if left_key not in asked:
                    yield self._answer(left_key, changes, micros, value, right)

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())

    def _answers_of_asked(
        self, asked: Mapping[str, tuple[Ask, MachineRecord, str]], before: tuple[Any, ...], right: tuple[Any, ...]
    ) -> Iterator[tuple[Any, ...]]:
        had_result = self.how == "left" or before[2] is not None
        has_result = self.how == "left" or right[2] is not None
        for left_key, (ask, message, value) in asked.items():
            if ask is Ask.DELETE:
                if had_result:
                    yield self._answer(left_key, message.offset, message.micros, None, right)
            elif ask is not Ask.FORGET and (has_result or had_result or ask is Ask.AGAIN):
                yield self._answer(left_key, message.offset, message.micros, value, right)

    def _answer(
        self, left_key: str, changes: int, micros: int, value: str | None, right: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        right_changes, right_micros, found = right
        offset = (changes << RIGHT_CHANGES_BITS) + min(right_changes, (1 << RIGHT_CHANGES_BITS) - 1)
        left = None if found is None and self.how == "inner" else value
        return (left_key, max(micros, right_micros), offset, left, None if left is None else found)
