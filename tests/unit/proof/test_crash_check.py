"""The checker of the crash rounds must find what it looks for."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.proof.crash.check import CrashReport, TargetCheck, check_writers
from penstock.proof.crash.clients import WRITER_KINDS, Writer, WriterKind, encode_value, identify
from penstock.proof.crash.transactions import (
    ABORTED,
    COMMITTED,
    UNKNOWN,
    TransactionCheck,
    TransactionLog,
    check_keys,
    encode_record,
)

IDEMPOTENT = next(index for index, kind in enumerate(WRITER_KINDS) if kind.is_idempotent)
PLAIN = next(index for index, kind in enumerate(WRITER_KINDS) if not kind.is_idempotent)


@dataclass
class PastWriter:
    """What a writer has left behind when its thread is gone."""

    kind: WriterKind
    acknowledged: bytearray = field(default_factory=lambda: bytearray([1] * 4))


def check(stored: list[tuple[int, int, int]], served: list[int] | None = None) -> CrashReport:
    """`stored`: (offset, writer, number)."""
    report = CrashReport(seed=0)
    writers: list[Writer] = [PastWriter(kind) for kind in WRITER_KINDS]  # type: ignore[misc]
    for index, writer in enumerate(writers):
        if index not in {row[1] for row in stored}:
            writer.acknowledged[:] = bytes(4)
    target = TargetCheck(("t", 0), writers, served or [])
    for offset, index, number in stored:
        target.add(offset, encode_value(index, number), report)
    target.finish(report)
    check_writers(writers, [target], report)
    return report


def test_report_is_sound_when_all_is_in_order() -> None:
    report = check([(number, IDEMPOTENT, number) for number in range(4)])
    assert report.is_sound
    assert (report.acknowledged, report.stored) == (4, 4)


def test_record_is_lost_when_acknowledged_and_not_stored() -> None:
    report = check([(0, IDEMPOTENT, 0), (1, IDEMPOTENT, 1), (2, IDEMPOTENT, 3)])
    assert report.lost == [f"record 2 of {WRITER_KINDS[IDEMPOTENT].name}"]


def test_record_is_duplicated_when_an_idempotent_producer_stored_it_twice() -> None:
    report = check([(0, IDEMPOTENT, 0), (1, IDEMPOTENT, 1), (2, IDEMPOTENT, 1), (3, IDEMPOTENT, 2), (4, IDEMPOTENT, 3)])
    assert len(report.duplicated) == 1
    assert not report.is_sound


def test_record_is_only_counted_when_a_plain_producer_sent_it_again() -> None:
    numbers = [0, 1, 2, 1, 2, 3]
    report = check([(offset, PLAIN, number) for offset, number in enumerate(numbers)])
    assert report.is_sound
    assert report.retried == 2


def test_records_are_reordered_when_an_older_one_comes_later() -> None:
    report = check([(offset, PLAIN, number) for offset, number in enumerate([0, 2, 1, 3])])
    assert len(report.reordered) == 1
    assert not report.is_sound


def test_gap_is_found_when_an_offset_is_missing() -> None:
    report = check([(0, PLAIN, 0), (1, PLAIN, 1), (3, PLAIN, 2), (4, PLAIN, 3)])
    assert len(report.other) == 1


@pytest.mark.parametrize("served", [[identify(PLAIN, 1)], [identify(PLAIN, number) for number in range(5)]])
def test_change_is_found_when_something_else_was_served_before(served: list[int]) -> None:
    report = check([(number, PLAIN, number) for number in range(4)], served)
    assert len(report.other) == 1


def test_stranger_is_found_when_no_writer_wrote_it() -> None:
    report = CrashReport(seed=0)
    target = TargetCheck(("t", 0), [], [])
    target.add(0, b"garbage", report)
    assert len(report.other) == 1
    assert "seed=0" in str(report)


# ---------------------------------------------------------------------------------------------------- transactions

LEFT, RIGHT = ("transactions", 0), ("transactions", 1)


def check_transactions(
    outcome: int, visible: list[tuple[tuple[str, int], int, int]], committed_offset: int = -1
) -> TransactionCheck:
    """Two transactions of one writer, two records each, the second with an offset; `visible`: (where, number, index).
    The first is known to be committed.
    """
    log = TransactionLog("writer")
    for with_offset in (False, True):
        log.add(2, with_offset)
    log.outcomes[:] = bytes([COMMITTED, outcome])
    found = TransactionCheck([log])
    for offset, (where, number, index) in enumerate(visible):
        found.add(where, offset, encode_record(0, number, index))
    found.finish([committed_offset])
    return found


def problems_of(found: TransactionCheck) -> list[int]:
    return [len(found.lost), len(found.duplicated), len(found.reordered), len(found.other)]


FIRST = [(LEFT, 0, 0), (RIGHT, 0, 1)]
SECOND = [(RIGHT, 1, 0), (LEFT, 1, 1)]


@pytest.mark.parametrize(
    ("outcome", "visible", "committed_offset", "problems"),
    [
        pytest.param(COMMITTED, FIRST + SECOND, 2, [0, 0, 0, 0], id="both committed and whole"),
        pytest.param(ABORTED, FIRST, -1, [0, 0, 0, 0], id="aborted and invisible"),
        pytest.param(UNKNOWN, FIRST, -1, [0, 0, 0, 0], id="unknown and invisible"),
        pytest.param(UNKNOWN, FIRST + SECOND, 2, [0, 0, 0, 0], id="unknown and whole"),
        pytest.param(COMMITTED, FIRST, -1, [1, 0, 0, 0], id="committed and lost"),
        pytest.param(COMMITTED, FIRST + SECOND[:1], -1, [1, 0, 0, 0], id="committed and lost in part"),
        pytest.param(ABORTED, FIRST + SECOND[:1], -1, [0, 0, 0, 1], id="aborted and visible in part"),
        pytest.param(UNKNOWN, FIRST + SECOND[:1], -1, [0, 0, 0, 1], id="unknown and visible in part"),
        pytest.param(COMMITTED, FIRST + SECOND + SECOND[:1], 2, [0, 1, 0, 0], id="a record twice"),
        pytest.param(COMMITTED, SECOND + FIRST, 2, [0, 0, 2, 0], id="out of order"),
        pytest.param(COMMITTED, FIRST + SECOND, -1, [0, 0, 0, 1], id="records without their offset"),
        pytest.param(ABORTED, FIRST, 2, [0, 0, 0, 1], id="the offset of an aborted transaction"),
        pytest.param(ABORTED, [*FIRST, (LEFT, 5, 0)], -1, [0, 0, 0, 1], id="a transaction that nobody began"),
    ],
)
def test_transactions_are_judged_by_what_readers_see_when_their_outcome_is_known_or_not(
    outcome: int, visible: list[tuple[tuple[str, int], int, int]], committed_offset: int, problems: list[int]
) -> None:
    assert problems_of(check_transactions(outcome, visible, committed_offset)) == problems


@pytest.mark.parametrize(
    ("records", "problems"),
    [
        pytest.param([(b"a", 3), (b"b", 4)], 0, id="the last acknowledged"),
        pytest.param([(b"a", 1), (b"b", 4), (b"a", 5)], 0, id="a later one of unknown outcome"),
        pytest.param([(b"a", 1), (b"b", 4)], 1, id="an older one"),
        pytest.param([(b"b", 4)], 1, id="none"),
        pytest.param([(b"a", 3), (b"a", 3), (b"b", 4)], 1, id="twice the same"),
        pytest.param([(b"a", 6), (b"b", 4)], 1, id="one that nobody wrote"),
    ],
)
def test_compacted_topic_is_judged_by_the_latest_value_when_keys_were_written_again(
    records: list[tuple[bytes, int]], problems: int
) -> None:
    found = check_keys({b"a": 3, b"b": 4}, {b"a": 5, b"b": 4}, records)
    assert len(found) == problems
