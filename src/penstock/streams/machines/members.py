"""The rows of a group, for aggregates that cannot take a row back: the smallest, the largest, the list of all.

Rows are those of `regroups`; a value is three lines: the sign, the member's key, and the value to aggregate. The result
is the group with all of its members; a group whose members have all left has none, and stays a row, as a sum of Kafka
Streams stays at 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from penstock.streams.machines.machine import Clock, MachineRecord, StateKind, States, StateSpec, TimeMode


@dataclass(frozen=True, slots=True)
class MembersMachine:
    columns: ClassVar[str] = "key string, micros bigint, offset bigint, members array<string>"
    time_mode: ClassVar[TimeMode] = TimeMode.NONE

    def states(self) -> Mapping[str, StateSpec]:
        return {
            "group": StateSpec(StateKind.VALUE, "changes bigint, micros bigint"),
            "members": StateSpec(StateKind.MAP, "value string", key="key string"),
        }

    def rows(
        self, key: str | None, rows: Iterable[MachineRecord], states: States, clock: Clock
    ) -> Iterator[tuple[Any, ...]]:
        changed: dict[str, str | None] = {}
        changes, micros = states.value("group").get() or (0, 0)
        for row in rows:
            assert row.value is not None
            sign, member, value = row.value.split("\n", 2)
            # A member leaves and comes back in one batch: it is there.
            if sign == "1":
                changed[member] = value
            else:
                changed.setdefault(member, None)
            micros = max(micros, row.micros)
        states.value("group").put((changes + 1, micros))
        members = states.map("members")
        for member, now in changed.items():
            if now is None:
                members.remove((member,))
            else:
                members.put((member,), (now,))
        there = sorted((member, value) for (member,), (value,) in members.items())
        yield (key, micros, changes + 1, [value for _, value in there])

    def timer(self, key: str | None, at_ms: int, states: States, clock: Clock) -> Iterator[tuple[Any, ...]]:
        return iter(())
