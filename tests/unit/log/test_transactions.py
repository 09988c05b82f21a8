"""Transactions in a log: who may write and end them, and how far readers of committed records get."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.log.state.replay import read_marker
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, CONTROL_COMMIT, EndMarker, build_end_marker
from tests.unit.log.support import (
    NOW,
    SMALL,
    Disk,
    append,
    batch,
    contents,
    end_transaction,
    read_committed,
    sequenced,
    transactional,
)

LAST_EPOCH = 32767


def mark(
    log: PartitionLog, epoch: int = 0, coordinator_epoch: int = 0, version: int = 0, is_commit: bool = True
) -> ErrorCode | None:
    try:
        log.append_end_marker(7, epoch, coordinator_epoch, is_commit, 0, NOW, version)
    except ApiError as error:
        return error.code
    return None


def refusal(log: PartitionLog, data: bytes, version: int = 0) -> ErrorCode | None:
    try:
        log.append_as_leader(data, 0, NOW, transaction_version=version)
    except ApiError as error:
        return error.code
    return None


@pytest.mark.parametrize(("is_commit", "control_type"), [(True, CONTROL_COMMIT), (False, CONTROL_ABORT)])
def test_the_marker_is_a_control_batch_when_a_transaction_ends(
    tmp_path: Path, is_commit: bool, control_type: int
) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0, 2))
    result = log.append_end_marker(7, 0, 5, is_commit, 3, NOW)
    assert (result.base_offset, result.last_offset, result.is_duplicate) == (2, 2, False)
    stored = contents(log.reader.read(2, 1000, 3, at_least_one=True))
    header = read_header(stored)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.leader_epoch) == (7, 0, -1, 3)
    assert read_marker(stored) == EndMarker(control_type, 5)


def test_a_marker_gets_in_when_it_is_larger_than_the_topic_allows(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=replace(SMALL, max_message_bytes=70)).create()
    assert mark(log) is None


def test_a_clients_marker_is_refused_when_it_is_sent_as_a_batch(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    marker = build_end_marker(EndMarker(CONTROL_COMMIT, 0), producer_id=7, producer_epoch=0, timestamp=NOW)
    assert refusal(log, marker) == ErrorCode.INVALID_RECORD


def test_the_last_stable_offset_is_the_oldest_open_transactions_when_several_overlap(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"), transactional(0, producer_id=1), transactional(0, producer_id=2))
    append(log, transactional(1, producer_id=1), batch("b"))
    assert log.last_stable_offset == 1
    end_transaction(log, is_commit=True, producer_id=1)
    assert log.last_stable_offset == 2
    append(log, transactional(2, producer_id=1))
    end_transaction(log, is_commit=False, producer_id=2)
    assert log.last_stable_offset == 6
    end_transaction(log, is_commit=True, producer_id=1)
    assert log.last_stable_offset == log.log_end_offset == 9
    assert read_committed(log, 0) == [0, 1, 3, 4, 6]


def test_the_last_stable_offset_waits_when_the_marker_is_not_replicated(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"), transactional(0))
    log.append_end_marker(7, 0, 0, True, 0, NOW)
    assert (log.high_watermark, log.last_stable_offset) == (2, 1)
    log.append_as_leader(transactional(1), 0, NOW)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    log.advance_high_watermark(4)
    assert log.last_stable_offset == 3


def test_the_last_stable_offset_is_not_before_the_start_when_records_of_the_transaction_were_deleted(
    tmp_path: Path,
) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0), batch("a"), batch("b"))
    log.delete_records_before(2)
    assert log.last_stable_offset == 2


def test_a_transaction_is_open_when_its_producer_has_written_and_not_ended(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    assert not log.producers.has_open_transaction(7, 0)
    append(log, sequenced(0))
    assert not log.producers.has_open_transaction(7, 0)
    append(log, transactional(1))
    for opened in (log, disk.reopen(log)):
        assert opened.producers.has_open_transaction(7, 0)
        assert not opened.producers.has_open_transaction(7, 1)
        assert not opened.producers.has_open_transaction(8, 0)
        log = opened
    log = disk.crash(log)
    assert log.producers.has_open_transaction(7, 0)
    end_transaction(log, is_commit=True)
    assert not log.producers.has_open_transaction(7, 0)


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "code"),
    [
        (3, 2, 0, None),
        (4, 2, 0, None),
        (2, 2, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (3, 1, 0, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (3, 9, 0, None),
        (2, 1, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 2, 2, None),
        (3, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (2, 2, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, 1, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
def test_the_rules_hold_when_a_marker_ends_a_transaction(
    tmp_path: Path, epoch: int, coordinator_epoch: int, version: int, code: ErrorCode | None
) -> None:
    log = Disk(tmp_path).create()
    end_transaction(log, is_commit=True, epoch=3, coordinator_epoch=2)
    append(log, transactional(0, epoch=3))
    assert mark(log, epoch, coordinator_epoch, version) == code
    assert log.producers.has_open_transaction(7, 3) == (code is not None)


def test_the_same_marker_is_harmless_when_it_comes_again(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0))
    assert [mark(log, 1, version=2, is_commit=False) for _ in range(2)] == [None, None]
    log.advance_high_watermark(log.log_end_offset)
    assert [aborted[:3] for aborted in log.reader.aborted_transactions(0, 3)] == [(7, 0, 1)]


def test_the_last_epoch_ends_its_own_transaction_when_it_cannot_be_bumped(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0, epoch=LAST_EPOCH))
    assert mark(log, LAST_EPOCH, version=2) is None
    assert not log.producers.has_open_transaction(7, LAST_EPOCH)


def test_the_old_epoch_is_fenced_and_sequences_begin_anew_when_a_marker_bumps_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append(log, transactional(0, 3))
    assert mark(log, 1, version=2) is None
    for opened in (log, disk.crash(log)):
        log = opened
        assert refusal(log, transactional(3)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert refusal(log, transactional(0, 3)) == ErrorCode.INVALID_PRODUCER_EPOCH
        assert refusal(log, transactional(3, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, transactional(0, epoch=1)) is None


def test_sequences_go_on_when_the_marker_does_not_bump_the_epoch(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0, 3))
    assert mark(log) is None
    assert refusal(log, transactional(0)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, transactional(3)) is None


@pytest.mark.parametrize(
    ("version", "sequence", "code"),
    [(0, 5, None), (2, 0, None), (2, 5, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)],
)
def test_an_unknown_producer_begins_at_zero_when_its_transactions_have_epochs_of_their_own(
    tmp_path: Path, version: int, sequence: int, code: ErrorCode | None
) -> None:
    log = Disk(tmp_path).create()
    assert refusal(log, transactional(sequence), version) == code


def test_plain_batches_are_refused_when_their_producer_has_a_transaction_open(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0))
    assert refusal(log, sequenced(1)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(log, sequenced(0, epoch=1)) == ErrorCode.INVALID_TXN_STATE
    append(log, transactional(1))
    end_transaction(log, is_commit=False)
    append(log, sequenced(2))
    assert read_committed(log, 0) == [3]


def test_a_batch_is_recognised_when_it_comes_again_in_its_transaction(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0, 2), transactional(2))
    again = log.append_as_leader(transactional(0, 2), 0, NOW)
    assert (again.is_duplicate, again.base_offset) == (True, 0)


def test_a_new_epoch_goes_on_with_the_open_transaction_when_no_marker_came_between(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0), transactional(0, epoch=1))
    assert log.last_stable_offset == 0
    assert log.producers.has_open_transaction(7, 1)
    assert mark(log, 1, is_commit=False) is None
    log.advance_high_watermark(log.log_end_offset)
    assert read_committed(log, 0) == []


def test_the_producer_is_kept_when_it_is_idle_inside_a_transaction(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, producer_id_expiration_ms=1000))
    log = disk.create()
    append(log, transactional(0), sequenced(0, producer_id=8))
    log.producers.remove_expired(NOW + 5000, log.settings.producer_id_expiration_ms)
    assert [entry.producer_id for entry in log.producers.active()] == [7]
    log.close(clean=True)
    log = disk.open(now_ms=NOW + 5000)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 0


def test_open_transactions_survive_when_segments_roll_and_the_broker_is_killed(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_bytes=300))
    log = disk.create()
    append(log, transactional(0, producer_id=2), transactional(0, producer_id=1))
    append(log, *(batch("filler") for _ in range(20)))
    disk.recovery_point = log.flushing.flush()
    append(log, batch("tail"))
    log = disk.crash(log)
    log.advance_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == 0
    end_transaction(log, is_commit=True, producer_id=2)
    assert log.last_stable_offset == 1
    end_transaction(log, is_commit=False, producer_id=1)
    assert log.last_stable_offset == log.log_end_offset
    assert read_committed(log, 0) == [0, *range(2, 23)]
