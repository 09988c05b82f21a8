"""Windows by machines, against windows that are made of all rows at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.streams.machines.folds import FoldMachine, WindowFoldMachine
from penstock.streams.machines.machine import MachineRecord
from penstock.streams.machines.memory import MemoryRun, run_once
from penstock.streams.machines.sessions import SessionFoldMachine
from penstock.streams.machines.sliding_windows import SlidingMachine
from penstock.streams.machines.summary import Folding, Members
from penstock.streams.machines.values import ValueReader
from penstock.streams.topology.errors import StreamsError

NUMBER = {"type": "struct", "fields": [{"name": "n", "type": "long"}]}


def added(state: Any, row: Any) -> Any:
    return {"n": (state or {"n": 0})["n"] + row["n"], "left out": 1}


SUM = Folding(added, None, ("n",), ValueReader(NUMBER), ValueReader(NUMBER))


def row(at_ms: int, n: int = 1, offset: int = 0) -> MachineRecord:
    return MachineRecord(0, at_ms * 1000, 0, offset, json.dumps({"n": n}))


def total(text: str | None) -> int:
    assert text is not None
    return int(json.loads(text)["n"])


def rows_at(*times: int) -> list[tuple[str, MachineRecord]]:
    return [("k", MachineRecord(0, at * 1000, 0, number, f"{at}")) for number, at in enumerate(times)]


def shown(made: list[tuple[Any, ...]]) -> dict[tuple[int, int], list[str]]:
    return {(start, end): members for _, start, end, _, _, members in made}


def test_sliding_windows_are_begun_by_rows_and_hold_both_ends() -> None:
    run = MemoryRun(SlidingMachine(10, False, Members()))
    assert shown(run.batch(rows_at(20))) == {(10, 20): ["20"]}
    # 30 is in the window that ends with it, with 20; and 21 begins the first window without 20.
    assert shown(run.batch(rows_at(30))) == {(20, 30): ["20", "30"], (21, 31): ["30"]}
    # Between both: all windows that have 25 in them, and 26 begins one.
    assert shown(run.batch(rows_at(25))) == {
        (15, 25): ["20", "25"],
        (20, 30): ["20", "25", "30"],
        (21, 31): ["25", "30"],
        (26, 36): ["30"],
    }


def test_rows_before_the_first_whole_window_are_in_the_one_that_begins_with_1970() -> None:
    run = MemoryRun(SlidingMachine(10, False, Members()))
    assert shown(run.batch(rows_at(3, 7))) == {(0, 10): ["3", "7"], (4, 14): ["7"]}


def test_a_sliding_window_takes_rows_until_the_watermark_is_past_its_end() -> None:
    run = MemoryRun(SlidingMachine(10, False, Members()))
    run.batch(rows_at(20, 30), watermark_ms=0)
    # All windows with 19 in them that there are, up to [10, 20], are closed at 21; others may still come.
    assert run.batch(rows_at(19), watermark_ms=21) == []
    on_time = shown(run.batch(rows_at(22), watermark_ms=22))
    assert on_time[(20, 30)] == ["20", "22", "30"]
    assert on_time[(12, 22)] == ["19", "20", "22"]


def test_a_final_sliding_window_comes_out_once_and_nothing_is_left_behind() -> None:
    run = MemoryRun(SlidingMachine(10, True, Members()))
    assert run.batch(rows_at(20, 25), watermark_ms=0) == []
    assert run.batch([], watermark_ms=20) == []
    assert shown(run.batch([], watermark_ms=21)) == {(10, 20): ["20"]}
    assert shown(run.batch([], watermark_ms=100)) == {(15, 25): ["20", "25"], (21, 31): ["25"]}
    assert run.batch([], watermark_ms=200) == []
    assert run.states["k"].is_empty()


def all_sliding(times: list[int], size: int) -> dict[tuple[int, int], list[str]]:
    starts = {max(0, at - size) for at in times}
    starts |= {at + 1 for at in times if any(at < other <= at + 1 + size for other in times)}
    return {(start, start + size): sorted(f"{at}" for at in times if start <= at <= start + size) for start in starts}


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=5), st.integers(1, 20))
def test_sliding_windows_are_as_if_made_at_once_when_rows_come_in_random_batches(batches: Any, size: int) -> None:
    run, table = MemoryRun(SlidingMachine(size, False, Members())), {}
    for batch in batches:
        table.update({bounds: sorted(members) for bounds, members in shown(run.batch(rows_at(*batch))).items()})
    everything = [at for batch in batches for at in batch]
    assert table == all_sliding(everything, size)
    final = run_once(SlidingMachine(size, True, Members()), {"k": [each for _, each in rows_at(*everything)]})
    assert {bounds: sorted(members) for bounds, members in shown(list(final)).items()} == table


def test_a_session_is_told_with_each_change_and_deleted_under_its_old_bounds_when_it_is_not_final() -> None:
    run = MemoryRun(SessionFoldMachine(SUM, 10, is_final=False))
    first, last = ("k", 10, 10, 10000, 1, '{"n":1}'), ("k", 30, 30, 30000, 1, '{"n":1}')
    assert run.batch([("k", row(10)), ("k", row(30))], watermark_ms=0) == [first, last]
    assert run.batch([("k", row(20))], watermark_ms=20) == [
        ("k", 10, 10, 10000, 2, None),
        ("k", 30, 30, 30000, 2, None),
        ("k", 10, 30, 30000, 3, '{"n":3}'),
    ]
    assert run.batch([("k", row(20))], watermark_ms=20) == [("k", 10, 30, 30000, 4, '{"n":4}')]
    assert run.batch([("k", row(50))], watermark_ms=41) == [("k", 50, 50, 50000, 1, '{"n":1}')]
    assert run.batch([("k", row(30))], watermark_ms=41) == []  # too late, and what is closed was told
    assert run.batch([], watermark_ms=61) == []
    assert run.states["k"].is_empty()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=6), st.integers(1, 20))
def test_what_is_left_of_told_sessions_are_the_final_ones_when_nothing_is_late(batches: Any, gap: int) -> None:
    run, left, rows = MemoryRun(SessionFoldMachine(SUM, gap, is_final=False)), {}, []
    for batch in batches:
        rows += [row(at, at) for at in batch]
        for key, start, end, *_, value in run.batch([("k", row(at, at)) for at in batch], 0):
            left[key, start, end] = value
    final = run_once(SessionFoldMachine(SUM, gap), {"k": rows}) if rows else ()
    assert {key: value for key, value in left.items() if value is not None} == {
        (key, start, end): value for key, start, end, *_, value in final
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=6), st.integers(1, 20), st.integers(0, 30))
def test_final_sliding_windows_are_the_last_updates_when_nothing_is_late(batches: Any, size: int, step: int) -> None:
    updates, finals = (MemoryRun(SlidingMachine(size, is_final, Members())) for is_final in (False, True))
    table: dict[Any, Any] = {}
    closed: dict[Any, Any] = {}
    for number, batch in enumerate(batches):
        # In time, as the watermark is at most where the batch begins.
        rows, watermark = rows_at(*(at + number * step for at in batch)), number * step
        table.update(shown(updates.batch(rows, watermark)))
        made = shown(finals.batch(rows, watermark))
        assert not made.keys() & closed.keys()
        closed.update(made)
    closed.update(shown(finals.batch([], 10_000)))
    assert {bounds: sorted(each) for bounds, each in closed.items()} == {
        bounds: sorted(each) for bounds, each in table.items()
    }


def test_a_fold_goes_on_from_batch_to_batch_and_keeps_only_its_columns() -> None:
    run = MemoryRun(FoldMachine(SUM))
    assert run.batch([("k", row(1, 2)), ("k", row(2, 3, 1))]) == [("k", 2000, 2, '{"n":5}')]
    assert run.batch([("k", row(1, 4)), (None, row(1)), ("k", MachineRecord(0, 0, 0, 9, None))]) == [
        ("k", 2000, 3, '{"n":9}')
    ]


def test_a_hopping_window_takes_rows_until_the_watermark_reaches_its_end() -> None:
    run = MemoryRun(WindowFoldMachine(SUM, 10, 5, False))
    made = run.batch([("k", row(12))], watermark_ms=0)
    assert [(start, end, total(value)) for _, start, end, _, _, value in made] == [(5, 15, 1), (10, 20, 1)]
    made = run.batch([("k", row(13))], watermark_ms=15)
    assert [(start, end, total(value)) for _, start, end, _, _, value in made] == [(10, 20, 2)]
    assert run.batch([("k", row(9))], watermark_ms=15) == []
    assert run.batch([], watermark_ms=20) == []
    assert run.states["k"].is_empty()


def test_a_final_window_comes_out_once_when_it_is_closed() -> None:
    run = MemoryRun(WindowFoldMachine(SUM, 10, 10, True))
    assert run.batch([("k", row(12)), ("k", row(22))], watermark_ms=0) == []
    assert run.batch([("k", row(13))], watermark_ms=19) == []
    # The row that comes when the window is closed is late.
    assert run.batch([("k", row(14))], watermark_ms=20) == [("k", 10, 20, 13000, 2, '{"n":2}')]
    assert run.batch([], watermark_ms=99) == [("k", 20, 30, 22000, 1, '{"n":1}')]
    assert run.states["k"].is_empty()


def test_a_row_joins_two_sessions_and_the_end_is_the_last_row() -> None:
    run = MemoryRun(SessionFoldMachine(SUM, 10))
    assert run.batch([("k", row(10)), ("k", row(30))], watermark_ms=0) == []
    assert run.batch([("k", row(20))], watermark_ms=20) == []
    assert run.batch([], watermark_ms=40) == []
    assert run.batch([], watermark_ms=41) == [("k", 10, 30, 30000, 3, '{"n":3}')]
    assert run.batch([("k", row(30))], watermark_ms=41) == []
    assert run.states["k"].is_empty()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), max_size=6), max_size=6), st.integers(1, 20), st.integers(0, 30))
def test_folded_windows_are_as_if_made_at_once_when_nothing_is_late(batches: Any, size: int, step: int) -> None:
    machines = (
        WindowFoldMachine(SUM, size, max(1, size // 2), True),
        SessionFoldMachine(SUM, size),
    )
    for machine in machines:
        run = MemoryRun(machine)
        made, rows = [], []
        for number, batch in enumerate(batches):
            some = [("k", row(at + number * step, at)) for at in batch]
            rows += some
            made += run.batch(some, number * step)
        made += run.batch([], 10_000)
        at_once = run_once(machine, {"k": [each for _, each in rows]}) if rows else ()
        assert sorted(made) == sorted(at_once)
        assert all(states.is_empty() for states in run.states.values())


def divided(state: Any, row: Any) -> Any:
    return {"n": 1 // row["n"]}


def seven(state: Any, row: Any) -> Any:
    return 7


@pytest.mark.parametrize(("function", "reason"), [(divided, "ZeroDivisionError"), (seven, "gave 7, which is no dict")])
def test_an_error_names_the_node_the_function_and_the_row_when_a_fold_fails(function: Any, reason: str) -> None:
    machine = FoldMachine(Folding(function, None, ("n",), ValueReader(NUMBER), ValueReader(NUMBER), "sums"))
    failing = MachineRecord(0, 1, 0, 0, '{"n": 0, "_key": "a", "_timestamp": "2026-11-17T09:00:00Z"}')
    with pytest.raises(StreamsError) as refused:
        MemoryRun(machine).batch([("a", failing)])
    assert f"sums: {function.__module__}.{function.__name__} failed for a row (key 'a', time 2026-11-17" in str(
        refused.value
    )
    assert reason in str(refused.value)


def listed(state: Any, row: Any) -> Any:
    state["all"].append(row["n"])
    return state


def test_an_initial_state_is_every_keys_own_when_the_function_changes_it() -> None:
    run = MemoryRun(
        FoldMachine(
            Folding(listed, {"all": []}, ("all",), ValueReader(NUMBER), ValueReader({"type": "struct", "fields": []}))
        )
    )
    assert [value for *_, value in run.batch([("a", row(1, 1)), ("b", row(1, 2))])] == ['{"all":[1]}', '{"all":[2]}']
