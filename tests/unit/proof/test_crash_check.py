"""The crash rounds must find what they look for. Each case is judged by the one checker, and its kinds are exact."""

from __future__ import annotations

from array import array

import pytest

from penstock.testing.history import Commit, HistoryReport, Operation, Outcome, Send, Where
from proof.crash.check import CrashReport, judge_stream, judge_transactions
from proof.fleet.streams import STREAM_KINDS, StreamLog, identify, name_streamed
from proof.promises import check_last_commit, check_topics

IDEMPOTENT = next(index for index, kind in enumerate(STREAM_KINDS) if kind.is_idempotent)
PLAIN = next(index for index, kind in enumerate(STREAM_KINDS) if not kind.is_idempotent)
TARGET = ("t", 0)


def check(
    stored: list[tuple[int, int, int]],
    served: list[int] | None = None,
    acknowledged: list[int] | None = None,
    *,
    has_other_leaders: bool = False,
) -> HistoryReport:
    """`stored`: (offset, writer, number). Each writer of these sent four records. All were acknowledged, at an unknown
    offset unless `acknowledged` has them.
    """
    writers = [StreamLog(index) for index in range(len(STREAM_KINDS))]
    for index in {row[1] for row in stored}:
        writers[index].offsets = array("q", acknowledged or [StreamLog.ACKNOWLEDGED] * 4)
    records = [(offset, name_streamed(STREAM_KINDS[index], number)) for offset, index, number in stored]
    return judge_stream([TARGET], TARGET, writers, served or [], records, has_other_leaders=has_other_leaders)


def report_of(judged: HistoryReport) -> CrashReport:
    report = CrashReport(seed=0)
    report.add(judged.anomalies)
    return report


def test_report_is_sound_when_all_is_in_order() -> None:
    judged = check([(number, IDEMPOTENT, number) for number in range(4)])
    assert report_of(judged).is_sound
    assert judged.sent == 4


def test_record_is_lost_when_acknowledged_and_not_stored() -> None:
    report = report_of(check([(0, IDEMPOTENT, 0), (1, IDEMPOTENT, 1), (2, IDEMPOTENT, 3)]))
    name = STREAM_KINDS[IDEMPOTENT].name
    text = f"unseen: t-0: 'record 2 of {name}' at an unknown offset was never read, the last that was is 2"
    assert report.lost == [text]
    assert not report.is_sound


def test_record_is_lost_when_it_stands_elsewhere_than_it_was_acknowledged() -> None:
    stored = [(number, IDEMPOTENT, number) for number in range(4)]
    assert check(stored, acknowledged=[0, 1, 2, 3]).is_sound
    assert check(stored, acknowledged=[0, 1, 2, 7]).count_kinds() == {"duplicate": 1}


def test_order_is_promised_to_idempotent_writers_alone_when_leaders_change() -> None:
    for writer, is_sound in ((IDEMPOTENT, False), (PLAIN, True)):
        stored = [(0, writer, 1), (1, writer, 0), (2, writer, 2), (3, writer, 3)]
        acknowledged = [1, 0, 2, 3]
        assert not check(stored, acknowledged=acknowledged).is_sound
        assert check(stored, acknowledged=acknowledged, has_other_leaders=True).is_sound == is_sound


def test_record_may_be_missing_when_it_was_never_acknowledged() -> None:
    stored = [(number, IDEMPOTENT, number) for number in range(3)]
    assert check(stored, acknowledged=[0, 1, 2, StreamLog.UNACKNOWLEDGED]).is_sound


def test_record_is_duplicated_when_an_idempotent_producer_stored_it_twice() -> None:
    report = report_of(
        check([(0, IDEMPOTENT, 0), (1, IDEMPOTENT, 1), (2, IDEMPOTENT, 1), (3, IDEMPOTENT, 2), (4, IDEMPOTENT, 3)])
    )
    assert len(report.duplicated) == 1
    assert not report.is_sound


def test_record_is_only_counted_when_a_plain_producer_sent_it_again() -> None:
    numbers = [0, 1, 2, 1, 2, 3]
    judged = check([(offset, PLAIN, number) for offset, number in enumerate(numbers)])
    assert report_of(judged).is_sound
    assert judged.repeated == 2


@pytest.mark.parametrize("writer", [PLAIN, IDEMPOTENT])
@pytest.mark.parametrize("acknowledged", [None, [0, 2, 1, 3], [StreamLog.UNACKNOWLEDGED] * 4])
def test_records_are_reordered_when_an_older_one_comes_later(writer: int, acknowledged: list[int] | None) -> None:
    """Whether they were acknowledged or not."""
    stored = [(offset, writer, number) for offset, number in enumerate([0, 2, 1, 3])]
    report = report_of(check(stored, acknowledged=acknowledged))
    assert len(report.reordered) == 1
    assert not report.is_sound


def test_gap_is_found_when_an_offset_is_missing() -> None:
    judged = check([(0, PLAIN, 0), (1, PLAIN, 1), (3, PLAIN, 2), (4, PLAIN, 3)])
    assert judged.count_kinds() == {"gap": 1}
    assert len(report_of(judged).other) == 1


def test_gap_is_found_when_the_beginning_is_missing() -> None:
    assert check([(number + 1, PLAIN, number) for number in range(4)]).count_kinds() == {"gap": 1}


def test_change_is_found_when_another_record_was_served_before() -> None:
    judged = check([(number, PLAIN, number) for number in range(4)], [identify(PLAIN, 1)])
    assert judged.count_kinds() == {"inconsistent-offsets": 1, "reordered": 1}
    assert len(report_of(judged).other) == 1


def test_loss_is_found_when_more_was_served_before() -> None:
    unacknowledged = [StreamLog.UNACKNOWLEDGED] * 5
    served = [identify(PLAIN, number) for number in range(5)]
    judged = check([(number, PLAIN, number) for number in range(4)], served, unacknowledged)
    assert judged.count_kinds() == {"lost-write": 1}


def test_stranger_is_found_when_no_writer_wrote_it() -> None:
    writer = StreamLog(0)
    writer.offsets.append(0)
    stored = [(0, name_streamed(STREAM_KINDS[0], 0)), (1, "garbage")]
    judged = judge_stream([TARGET], TARGET, [writer], [], stored)
    assert judged.count_kinds() == {"garbage-read": 1}
    report = report_of(judged)
    assert len(report.other) == 1
    assert "seed=0" in str(report)


def test_only_records_of_a_partition_are_asked_for_when_there_are_several() -> None:
    writer = StreamLog(0)
    writer.offsets.extend([0, 0, 1])
    kind = STREAM_KINDS[0]
    targets = [("t", 0), ("t", 1)]
    stored = [(0, name_streamed(kind, 0)), (1, name_streamed(kind, 2))]
    assert judge_stream(targets, targets[0], [writer], [], stored).is_sound
    assert judge_stream(targets, targets[1], [writer], [], [(0, name_streamed(kind, 1))]).is_sound
    assert not judge_stream(targets, targets[1], [writer], [], stored).is_sound


# ---------------------------------------------------------------------------------------------------- transactions

LEFT, RIGHT = ("transactions", 0), ("transactions", 1)
WRITER, GROUP = 1, "writer-group"


def name_in_transaction(writer: int, number: int, index: int) -> str:
    return f"record {index} of transaction {number} of {writer}"


def check_transactions(
    outcome: Outcome, visible: list[tuple[Where, int, int]], committed_offset: int = -1
) -> HistoryReport:
    """Two transactions of one writer, two records each, the second with an offset; `visible`: (where, number, index).
    The first is known to be committed.
    """
    history = []
    for number, (known, records) in enumerate(((Outcome.OK, FIRST), (outcome, SECOND))):
        sends = [Send(*where, name_in_transaction(0, number, index)) for where, _, index in records]
        commits = [Commit(GROUP, *LEFT, 2)] * number
        position = number * 10
        operation = Operation(WRITER, known, (*sends, *commits), True, invoked=position, completed=position + 5)
        history.append(operation)
    final: dict[Where, list[tuple[int, str]]] = {LEFT: [], RIGHT: []}
    for offset, (where, number, index) in enumerate(visible):
        final[where].append((offset, name_in_transaction(0, number, index)))
    return judge_transactions(history, final, {(GROUP, LEFT): committed_offset}, [WRITER])


FIRST = [(LEFT, 0, 0), (RIGHT, 0, 1)]
SECOND = [(RIGHT, 1, 0), (LEFT, 1, 1)]


@pytest.mark.parametrize(
    ("outcome", "visible", "committed_offset", "kinds"),
    [
        pytest.param(Outcome.OK, FIRST + SECOND, 2, {}, id="both committed and whole"),
        pytest.param(Outcome.FAILED, FIRST, -1, {}, id="aborted and invisible"),
        pytest.param(Outcome.UNKNOWN, FIRST, -1, {}, id="unknown and invisible"),
        pytest.param(Outcome.UNKNOWN, FIRST + SECOND, 2, {}, id="unknown and whole"),
        pytest.param(Outcome.OK, FIRST, 2, {"unseen": 2}, id="committed and lost"),
        pytest.param(Outcome.OK, FIRST + SECOND[:1], 2, {"unseen": 1}, id="committed and lost in part"),
        pytest.param(Outcome.FAILED, FIRST + SECOND[:1], -1, {"G1a": 1}, id="aborted and visible in part"),
        pytest.param(Outcome.UNKNOWN, FIRST + SECOND[:1], 2, {"unseen": 1}, id="unknown and visible in part"),
        pytest.param(Outcome.OK, FIRST + SECOND + SECOND[:1], 2, {"duplicate": 1}, id="a record twice"),
        pytest.param(Outcome.OK, SECOND + FIRST, 2, {"reordered": 2}, id="out of order"),
        pytest.param(Outcome.OK, FIRST + SECOND, -1, {"lost-commit": 1}, id="records without their offset"),
        pytest.param(Outcome.UNKNOWN, FIRST + SECOND, -1, {"lost-commit": 1}, id="unknown, without its offset"),
        pytest.param(Outcome.UNKNOWN, FIRST, 2, {"garbage-commit": 1}, id="unknown and invisible, with its offset"),
        pytest.param(Outcome.FAILED, FIRST, 2, {"garbage-commit": 1}, id="the offset of an aborted transaction"),
        pytest.param(
            Outcome.FAILED, [*FIRST, (LEFT, 5, 0)], -1, {"garbage-read": 1}, id="a transaction that nobody began"
        ),
    ],
)
def test_transactions_are_judged_by_what_readers_see_when_their_outcome_is_known_or_not(
    outcome: Outcome, visible: list[tuple[Where, int, int]], committed_offset: int, kinds: dict[str, int]
) -> None:
    judged = check_transactions(outcome, visible, committed_offset)
    assert judged.count_kinds() == kinds
    assert report_of(judged).is_sound is (not kinds)


# ---------------------------------------------------------------------------------------------------- other promises


KEYED = next(index for index, kind in enumerate(STREAM_KINDS) if kind.keys)
SECOND_ROUND = STREAM_KINDS[KEYED].keys  # the number of the first record with the key of record 0


@pytest.mark.parametrize(
    ("numbers", "kinds"),
    [
        pytest.param([1, 2, 3, SECOND_ROUND], {}, id="the last acknowledged"),
        pytest.param([0, 1, 2, 3, SECOND_ROUND], {}, id="everything"),
        pytest.param([1, 2, 3, SECOND_ROUND, SECOND_ROUND + 1], {}, id="a later one of unknown outcome"),
        pytest.param([0, 1, 2, 3], {"stale-key": 1}, id="an older one"),
        pytest.param([1, 2, 3], {"lost-key": 1}, id="none"),
        pytest.param([1, 2, 3, 3, SECOND_ROUND], {"duplicate": 1}, id="twice the same"),
        pytest.param([2, 1, 3, SECOND_ROUND], {"reordered": 1}, id="another order"),
        pytest.param([1, 2, 3, SECOND_ROUND, 99], {"garbage-read": 1}, id="one that nobody wrote"),
    ],
)
def test_compacted_topic_is_judged_by_the_latest_value_when_keys_were_written_again(
    numbers: list[int], kinds: dict[str, int]
) -> None:
    """Records 0 to 3 and the next with the key of record 0 were acknowledged, one behind it was not."""
    log = StreamLog(KEYED)
    log.offsets.extend([log.ACKNOWLEDGED] * 4 + [log.UNACKNOWLEDGED] * (SECOND_ROUND - 4))
    log.offsets.extend([log.ACKNOWLEDGED, log.UNACKNOWLEDGED])
    stored = [
        (offset, name_streamed(log.kind, number, log.kind.key_of(number))) for offset, number in enumerate(numbers)
    ]
    assert judge_stream([TARGET], TARGET, [log], [], stored, is_compacted=True).count_kinds() == kinds


def test_record_is_a_stranger_when_its_key_is_another_ones() -> None:
    log = StreamLog(KEYED)
    log.offsets.extend([log.ACKNOWLEDGED])
    stored = [(0, name_streamed(log.kind, 0, b"key-9"))]
    judged = judge_stream([TARGET], TARGET, [log], [], stored, is_compacted=True)
    assert judged.count_kinds() == {"garbage-read": 1, "lost-key": 1}


@pytest.mark.parametrize(
    ("acknowledged", "offset", "kinds"),
    [
        (4, 4, []),
        (4, 6, []),
        (4, 3, ["garbage-commit"]),
        (4, -1, ["lost-commit"]),
        (4, 7, ["garbage-commit"]),
        (0, -1, []),
        (0, 5, []),
        (0, 9, ["garbage-commit"]),
    ],
)
def test_offset_is_between_acknowledged_and_attempted_when_a_client_commits_again_and_again(
    acknowledged: int, offset: int, kinds: list[str]
) -> None:
    anomalies = check_last_commit("g", TARGET, acknowledged, 6, offset)
    assert [anomaly.kind for anomaly in anomalies] == kinds


def test_topics_are_told_when_they_are_gone_or_back() -> None:
    assert check_topics(["a", "b"], ["c", "d"], {"a", "b"}) == []
    assert len(check_topics(["a", "b"], ["c", "d"], {"a", "c"})) == 2
