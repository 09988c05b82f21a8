from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.protocol import batch as batches
from penstock.protocol.batch import read_header
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import Record, build_batch
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, contents, read_all, whole_batches


def base_offsets(log: PartitionLog, offset: int, max_bytes: int, limit: int, at_least_one: bool = False) -> list[int]:
    data = contents(log.reader.read(offset, max_bytes, limit, at_least_one))
    return [read_header(found).base_offset for found in whole_batches(data)]


def test_every_record_is_found_when_reading_from_any_offset(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 60)
    for _ in range(2):
        for offset in range(60):
            assert read_all(log, offset)[0] == (offset, f"value-{offset:06d}")
        assert len(read_all(log)) == 60
        log = disk.reopen(log)


def test_the_whole_batch_is_returned_when_the_offset_lies_inside_it(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a", "b", "c"), batch("d"))
    assert base_offsets(log, 1, 10**6, 4) == [0, 3]
    assert base_offsets(log, 2, 10**6, 4) == [0, 3]


@pytest.mark.parametrize("offset", [-1, 4, 100])
def test_offset_out_of_range_is_answered_when_the_log_does_not_reach_there(tmp_path: Path, offset: int) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 3)
    with pytest.raises(ApiError) as caught:
        log.reader.read(offset, 10**6, 10, True)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_is_returned_when_the_reader_is_at_the_end_or_the_limit(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 3)
    assert log.reader.read(3, 10**6, 3, True) is None
    assert log.reader.read(2, 10**6, 2, True) is None
    assert log.reader.read(2, 10**6, 1, True) is None


def test_no_batch_at_or_past_the_limit_is_included_when_the_limit_is_below_the_end(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=replace(SMALL, segment_bytes=400)).create()
    append_many(log, 40)
    for limit in range(1, 41):
        for offset in range(limit):
            found = base_offsets(log, offset, 10**6, limit)
            assert found[0] == offset
            assert found[-1] < limit


def test_a_batch_is_left_out_when_the_limit_lies_inside_it(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"), batch("b", "c", "d"))
    assert base_offsets(log, 0, 10**6, 2) == [0]
    assert log.reader.read(1, 10**6, 2, True) is None


def test_the_first_batch_is_whole_when_at_least_one_is_asked_for(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a" * 200), batch("b"))
    assert log.reader.read(0, 10, 2, at_least_one=False) is None
    assert base_offsets(log, 0, 10, 2, at_least_one=True) == [0]
    assert log.reader.read(0, 0, 2, at_least_one=False) is None


def test_the_answer_may_end_inside_a_batch_when_max_bytes_says_so(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    size = len(batch("a"))
    append(log, batch("a"), batch("b"), batch("c"))
    slice_ = log.reader.read(0, size + 10, 3, True)
    assert slice_ is not None
    assert len(slice_) == size + 10
    assert [read_header(data).base_offset for data in whole_batches(contents(slice_))] == [0]


def test_a_slice_stays_readable_when_its_segment_was_deleted(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, retention_ms=1, file_delete_delay_ms=0))
    log = disk.create()
    append_many(log, 50)
    slice_ = log.reader.read(0, 10**6, 50, True)
    before = contents(slice_)
    assert log.apply_retention(NOW + 10**9)
    disk.deletes.remove_due(NOW + 10**10)
    assert disk.names(".deleted") == []
    assert contents(slice_) == before
    log.close(clean=False)
    assert contents(slice_) == before


def test_a_slice_refuses_when_asked_for_bytes_outside_it(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 2)
    slice_ = log.reader.read(0, 50, 2, True)
    assert slice_ is not None
    for start, size in ((-1, 5), (0, len(slice_) + 1), (len(slice_), 1), (3, -1)):
        with pytest.raises(ValueError, match="outside"):
            slice_.read(start, size)


def test_a_slice_says_so_when_the_file_became_shorter(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append_many(log, 3)
    slice_ = log.reader.read(0, 10**6, 3, True)
    assert slice_ is not None
    log.truncate_to(1)
    with pytest.raises(ValueError, match="ends"):
        slice_.read(0, len(slice_))


@pytest.mark.parametrize("position", [8, 16])
def test_the_partition_goes_offline_when_a_header_on_disk_is_nonsense(
    tmp_path: Path, position: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 5)
    with disk.log_file().open("r+b") as file:
        file.seek(position)
        file.write(b"\x77\x77\x77\x77")
    with pytest.raises(ApiError) as caught:
        log.reader.read(0, 10**6, 5, True)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline_reason is not None
    assert "goes offline" in caplog.text
    for call in (
        lambda: log.reader.read(0, 1, 1, True),
        lambda: log.append_as_leader(batch("a"), 0, NOW),
        lambda: log.reader.find_by_timestamp(0),
        lambda: log.apply_retention(NOW),
        lambda: log.flushing.flush(),
    ):
        with pytest.raises(ApiError) as caught:
            call()
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def timestamped(log: PartitionLog, *timestamps: int, codec: Codec = Codec.NONE) -> None:
    append(log, build_batch([Record(b"k", b"v", (), timestamp) for timestamp in timestamps], codec=codec))


@pytest.mark.parametrize("codec", list(Codec))
def test_the_first_record_new_enough_is_found_when_searching_by_timestamp(tmp_path: Path, codec: Codec) -> None:
    disk = Disk(tmp_path, settings=replace(SMALL, segment_bytes=500))
    log = disk.create()
    times = [NOW + (index * 7919) % 500 for index in range(90)]
    for start in range(0, 90, 3):
        timestamped(log, *times[start : start + 3], codec=codec)
    assert len(log.segments) > 3
    for _ in range(2):
        for timestamp in range(NOW - 1, NOW + 502, 11):
            expected = next((index for index, time in enumerate(times) if time >= timestamp), None)
            found = log.reader.find_by_timestamp(timestamp)
            assert (found.offset if found else None) == expected
            assert found is None or (found.timestamp, found.leader_epoch) == (times[found.offset], 0)
        newest = log.reader.find_max_timestamp()
        assert newest is not None
        assert newest.offset == times.index(max(times))
        assert newest.timestamp == max(times)
        log = disk.reopen(log)


def test_nothing_is_found_by_timestamp_when_the_log_is_empty_or_all_older(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    assert log.reader.find_by_timestamp(0) is None
    assert log.reader.find_max_timestamp() is None
    timestamped(log, NOW)
    assert log.reader.find_by_timestamp(NOW + 1) is None


def test_records_before_the_log_start_are_not_found_when_searching_by_timestamp(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    timestamped(log, NOW, NOW + 1, NOW + 2)
    log.delete_records_before(1)
    found = log.reader.find_by_timestamp(0)
    assert found is not None
    assert found.offset == 1


def test_the_batch_answers_when_its_records_cannot_be_read(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"), batches.build(read_header(batch("b", timestamp=NOW + 5)), b"\x7f nonsense"))
    found = log.reader.find_by_timestamp(NOW + 3)
    assert found is not None
    assert (found.offset, found.timestamp) == (1, NOW + 5)
    assert log.offline_reason is None


def test_log_append_time_answers_with_the_first_record_when_searching_by_timestamp(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=replace(SMALL, message_timestamp_type="LogAppendTime")).create()
    append(log, batch("a", "b"), now_ms=NOW)
    append(log, batch("c", "d"), now_ms=NOW + 10)
    found = log.reader.find_by_timestamp(NOW + 1)
    assert found is not None
    assert (found.offset, found.timestamp) == (2, NOW + 10)
