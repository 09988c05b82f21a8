"""Bytes found on disk are checked when they are first served, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.disks.faulty_files import FaultyFiles
from tests.unit.log.support import Disk, append, append_many, batch, read_all

LARGE = LogSettings()
WHOLE = 1 << 30


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def count_reads(files: FaultyFiles) -> int:
    return sum(operation.name == "read" for operation in files.operations)


def test_the_partition_goes_offline_when_a_record_has_rotted_on_disk(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, 30)
    first, second = sorted(tmp_path.glob("*.log"))[:2]
    log.close(clean=True)
    flip(second, second.stat().st_size - 2)
    log = disk.open()
    whole = log.reader.read(0, WHOLE, 30, at_least_one=True)
    assert whole is not None
    assert len(whole) == first.stat().st_size
    with pytest.raises(ApiError) as caught:
        read_all(log)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.offline_reason is not None
    assert "the checksum does not match" in log.offline_reason


def test_sound_batches_before_the_damage_are_served_when_asked_for_alone(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=LARGE)
    log = disk.create()
    append_many(log, 10)
    size = log.size // 10
    log.close(clean=True)
    flip(next(tmp_path.glob("*.log")), 5 * size + 65)
    log = disk.open()
    # The damaged batch is cut off by the limit: its reader, who would get all of it, is the one to be told.
    for offset in range(5):
        assert log.reader.read(offset, 2 * size - 1, 10, at_least_one=True) is not None
    with pytest.raises(ApiError):
        log.reader.read(5, size, 10, at_least_one=True)


def test_nothing_is_read_twice_when_it_was_checked_before(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk = Disk(tmp_path, files, LARGE)
    log = disk.create()
    append_many(log, 100)
    log = disk.reopen(log)
    files.operations.clear()
    log.reader.read(0, WHOLE, 100, at_least_one=True)
    first = count_reads(files)
    files.operations.clear()
    log.reader.read(0, WHOLE, 100, at_least_one=True)
    # What remains is the search for the first batch.
    assert count_reads(files) < first


def test_nothing_is_checked_when_this_process_wrote_it(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=LARGE).create()
    append_many(log, 10)
    flip(next(tmp_path.glob("*.log")), log.size - 2)
    assert log.reader.read(0, WHOLE, 10, at_least_one=True) is not None


@pytest.mark.parametrize("size", [900_000, 1_100_000, 3_000_000])
def test_a_large_batch_is_checked_when_it_does_not_fit_a_chunk(tmp_path: Path, size: int) -> None:
    disk = Disk(tmp_path, settings=LogSettings(max_message_bytes=10_000_000))
    log = disk.create()
    append(log, batch("a"), batch("x" * size), batch("b"))
    log = disk.reopen(log)
    assert [offset for offset, _ in read_all(log)] == [0, 1, 2]
    log.close(clean=True)
    flip(next(tmp_path.glob("*.log")), size // 2)
    log = disk.open()
    with pytest.raises(ApiError):
        read_all(log)


def test_the_end_is_checked_when_reading_begins_in_the_middle(tmp_path: Path) -> None:
    disk = Disk(tmp_path, settings=LARGE)
    log = disk.create()
    append_many(log, 50)
    size = log.size // 50
    log.close(clean=True)
    flip(next(tmp_path.glob("*.log")), 10 * size + 65)
    log = disk.open()
    # The damage lies before what is read, so nobody is served it, and nothing before the middle counts as checked.
    assert log.reader.read(20, WHOLE, 50, at_least_one=True) is not None
    with pytest.raises(ApiError):
        log.reader.read(0, WHOLE, 50, at_least_one=True)


def test_new_batches_are_served_when_they_took_the_place_of_what_was_cut_off(tmp_path: Path) -> None:
    """Once, the partition went offline: the new batches were looked for at the old ones' positions."""
    disk = Disk(tmp_path)
    log = disk.create()
    append(log, batch("a" * 50), batch("b" * 50))
    log = disk.reopen(log)
    assert len(read_all(log)) == 2
    log.truncate_to(0)
    append(log, *(batch("c") for _ in range(9)))
    assert read_all(log) == [(offset, "c") for offset in range(9)]
