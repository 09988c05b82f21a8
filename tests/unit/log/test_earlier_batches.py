from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.partition_log import PartitionLog
from penstock.log.state.earlier_batches import find_earlier_batches
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, sequenced

ONE_SEGMENT = replace(SMALL, segment_bytes=10**6)


def repeat(log: PartitionLog, data: bytes) -> int | ErrorCode:
    """Where the first copy stands, or why the batch is refused; the log stays as it is."""
    end = log.log_end_offset
    try:
        result = log.append_as_leader(data, 0, NOW)
    except ApiError as error:
        return error.code
    finally:
        assert log.log_end_offset == end
    assert result.is_duplicate
    return result.base_offset


@pytest.mark.parametrize("settings", [ONE_SEGMENT, SMALL, replace(SMALL, segment_bytes=150)])
@pytest.mark.parametrize("count", [1, 3, 5, 7])
def test_each_of_the_last_five_batches_is_known_when_the_broker_was_restarted(
    tmp_path: Path, settings: LogSettings, count: int
) -> None:
    disk = Disk(tmp_path, settings=settings)
    log = disk.create()
    places = []
    for number in range(count):
        append(log, batch("of nobody"), sequenced(2 * number, 2), sequenced(number, 1, 8))
        places.append(log.log_end_offset - 3)
    log = disk.reopen(log)
    for number in range(max(0, count - 5), count):
        assert repeat(log, sequenced(2 * number, 2)) == places[number]
    if count > 5:
        assert repeat(log, sequenced(2, 2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, sequenced(2 * count, 2))
    assert log.producers.entries[7].next_sequence == 2 * count + 2


def test_batches_before_the_cut_are_known_when_the_log_was_truncated(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=ONE_SEGMENT)
    log = disk.create()
    append(log, *(sequenced(number) for number in range(6)))
    log = disk.reopen(log)  # with a snapshot at 6
    append(log, *(sequenced(number) for number in range(6, 9)))
    log.truncate_to(7, NOW)
    assert repeat(log, sequenced(2)) == 2
    assert [repeat(log, sequenced(number)) for number in (3, 4, 5, 6)] == [3, 4, 5, 6]
    assert repeat(log, sequenced(8)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_never_came_is_refused_when_the_broker_was_restarted(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=ONE_SEGMENT)
    log = disk.create()
    append(log, sequenced(10), sequenced(0, 1, 8), sequenced(11), sequenced(12))
    log = disk.reopen(log)
    for refused in (sequenced(9), sequenced(14), sequenced(10, 2)):
        assert repeat(log, refused) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert repeat(log, sequenced(10)) == 0


def test_batches_of_an_older_epoch_stay_unknown_when_the_broker_was_restarted(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=ONE_SEGMENT)
    log = disk.create()
    append(log, sequenced(0), sequenced(1), sequenced(0, epoch=1), sequenced(1, epoch=1))
    log = disk.reopen(log)
    assert repeat(log, sequenced(1)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert repeat(log, sequenced(0, epoch=1)) == 2
    assert [each.last_offset for each in log.producers.entries[7].batches] == [2, 3]


@pytest.mark.parametrize(("most_headers", "found"), [(200, [0, 41]), (70, [41]), (5, [])])
def test_the_search_ends_when_too_many_batches_stand_between(
    tmp_path: Path, most_headers: int, found: list[int]
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    for number in range(3):
        append(log, sequenced(number), *(batch("of others") for _ in range(40)))
    log = disk.reopen(log)
    earlier = find_earlier_batches(log.segments, log.producers.entries[7], (4, 16, 64, 256), most_headers)
    assert [each.base_offset for each in earlier] == found


def test_the_log_is_searched_once_when_the_batch_is_not_there(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=ONE_SEGMENT)
    log = disk.create()
    append(log, sequenced(10), sequenced(11))
    log = disk.reopen(log)
    assert repeat(log, sequenced(9)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    entry = log.producers.entries[7]
    assert (entry.is_from_snapshot, len(entry.batches)) == (False, 2)


def test_the_partition_goes_offline_when_the_log_cannot_be_searched(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=ONE_SEGMENT)
    log = disk.create()
    append(log, sequenced(0), sequenced(1), sequenced(2))
    log.close(clean=True)
    with disk.log_file().open("r+b") as file:
        file.seek(8)
        file.write(b"\0\0\0\1")
    log = disk.open()
    assert repeat(log, sequenced(0)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "looking for a repeated batch" in (log.offline_reason or "")


def test_repeated_batch_is_found_after_a_crash_when_the_producer_of_the_snapshot_has_expired(tmp_path: Path) -> None:
    """What came behind the snapshot is younger. Clients give records the times that they like."""
    disk = Disk(tmp_path)
    log = disk.create()
    first = append(log, *(sequenced(number, timestamp=1) for number in range(4)))
    append_many(log, 20)
    disk.recovery_point = log.flushing.flush()
    append(log, sequenced(4))
    log = disk.crash(log)
    again = log.append_as_leader(sequenced(3), 0, NOW)
    assert (again.is_duplicate, again.base_offset) == (True, first[3])
    log.close(clean=True)
