"""The latest record of each key is left in a compacted topic; a key whose latest record is a tombstone may be gone."""

from __future__ import annotations

import random
from collections.abc import Hashable
from pathlib import Path

import pytest

from penstock.testing.history import Isolation, Operation, Outcome, Poll, Send, read_history, write_history
from penstock.testing.history_check import Expectations, check

HERE = ("t", 0)
TOMBSTONE = "x"


def send(value: str, offset: int | None = None) -> Send:
    """`a1` is the first record with key `a`; `ax` is a tombstone."""
    return Send(*HERE, value, offset, value[0], TOMBSTONE in value)


def sent(values: str, outcome: Outcome = Outcome.OK, first: int | None = 0, **details: int | bool) -> Operation:
    sends = [send(value, None if first is None else first + index) for index, value in enumerate(values.split())]
    process = int(details.pop("process", 1))
    return Operation(process, outcome, tuple(sends), **details)  # type: ignore[arg-type]


def kinds(
    left: dict[int, str], *history: Operation, ordered: tuple[int, ...] = (), compacted: tuple[str, ...] = ("t",)
) -> dict[str, int]:
    expected = Expectations(compacted=compacted, ordered=ordered, is_complete=True)
    return check(history, final={HERE: sorted(left.items())}, expected=expected).count_kinds()


@pytest.mark.parametrize(
    ("left", "found"),
    [
        pytest.param({0: "a1", 1: "b1", 2: "a2"}, {}, id="nothing is compacted"),
        pytest.param({1: "b1", 2: "a2"}, {}, id="the latest of each"),
        pytest.param({0: "a1", 1: "b1"}, {"stale-key": 1}, id="an older one is left"),
        pytest.param({1: "b1"}, {"lost-key": 1}, id="none is left"),
        pytest.param({}, {"lost-key": 2}, id="nothing is left"),
        pytest.param({1: "b1", 2: "a2", 3: "a2"}, {"duplicate": 1}, id="one twice"),
        pytest.param({1: "b1", 2: "a3"}, {"garbage-read": 1, "inconsistent-offsets": 1, "lost-key": 1}, id="another"),
    ],
)
def test_key_is_judged_by_its_latest_record_when_a_topic_is_compacted(
    left: dict[int, str], found: dict[str, int]
) -> None:
    assert kinds(left, sent("a1 b1 a2")) == found


def test_keys_are_not_judged_when_the_topic_is_not_compacted() -> None:
    assert kinds({1: "b1"}, sent("a1 b1 a2"), compacted=()) == {"lost-write": 1, "unseen": 1}


def test_key_may_be_gone_when_its_latest_record_is_a_tombstone() -> None:
    assert kinds({}, sent("a1 ax")) == {}
    assert kinds({1: "ax"}, sent("a1 ax")) == {}
    assert kinds({0: "a1"}, sent("a1 ax")) == {"stale-key": 1}
    assert kinds({}, sent("ax a1")) == {"lost-key": 1}


def test_key_may_be_gone_when_a_tombstone_of_unknown_outcome_may_stand_behind() -> None:
    later = sent("ax", Outcome.UNKNOWN, None, invoked=1, completed=1)
    assert kinds({}, sent("a1"), later) == {}
    assert kinds({0: "a1"}, sent("a1"), later) == {}
    failed = sent("ax", Outcome.FAILED, None, invoked=1, completed=1)
    assert kinds({}, sent("a1"), failed) == {"lost-key": 1}


def test_newer_record_may_be_left_when_its_outcome_is_unknown() -> None:
    later = sent("a2", Outcome.UNKNOWN, None, invoked=1, completed=1)
    assert kinds({1: "a2"}, sent("a1"), later) == {}
    assert kinds({1: "a2"}, sent("a1"), sent("a2", Outcome.FAILED, None)) == {"G1a": 1, "lost-key": 1}


def test_record_must_be_left_when_anybody_has_read_it() -> None:
    later = sent("a2", Outcome.UNKNOWN, None, invoked=1, completed=1)
    poll = Poll(*HERE, ((1, "a2"),))
    reader = Operation(2, Outcome.OK, (poll,), isolation=Isolation.READ_UNCOMMITTED, invoked=2, completed=2)
    assert kinds({0: "a1"}, sent("a1"), later, reader) == {"stale-key": 1}


def test_record_of_a_transaction_counts_when_another_part_of_it_was_seen() -> None:
    both = (send("a2"), Send("other", 0, "seen"))
    unknown = Operation(1, Outcome.UNKNOWN, both, transaction=True, invoked=1, completed=1)
    final = {HERE: [(0, "a1")], ("other", 0): [(0, "seen")]}
    expected = Expectations(compacted=["t"], ordered=[1], is_complete=True)
    assert check([sent("a1"), unknown], final=final, expected=expected).count_kinds() == {"stale-key": 1}
    final["other", 0] = []
    assert check([sent("a1"), unknown], final=final, expected=expected).is_sound


def test_fate_of_a_transaction_stays_unknown_when_its_records_may_be_compacted_away() -> None:
    unknown = sent("a1", Outcome.UNKNOWN, None, transaction=True)
    later = sent("a2", first=5, invoked=1, completed=1)
    assert kinds({5: "a2"}, unknown, later) == {}


def test_order_of_a_process_tells_the_latest_record_when_no_offset_was_told() -> None:
    history = [sent("a1", first=None), sent("a2", first=None)]
    assert kinds({0: "a1"}, *history) == {}
    assert kinds({0: "a1"}, *history, ordered=(1,)) == {"stale-key": 1}
    assert kinds({1: "a2"}, *history, ordered=(1,)) == {}


@pytest.mark.parametrize("seed", range(50))
def test_loss_is_found_when_any_latest_record_is_removed(seed: int) -> None:
    chance = random.Random(seed)
    values = [f"{chance.choice('abcd')}{TOMBSTONE * (chance.random() < 0.2)}{number}" for number in range(30)]
    history = sent(" ".join(values))
    latest = {value[0]: offset for offset, value in enumerate(values)}
    left = {offset: value for offset, value in enumerate(values) if latest[value[0]] == offset or chance.random() < 0.3}
    assert kinds(left, history) == {}
    victim = chance.choice([offset for offset in latest.values() if TOMBSTONE not in values[offset]])
    del left[victim]
    others = [value for value in left.values() if value[0] == values[victim][0]]
    assert kinds(left, history) == {"stale-key" if others else "lost-key": 1}


def test_keys_are_read_back_when_a_history_was_saved(tmp_path: Path) -> None:
    history = [sent("a1 ax"), Operation(2, Outcome.OK, (Send(*HERE, "plain", 7),))]
    final: dict[tuple[str, int], list[tuple[int, Hashable]]] = {HERE: [(1, "ax")]}
    write_history(tmp_path / "history.jsonl", history, final)
    assert read_history(tmp_path / "history.jsonl") == (history, final)
