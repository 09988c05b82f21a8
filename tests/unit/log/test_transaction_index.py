"""`.txnindex`: its bytes, and its life beside the segments."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.log.state.transaction_index import AbortedTransaction, TransactionIndex
from penstock.log.storage.indexes import CorruptIndexError
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_ABORT, EndMarker, build_end_marker
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.log.support import (
    NOW,
    SMALL,
    Disk,
    append,
    batch,
    end_transaction,
    read_committed,
    transactional,
)

ENTRY = struct.Struct(">hqqqq")
TINY = replace(SMALL, segment_bytes=300)


def abort(log: PartitionLog, sequence: int, producer_id: int = 7) -> tuple[int, int]:
    """A transaction of one record; (first offset, the marker's)."""
    (first,) = append(log, transactional(sequence, producer_id=producer_id))
    return first, end_transaction(log, is_commit=False, producer_id=producer_id)


def pairs(log: PartitionLog, start: int = 0, end: int | None = None) -> list[tuple[int, int]]:
    found = log.reader.aborted_transactions(start, log.last_stable_offset if end is None else end)
    return [(aborted.producer_id, aborted.first_offset) for aborted in found]


def indexed(path: Path) -> list[tuple[int, ...]]:
    return list(ENTRY.iter_unpack(path.read_bytes()))


def test_the_bytes_are_kafkas_when_encoded() -> None:
    index = TransactionIndex(10)
    index.append(AbortedTransaction(7, 3, 12, 13))
    index.append(AbortedTransaction(8, 11, 15, 14))
    data = index.encode()
    assert list(ENTRY.iter_unpack(data)) == [(0, 7, 3, 12, 13), (0, 8, 11, 15, 14)]
    again = TransactionIndex.decode(10, data)
    assert [again[0], again[1]] == [(7, 3, 12, 13), (8, 11, 15, 14)]
    assert len(TransactionIndex.decode(10, b"")) == 0


@pytest.mark.parametrize(
    "data",
    [
        ENTRY.pack(0, 7, 3, 12, 13)[:-1],
        ENTRY.pack(1, 7, 3, 12, 13),
        ENTRY.pack(0, -1, 3, 12, 13),
        ENTRY.pack(0, 7, -1, 12, 13),
        ENTRY.pack(0, 7, 12, 12, 13),
        ENTRY.pack(0, 7, 3, 9, 10),
        ENTRY.pack(0, 7, 3, 12, 14),
        ENTRY.pack(0, 7, 3, 12, -1),
        ENTRY.pack(0, 7, 3, 12, 13) * 2,
        ENTRY.pack(0, 7, 3, 14, 13) + ENTRY.pack(0, 7, 3, 12, 13),
    ],
)
def test_an_index_is_refused_when_it_cannot_be_right(data: bytes) -> None:
    with pytest.raises(CorruptIndexError):
        TransactionIndex.decode(10, data)


def test_the_search_ends_when_everything_before_the_range_was_decided() -> None:
    index = TransactionIndex(0)
    for entry in ((1, 0, 10, 5), (2, 5, 12, 13), (1, 20, 25, 26)):
        index.append(AbortedTransaction(*entry))
    found: list[AbortedTransaction] = []
    assert index.collect(0, 5, found)
    assert [aborted.producer_id for aborted in found] == [1]
    found.clear()
    assert index.collect(0, 13, found)
    assert [aborted.producer_id for aborted in found] == [1, 2]
    found.clear()
    assert not index.collect(11, 40, found)
    assert [aborted.first_offset for aborted in found] == [5, 20]


def test_no_file_is_written_when_nothing_was_aborted(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=TINY)
    log = disk.create()
    for sequence in range(10):
        append(log, transactional(sequence))
        end_transaction(log, is_commit=True)
    assert pairs(log) == []
    log.close(clean=True)
    assert disk.names(".txnindex") == []


def test_each_segment_has_the_transactions_whose_marker_it_holds_when_they_span_segments(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=TINY)
    log = disk.create()
    append(log, transactional(0, producer_id=1), transactional(0, producer_id=2))
    append(log, *(batch("filler") for _ in range(10)))
    first = end_transaction(log, is_commit=False, producer_id=2)
    append(log, *(batch("filler") for _ in range(10)))
    second = end_transaction(log, is_commit=False, producer_id=1)
    assert pairs(log) == [(1, 0), (2, 1)]
    assert pairs(log, 0, 1) == [(1, 0)]
    assert pairs(log, first + 1) == [(1, 0)]
    assert pairs(log, second + 1) == []
    log.close(clean=True)
    files = [tmp_path / name for name in disk.names(".txnindex")]
    assert [indexed(path) for path in files] == [[(0, 2, 1, first, 0)], [(0, 1, 0, second, second + 1)]]
    log = disk.open()
    log.advance_high_watermark(log.log_end_offset)
    assert pairs(log) == [(1, 0), (2, 1)]
    assert read_committed(log, 0) == [*range(2, 12), *range(13, 23)]


def test_the_index_goes_on_when_the_log_is_opened_again(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    abort(log, 0)
    log = disk.reopen(log)
    log.advance_high_watermark(log.log_end_offset)
    abort(log, 1)
    assert pairs(log) == [(7, 0), (7, 2)]
    log.close(clean=True)
    assert indexed(tmp_path / f"{0:020d}.txnindex") == [(0, 7, 0, 1, 2), (0, 7, 2, 3, 4)]


def test_markers_that_were_cut_off_are_forgotten_when_the_log_is_truncated(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    abort(log, 0)
    _, marker = abort(log, 1)
    log = disk.reopen(log)
    log.truncate_to(marker)
    log.advance_high_watermark(log.log_end_offset)
    assert (pairs(log), log.last_stable_offset) == ([(7, 0)], 2)
    assert log.producers.has_open_transaction(7, 0)
    log.truncate_to(1)
    log.advance_high_watermark(log.log_end_offset)
    assert (log.reader.aborted_transactions(0, 10), log.last_stable_offset) == ([], 0)
    end_transaction(log, is_commit=True)
    log = disk.reopen(log)
    assert disk.names(".txnindex") == []
    log.advance_high_watermark(2)
    assert read_committed(log, 0) == [0]


def test_whole_segments_are_forgotten_when_the_log_is_truncated_below_them(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=TINY)
    log = disk.create()
    for sequence in range(6):
        abort(log, sequence)
    log.close(clean=True)
    log = disk.open()
    assert len(disk.names(".txnindex")) > 2
    log.truncate_to(2)
    log.advance_high_watermark(2)
    assert pairs(log) == [(7, 0)]
    abort(log, 1)
    assert pairs(log) == [(7, 0), (7, 2)]
    log.truncate_to(0)
    assert log.reader.aborted_transactions(0, 10) == []


@pytest.mark.parametrize("damage", [b"", b"\x00", b"\x00" * 34, b"\xff" * 68])
@pytest.mark.parametrize("which", [0, -1])
def test_a_damaged_index_is_made_again_when_it_is_asked(tmp_path: Path, which: int, damage: bytes) -> None:
    disk = Disk(tmp_path, settings=TINY)
    log = disk.create()
    append(log, transactional(0, producer_id=1))
    for sequence in range(5):
        abort(log, sequence)
    end_transaction(log, is_commit=False, producer_id=1)
    expected = pairs(log)
    assert len(expected) == 6
    log.close(clean=True)
    damaged = tmp_path / disk.names(".txnindex")[which]
    sound = damaged.read_bytes()
    damaged.write_bytes(damage + sound if damage else sound[:-1])
    log = disk.open()
    log.advance_high_watermark(log.log_end_offset)
    assert pairs(log) == expected
    log.close(clean=True)
    assert damaged.read_bytes() == sound


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_a_damaged_index_is_made_again_when_the_only_segment_is_opened(tmp_path: Path, has_snapshot: bool) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    abort(log, 0)
    log.close(clean=True)
    (tmp_path / f"{0:020d}.txnindex").write_bytes(b"nonsense")
    if not has_snapshot:
        (tmp_path / f"{2:020d}.snapshot").unlink()
    log = disk.open()
    log.advance_high_watermark(log.log_end_offset)
    assert pairs(log) == [(7, 0)]
    assert [entry.last_sequence for entry in log.producers.active()] == [0]


@pytest.mark.parametrize("recovery_point", [0, 5, 100])
def test_indexes_are_replayed_when_the_broker_was_killed(tmp_path: Path, recovery_point: int) -> None:
    disk = Disk(tmp_path, settings=TINY)
    log = disk.create()
    append(log, transactional(0, producer_id=1))
    for sequence in range(5):
        abort(log, sequence)
    expected = pairs(log, 0, log.log_end_offset)
    flushed = log.log_end_offset if recovery_point == 100 else recovery_point
    log.close(clean=False)
    if recovery_point == 0:  # nothing was synced, so nothing need be there
        for name in (*disk.names(".txnindex"), *disk.names(".snapshot")):
            (tmp_path / name).write_bytes(b"lost")
    disk.recovery_point = flushed
    log = disk.open(is_clean=False)
    log.advance_high_watermark(log.log_end_offset)
    assert pairs(log, 0, log.log_end_offset) == expected
    assert log.last_stable_offset == 0
    end_transaction(log, is_commit=False, producer_id=1)
    assert pairs(log) == [(1, 0), *expected]


def test_the_file_goes_with_its_segment_when_retention_deletes_it(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=TINY)
    log = disk.create()
    for sequence in range(6):
        abort(log, sequence)
    before = disk.names(".txnindex")
    disk.log_start_offset = log.delete_records_before(8)
    log.apply_retention(NOW)
    disk.deletes.remove_due(NOW + 120_000)
    assert disk.names(".txnindex") == [
        name for name in before if int(name.split(".")[0]) >= log.segments.first.base_offset
    ]
    assert pairs(log, 8) == [(7, 8), (7, 10)]


def test_a_follower_has_the_same_index_when_it_copied_the_markers(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, transactional(0))
    marker = build_end_marker(
        EndMarker(CONTROL_ABORT, 0), producer_id=7, producer_epoch=0, timestamp=NOW, base_offset=1
    )
    log.append_as_follower(marker, NOW)
    log.advance_high_watermark(2)
    assert log.reader.aborted_transactions(0, 2) == [AbortedTransaction(7, 0, 1, 2)]


def test_the_partition_goes_offline_when_an_index_cannot_be_written(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk = Disk(tmp_path, files, settings=TINY)
    log = disk.create()
    abort(log, 0)
    files.fail(Fault.on("write_file", ".txnindex"))
    with pytest.raises(ApiError) as caught:
        append(log, *(batch("filler") for _ in range(10)))
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError):
        log.reader.aborted_transactions(0, 1)
    files.heal()
    log = disk.crash(log)
    log.advance_high_watermark(log.log_end_offset)
    assert pairs(log) == [(7, 0)]


def test_the_index_of_a_sealed_segment_is_durable_when_the_log_was_flushed(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = Disk(tmp_path, files, settings=TINY).create()
    for sequence in range(4):
        abort(log, sequence)
    log.flushing.flush()
    synced = {Path(operation.path).name for operation in files.operations if operation.name == "sync"}
    assert f"{0:020d}.txnindex" in synced
