"""Files that are whole and wrong: an index that leads astray, a segment under another's name."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.log.support import Disk, append_many, read_all

COUNT = 40


def closed_log(tmp_path: Path, is_clean: bool = True) -> tuple[Disk, list[Path]]:
    """A log of several segments, and their files."""
    disk = Disk(tmp_path)
    log = disk.create()
    append_many(log, COUNT)
    log.close(clean=is_clean)
    return disk, sorted(tmp_path.glob("*.log"))


def values_from(log: PartitionLog, offset: int) -> list[int]:
    return [found for found, _ in read_all(log, offset) if found >= offset]


@pytest.mark.parametrize("position", [-5, 7, 1 << 20])
def test_every_record_is_found_when_an_index_points_nowhere(tmp_path: Path, position: int) -> None:
    disk, segments = closed_log(tmp_path)
    index = segments[1].with_suffix(".index")
    entries = bytearray(index.read_bytes())
    assert len(entries) >= 24
    struct.pack_into(
        ">i", entries, 12, position
    )  # of the second entry: the first and the last are looked at on loading
    index.write_bytes(entries)
    log = disk.open()
    for offset in range(COUNT):
        assert values_from(log, offset)[0] == offset
    assert log.offline_reason is None


def test_every_record_is_found_when_an_index_points_to_a_later_batch(tmp_path: Path) -> None:
    disk, segments = closed_log(tmp_path)
    index = segments[1].with_suffix(".index")
    entries = bytearray(index.read_bytes())
    entries[4:8] = entries[-4:]
    index.write_bytes(entries)
    log = disk.open()
    for offset in range(COUNT):
        assert values_from(log, offset)[0] == offset


def test_partition_refuses_when_two_segments_have_changed_places(tmp_path: Path) -> None:
    disk, segments = closed_log(tmp_path)
    first, second = segments[0].read_bytes(), segments[1].read_bytes()
    segments[0].write_bytes(second)
    segments[1].write_bytes(first)
    log = disk.open()
    with pytest.raises(ApiError) as caught:
        read_all(log)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "out of order" in str(log.offline_reason)


def test_log_is_not_loaded_when_a_segment_is_there_twice_after_a_crash(tmp_path: Path) -> None:
    disk, segments = closed_log(tmp_path, is_clean=False)
    shutil.copy(segments[0], disk.log_file(1))
    with pytest.raises(CorruptLogError, match="reaches past 1"):
        disk.open(is_clean=False)
    assert segments[0].stat().st_size > 0
