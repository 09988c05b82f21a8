"""Rules that hold only where the caller says so, and offsets that groups commit."""

from __future__ import annotations

import pytest

from penstock.testing.history import Commit, Operation, Outcome, Poll, Send
from penstock.testing.history_check import Expectations, check

HERE = ("t", 0)


def sends(values: str, *, outcome: Outcome = Outcome.OK, process: int = 1) -> Operation:
    return Operation(process, outcome, tuple(Send(*HERE, value) for value in values))


def kinds(final: str, *history: Operation, first: int = 0, **expected: object) -> dict[str, int]:
    """`final`: the values in the order of their offsets; a dash is an offset without a record."""
    rows = [(offset, value) for offset, value in enumerate(final, first) if value != "-"]
    return check(history, final={HERE: rows}, expected=Expectations(**expected)).count_kinds()  # type: ignore[arg-type]


def test_gap_is_found_when_every_offset_should_hold_a_record() -> None:
    assert kinds("ab-c", sends("abc")) == {}
    assert kinds("ab-c", sends("abc"), gapless=["t"]) == {"gap": 1}
    assert kinds("ab-c", sends("abc"), gapless=["other"]) == {}


def test_gap_is_found_when_a_reader_went_past_an_offset() -> None:
    reader = Operation(2, Outcome.OK, (Poll(*HERE, ((0, "a"), (2, "c"))),))
    assert "gap" in kinds("abc", sends("abc"), reader, gapless=["t"])


def test_no_gap_is_found_when_the_log_begins_later() -> None:
    assert kinds("cd", sends("abcd"), first=2, gapless=["t"], starts={HERE: 2}) == {"unseen": 2}


def test_record_may_be_gone_when_it_stood_before_the_start_of_the_log() -> None:
    history = Operation(1, Outcome.OK, tuple(Send(*HERE, value, offset) for offset, value in enumerate("abcd")))
    assert kinds("cd", history, first=2, starts={HERE: 2}) == {}
    assert kinds("cd", history, first=2) == {"lost-write": 2}
    assert kinds("d", history, first=3, starts={HERE: 2}) == {"lost-write": 1}


def test_order_is_judged_whatever_became_of_the_sends_when_a_process_is_ordered() -> None:
    unknown = [sends(value, outcome=Outcome.UNKNOWN) for value in "abc"]
    assert kinds("bac", *unknown) == {}
    assert kinds("bac", *unknown, ordered=[1]) == {"reordered": 1}
    assert kinds("ac", *unknown, ordered=[1]) == {}


def test_order_is_judged_by_the_first_copy_when_a_process_repeats_itself() -> None:
    assert kinds("abab", sends("ab"), ordered=[1], repeating=[1]) == {}
    assert kinds("abab", sends("ab"), ordered=[1]) == {"duplicate": 2}
    assert kinds("ba", sends("ab"), ordered=[1], repeating=[1]) == {"reordered": 1}


def test_copies_are_counted_when_a_process_may_repeat_itself() -> None:
    report = check([sends("ab")], final={HERE: list(enumerate("abab"))}, expected=Expectations(repeating=[1]))
    assert (report.is_sound, report.repeated) == (True, 2)


# ---------------------------------------------------------------------------------------------------- commits


def commit(offset: int, outcome: Outcome, invoked: int, process: int = 1, completed: int | None = None) -> Operation:
    end = invoked if completed is None else completed
    return Operation(process, outcome, (Commit("g", *HERE, offset),), invoked=invoked, completed=end)


OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("history", "ordered", "accepted"),
    [
        pytest.param([commit(1, OK, 1), commit(2, OK, 2)], [], {2}, id="the last counts"),
        pytest.param([commit(1, OK, 1), commit(2, FAILED, 2)], [], {1}, id="what failed does not"),
        pytest.param([commit(1, OK, 1), commit(2, UNKNOWN, 2)], [], {1, 2}, id="what is unknown may"),
        pytest.param([commit(1, UNKNOWN, 1), commit(2, OK, 2)], [], {1, 2}, id="it may come late"),
        pytest.param([commit(1, UNKNOWN, 1), commit(2, OK, 2)], [1], {2}, id="not of an ordered process"),
        pytest.param([commit(1, OK, 1, 1, 5), commit(2, OK, 2, 2)], [], {1, 2}, id="what ran at the same time"),
        pytest.param([commit(1, UNKNOWN, 1)], [1], {-1, 1}, id="nothing, if nothing is known"),
        pytest.param([], [], {-1}, id="nothing, if nothing was committed"),
    ],
)
def test_only_offsets_that_may_be_in_force_are_accepted_when_a_group_asks(
    history: list[Operation], ordered: list[int], accepted: set[int]
) -> None:
    for offset in (-1, 1, 2, 3):
        report = check(history, committed={("g", HERE): offset}, expected=Expectations(ordered=ordered))
        assert report.is_sound is (offset in accepted), (offset, str(report))


def test_commit_is_called_lost_or_garbage_when_it_is_wrong() -> None:
    history = [commit(1, OK, 1), commit(2, OK, 2)]
    for offset, kind in ((-1, "lost-commit"), (1, "lost-commit"), (7, "garbage-commit")):
        assert check(history, committed={("g", HERE): offset}).count_kinds() == {kind: 1}
