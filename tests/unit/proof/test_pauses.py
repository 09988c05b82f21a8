"""The rounds of pauses must find what they look for, and name the batches that show it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

from penstock.protocol.records import Record, build_batch
from proof.fleet.streams import STREAM_KINDS, StreamLog, encode_streamed, name_streamed
from proof.pauses.placed import count_bumped, judge_placed, place_records
from proof.pauses.rounds import PauseReport
from proof.pauses.writer import LibraryLog
from proof.verdict import DUPLICATED, LOST, REORDERED, sort_anomalies

IDEMPOTENT = next(index for index, kind in enumerate(STREAM_KINDS) if kind.name == "idempotent")
TARGET = ("t", 0)
PRODUCER = 4_000


def name(number: int) -> str:
    return name_streamed(STREAM_KINDS[IDEMPOTENT], number)


def batch(*numbers: int, offset: int, epoch: int = 0, sequence: int | None = None) -> bytes:
    return build_batch(
        [Record(value=encode_streamed(IDEMPOTENT, number), timestamp=0) for number in numbers],
        base_offset=offset,
        leader_epoch=7,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        base_sequence=numbers[0] if sequence is None else sequence,
    )


def found(stored: Sequence[bytes], acknowledged: Sequence[int]) -> dict[str, list[str]]:
    log = StreamLog(IDEMPOTENT)
    log.offsets = array("q", acknowledged)
    placed = place_records(b"".join(stored), 0)
    return {kind: texts for kind, texts in sort_anomalies(judge_placed({TARGET: placed}, log)).items() if texts}


def test_records_have_the_sequences_of_their_batches_when_they_are_read_raw() -> None:
    placed = place_records(batch(0, offset=0) + batch(1, 2, 3, offset=1, epoch=2), 2)
    assert [(each.offset, each.name, each.sequence) for each in placed] == [(2, name(2), 2), (3, name(3), 3)]
    assert {each.header.producer_epoch for each in placed} == {2}


def test_nothing_is_found_when_each_record_is_there_once() -> None:
    assert found([batch(0, 1, offset=0), batch(2, offset=2)], [0, 1, 2]) == {}


def test_both_places_are_named_when_a_record_is_there_twice() -> None:
    texts = found([batch(0, offset=0), batch(1, offset=1), batch(1, 2, offset=2, epoch=1, sequence=0)], [0, 2, 3])
    assert list(texts) == [DUPLICATED]
    (text,) = texts[DUPLICATED]
    assert name(1) in text
    assert "acknowledged at offset 2" in text
    assert "is at offset 1 (producer 4000 epoch 0 sequence 1, " in text
    assert (
        "is at offset 2 (producer 4000 epoch 1 sequence 0, in a batch of sequences 0 to 1 at offset 2, leader epoch 7)"
        in text
    )


def test_what_stands_in_its_place_is_named_when_a_record_is_lost() -> None:
    texts = found([batch(0, offset=0), batch(2, offset=1)], [0, 1, 1])
    lost = [text for text in texts[LOST] if name(1) in text]
    assert f"acknowledged at offset 1; in its place {name(2)} is at offset 1 (producer 4000 epoch 0 seq" in lost[0]


def test_the_batch_is_named_when_a_record_stands_before_an_earlier_one() -> None:
    texts = found([batch(0, offset=0), batch(2, offset=1), batch(1, offset=2)], [0, 2, 1])
    assert list(texts) == [REORDERED]
    assert f"{name(2)!r} at offset 1 was sent after {name(1)!r} at offset 2" in texts[REORDERED][0]
    assert "is at offset 1 (producer 4000 epoch 0 sequence 2, " in texts[REORDERED][0]


def test_a_record_is_lost_when_it_was_acknowledged_without_an_offset_and_is_not_there() -> None:
    texts = found([batch(0, offset=0)], [0, StreamLog.ACKNOWLEDGED])
    assert texts[LOST][0].endswith("; acknowledged without an offset")


def test_a_copy_is_found_when_its_record_was_never_acknowledged() -> None:
    texts = found([batch(0, offset=0), batch(0, offset=1)], [StreamLog.UNACKNOWLEDGED])
    assert "; not acknowledged; is at offset 0 (" in texts[DUPLICATED][0]


def test_copies_count_as_bumped_when_they_are_of_several_producer_epochs() -> None:
    same = place_records(batch(0, offset=0) + batch(0, offset=1), 0)
    other = place_records(batch(0, 1, offset=0) + batch(1, 2, offset=2, epoch=1, sequence=0), 0)
    assert count_bumped({TARGET: same}) == 0
    assert count_bumped({TARGET: other}) == 1


def test_a_report_is_sound_when_rounds_were_played_and_none_was_bad() -> None:
    assert not PauseReport(7, "nowhere").is_sound
    report = PauseReport(7, "somewhere", rounds=2, bumps=1)
    assert report.is_sound
    assert "epoch_bumps=1" in str(report)


def test_a_report_says_where_the_data_is_when_a_round_was_bad() -> None:
    report = PauseReport(7, "somewhere", rounds=2, kept=[Path("/kept/here")])
    report.findings[LOST].append("round 2: a record")
    assert not report.is_sound
    assert str(report).splitlines()[-2:] == ["  lost: round 2: a record", "  kept: /kept/here"]


def test_what_the_library_logs_is_counted_when_it_says_what_became_of_a_batch() -> None:
    log = LibraryLog()
    for line in (
        "MSGSET [p] t [0]: MessageSet with 1 message(s) (MsgId 1, BaseSeq 0) delivered",
        "MSGSET [p] t [0]: MessageSet with 1 message(s) (MsgId 2, BaseSeq 1) encountered error: Broker: Not leader",
        "DRAIN [p] All partitions drained, bumped epoch to PID{Id:0,Epoch:1}",
        "DRAIN [p] t [0] beginning partition drain: drain before retrying",
    ):
        log.logger.debug(line)
    assert dict(log.counts) == {"delivered": 1, "refused": 1, "epochs bumped": 1}
    assert len(log.lines) == 4
