"""Joins by machines, against tables that are computed anew after each batch."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.machines.foreign_key import LeftMachine, RightMachine
from penstock.streams.machines.machine import MachineRecord
from penstock.streams.machines.memory import MemoryRun
from penstock.streams.machines.row_order import in_order
from penstock.streams.machines.stream_table import STREAM, TABLE, StreamTableMachine


def row(value: str | None, offset: int, *, side: int = 0, at: int = 0, partition: int = 0) -> MachineRecord:
    return MachineRecord(side, at, partition, offset, value)


def test_rows_come_by_their_offsets_within_a_partition_and_the_oldest_partition_first() -> None:
    rows = [
        row("b", 2, at=1),
        row("a", 1, at=5),
        row("c", 1, at=4, partition=1),
        row("t", 9, at=5, side=TABLE),
    ]
    assert [each.value for each in in_order(rows)] == ["c", "t", "a", "b"]


def test_a_row_finds_what_the_table_had_at_its_time_when_both_come_in_one_batch() -> None:
    run = MemoryRun(StreamTableMachine("left"))
    rows = [
        ("k", row("early", 0, at=1)),
        ("k", row("same", 1, at=2)),
        ("k", row("late", 2, at=9)),
        ("k", row("T1", 0, at=2, side=TABLE)),
        ("k", row("T2", 1, at=5, side=TABLE)),
    ]
    assert [(left, right) for *_, left, right in run.batch(rows)] == [("early", None), ("same", "T1"), ("late", "T2")]


def test_a_change_of_the_table_emits_nothing_and_a_deleted_row_is_forgotten() -> None:
    run = MemoryRun(StreamTableMachine("inner"))
    assert run.batch([("k", row("T", 0, side=TABLE))]) == []
    assert run.batch([("k", row("S", 0, at=3))]) == [("k", 3, 0, 0, "S", "T")]
    assert run.batch([("k", row(None, 1, side=TABLE))]) == []
    assert run.batch([("k", row("S", 1))]) == []
    assert run.states["k"].is_empty()


def test_a_left_join_keeps_rows_without_a_key_and_drops_those_without_a_value() -> None:
    run = MemoryRun(StreamTableMachine("left"))
    assert run.batch([(None, row("S", 0)), ("k", row(None, 1))]) == [(None, 0, 0, 0, "S", None)]


class ForeignKeyRun:
    """Both machines, one behind the other, as a query has them; and the table that comes of their results."""

    def __init__(self, how: Any) -> None:
        self.left, self.right = MemoryRun(LeftMachine()), MemoryRun(RightMachine(how))
        self.table: dict[str, tuple[str, str | None]] = {}
        self.offsets: dict[str, int] = {}

    def batch(
        self, lefts: list[tuple[str, MachineRecord]], rights: list[tuple[str, MachineRecord]]
    ) -> list[tuple[Any, ...]]:
        asked = self.left.batch(lefts)
        told = [(key, MachineRecord(0, micros, 0, offset, value)) for key, micros, offset, value in asked]
        made = self.right.batch([*told, *((key, each._replace(side=1)) for key, each in rights)])
        assert len({key for key, *_ in made}) == len(made), "two answers for one left row in a batch"
        for key, _, offset, left, right in made:
            assert offset > self.offsets.get(key, 0), "an answer that is not newer than the one before"
            self.offsets[key] = offset
            if left is None:
                self.table.pop(key, None)
            else:
                self.table[key] = (left, right)
        return made


def left_row(foreign: str, value: str, offset: int, at: int = 0) -> MachineRecord:
    return row(f"{foreign}\n{value}", offset, at=at)


def test_the_result_is_of_the_new_right_row_when_the_foreign_key_changes() -> None:
    run = ForeignKeyRun("inner")
    run.batch([("l", left_row("A", "v1", 0, at=5))], [("A", row("RA", 0, at=7)), ("B", row("RB", 1, at=1))])
    assert run.table == {"l": ("v1", "RA")}
    # The old right row changes in the same batch: its answer would be stale.
    made = run.batch([("l", left_row("B", "v2", 1, at=6))], [("A", row("RA2", 2, at=9))])
    assert made == [("l", 6, run.offsets["l"], "v2", "RB")]


def test_a_right_row_that_comes_later_or_goes_is_told_to_all_who_ask_for_it() -> None:
    run = ForeignKeyRun("left")
    run.batch([("l1", left_row("A", "v1", 0)), ("l2", left_row("A", "v2", 1))], [])
    assert run.table == {"l1": ("v1", None), "l2": ("v2", None)}
    run.batch([], [("A", row("RA", 0))])
    assert run.table == {"l1": ("v1", "RA"), "l2": ("v2", "RA")}
    run.batch([], [("A", row(None, 1))])
    assert run.table == {"l1": ("v1", None), "l2": ("v2", None)}


def test_an_inner_result_goes_when_the_left_row_the_right_row_or_the_foreign_key_goes() -> None:
    run = ForeignKeyRun("inner")
    lefts = [(name, left_row("A", name, at)) for at, name in enumerate(("l1", "l2", "l3"))]
    run.batch(lefts, [("A", row("RA", 0))])
    run.batch([("l1", row(None, 3)), ("l2", left_row("", "l2", 4)), ("l3", left_row("X", "l3", 5))], [])
    assert run.table == {}


def test_nothing_is_told_when_there_was_no_result() -> None:
    run = ForeignKeyRun("inner")
    assert run.batch([("l", left_row("A", "v", 0))], [("B", row(None, 0))]) == []
    assert run.batch([("l", row(None, 1)), ("m", row(None, 2))], []) == []


changes = st.lists(
    st.tuples(
        st.sampled_from("lr"),
        st.sampled_from("123"),
        st.sampled_from(["", "A", "B", "C", None]),
        st.integers(0, 99),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(changes, max_size=5), st.sampled_from(["inner", "left"]))
def test_the_table_is_as_if_joined_anew_when_both_sides_change_at_random(batches: list[Any], how: Any) -> None:
    run = ForeignKeyRun(how)
    lefts: dict[str, tuple[str, str]] = {}
    rights: dict[str, str] = {}
    offset = 0
    for batch in batches:
        told: dict[str, list[tuple[str, MachineRecord]]] = {"l": [], "r": []}
        for side, name, foreign, number in batch:
            offset += 1
            if side == "l" and foreign is None:
                lefts.pop(name, None)
                told["l"].append((name, row(None, offset)))
            elif side == "l":
                lefts[name] = (foreign, f"v{number}")
                told["l"].append((name, left_row(foreign, f"v{number}", offset)))
            else:
                key = "ABC"[int(name) - 1]
                value = None if foreign is None else f"r{number}"
                rights.update({key: value}) if value else rights.pop(key, None)
                told["r"].append((key, row(value, offset)))
        run.batch(told["l"], told["r"])
        anew = {name: (value, rights.get(foreign)) for name, (foreign, value) in lefts.items()}
        assert run.table == {name: pair for name, pair in anew.items() if how == "left" or pair[1] is not None}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("st"), st.integers(0, 3)), max_size=10), max_size=5))
def test_a_stream_finds_the_same_rows_in_any_batches_when_times_rise_with_offsets(batches: list[Any]) -> None:
    def joined(parts: list[Any]) -> list[tuple[Any, ...]]:
        run, at = MemoryRun(StreamTableMachine("left")), 0
        made = []
        for part in parts:
            rows = []
            for side, number in part:
                at += 1
                value = None if side == "t" and number == 0 else f"{side}{number}"
                rows.append(("k", row(value, at, side=TABLE if side == "t" else STREAM, at=at)))
            made += run.batch(rows)
        return made

    assert joined(batches) == joined([[each for batch in batches for each in batch]])
