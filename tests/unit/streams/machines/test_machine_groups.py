"""Groups of a table's rows, against groups that are made anew after each batch."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.machines.folds import TableFoldMachine
from penstock.streams.machines.machine import MachineRecord
from penstock.streams.machines.members import MembersMachine
from penstock.streams.machines.memory import MemoryRun
from penstock.streams.machines.regroups import RegroupingMachine
from penstock.streams.machines.summary import Folding
from penstock.streams.machines.values import ValueReader


def row(value: str | None, offset: int) -> MachineRecord:
    return MachineRecord(0, offset * 1000, 0, offset, value)


def test_a_row_leaves_its_group_and_joins_another_when_the_group_changes() -> None:
    run = MemoryRun(RegroupingMachine())
    assert run.batch([("k", row("A\n1", 1))]) == [("A", 1000, 0, 1, 1, "k", "1")]
    assert run.batch([("k", row("B\n2", 2))]) == [("A", 2000, 0, 2, -1, "k", "1"), ("B", 2000, 0, 2, 1, "k", "2")]
    assert run.batch([("k", row(None, 3))]) == [("B", 3000, 0, 3, -1, "k", "2")]
    assert run.batch([("k", row(None, 4))]) == []
    assert run.states["k"].is_empty()


def test_only_the_last_change_of_a_batch_counts_and_a_row_without_a_group_is_in_none() -> None:
    run = MemoryRun(RegroupingMachine())
    assert run.batch([("k", row("B\n2", 2)), ("k", row("A\n1", 1))]) == [("B", 2000, 0, 2, 1, "k", "2")]
    assert run.batch([("k", row("\n3", 3))]) == [("B", 3000, 0, 3, -1, "k", "2")]


def test_a_group_stays_without_members_when_all_have_left() -> None:
    run = MemoryRun(MembersMachine())
    assert run.batch([("A", row("1\nk\n5", 1)), ("A", row("1\nj\n6", 2))]) == [("A", 2000, 1, ["6", "5"])]
    assert run.batch([("A", row("-1\nk\n5", 3)), ("A", row("1\nk\n7", 3))]) == [("A", 3000, 2, ["6", "7"])]
    assert run.batch([("A", row("-1\nk\n7", 4)), ("A", row("-1\nj\n6", 4))]) == [("A", 4000, 3, [])]


def joined(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"all": [*state["all"], row["n"]]}


def left(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any] | None:
    rest = list(state["all"])
    rest.remove(row["n"])
    return {"all": rest} if rest else None


def test_what_a_row_gave_is_taken_back_by_the_authors_function_when_the_row_leaves() -> None:
    struct = ValueReader({"type": "struct", "fields": []})
    adding, subtracting = (Folding(each, {"all": []}, ("all",), struct, struct) for each in (joined, left))
    run = MemoryRun(TableFoldMachine(adding, subtracting))

    def change(sign: int, number: int, offset: int) -> tuple[str, MachineRecord]:
        return "A", row(f'{sign}\nk\n{{"n":{number}}}', offset)

    assert run.batch([change(1, 5, 1), change(1, 6, 2)]) == [("A", 2000, 1, '{"all":[5,6]}')]
    # The new row is added after the old one was taken back, whichever comes first in the batch.
    assert run.batch([change(1, 6, 3), change(-1, 5, 3)]) == [("A", 3000, 2, '{"all":[6,6]}')]
    assert run.batch([change(-1, 6, 4), change(-1, 6, 4)]) == [("A", 4000, 3, None)]
    assert run.batch([change(-1, 7, 5)]) == [("A", 5000, 4, None)]  # there is nothing to take back from
    assert run.batch([change(1, 7, 6)]) == [("A", 6000, 5, '{"all":[7]}')]


changes = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from(["", "A", "B", None]), st.integers(0, 9)), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(st.lists(changes, max_size=6))
def test_members_and_sums_are_as_if_grouped_anew_when_rows_change_at_random(batches: list[Any]) -> None:
    regrouping, members = MemoryRun(RegroupingMachine()), MemoryRun(MembersMachine())
    table: dict[str, tuple[str, int]] = {}
    sums: dict[str, int] = {}
    groups: dict[str, list[str]] = {}
    offset = 0
    for batch in batches:
        rows = []
        for key, group, number in batch:
            offset += 1
            if group is None:
                table.pop(key, None)
                rows.append((key, row(None, offset)))
            else:
                table[key] = (group, number)
                rows.append((key, row(f"{group}\n{number}", offset)))
        told = regrouping.batch(rows)
        for group, *_, sign, _, value in told:
            sums[group] = sums.get(group, 0) + sign * int(value)
        messages = [
            (group, MachineRecord(0, micros, partition, at, f"{sign}\n{member}\n{value}"))
            for group, micros, partition, at, sign, member, value in told
        ]
        groups.update({group: values for group, _, _, values in members.batch(messages)})
        for group in ("A", "B"):
            there = [number for _, (each, number) in sorted(table.items()) if each == group]
            assert sums.get(group, 0) == sum(there)
            assert groups.get(group, []) == [str(number) for number in there]
