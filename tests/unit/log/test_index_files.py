"""The index files of the segment that is written to: what they hold while the broker runs, and after it was killed."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.cli.log_files.verify import verify_indexes
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ApiError
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, read_all

ONE_SEGMENT = replace(SMALL, segment_bytes=100_000)


def new_log(directory: Path, files: FaultyFiles | None = None) -> tuple[Disk, PartitionLog]:
    disk = Disk(directory, files, ONE_SEGMENT)
    return disk, disk.create()


def append_newer(log: PartitionLog, count: int, start: int = 0) -> None:
    """Each record a second newer than the one before."""
    append(log, *(batch(f"value-{index:06d}", timestamp=NOW + 1000 * index) for index in range(start, start + count)))


def index_bytes(disk: Disk) -> tuple[bytes, bytes]:
    path = disk.log_file()
    return path.with_suffix(".index").read_bytes(), path.with_suffix(".timeindex").read_bytes()


def complete_index(tmp_path: Path, count: int) -> tuple[bytes, bytes]:
    """What the files hold of a log of `count` records that was closed cleanly."""
    disk, log = new_log(tmp_path / "complete")
    append_newer(log, count)
    log.close(clean=True)
    return index_bytes(disk)


def test_index_files_are_empty_when_a_segment_begins(tmp_path: Path) -> None:
    disk, _ = new_log(tmp_path)
    assert index_bytes(disk) == (b"", b"")


def test_index_files_hold_the_entries_so_far_when_the_log_is_written_to(tmp_path: Path) -> None:
    disk, log = new_log(tmp_path / "log")
    offsets, times = complete_index(tmp_path, 90)
    for start in range(0, 90, 30):
        append_newer(log, 30, start)
        log.write_index_entries()
        live_offsets, live_times = index_bytes(disk)
        assert live_offsets
        assert offsets.startswith(live_offsets)
        assert live_times
        assert times.startswith(live_times)
        assert verify_indexes(disk.log_file()) == []
    assert live_offsets == offsets  # the time index gets its last entry when the segment is sealed


def test_only_new_entries_are_written_when_the_files_are_brought_up_to_date(tmp_path: Path) -> None:
    files = FaultyFiles()
    _, log = new_log(tmp_path, files)
    append_many(log, 20)
    log.write_index_entries()
    files.operations.clear()
    log.write_index_entries()
    assert files.operations == []
    append_newer(log, 20)
    files.operations.clear()
    log.write_index_entries()
    assert {operation.name for operation in files.operations} == {"open", "write"}


def test_index_files_are_as_ever_when_the_log_is_closed_and_grows_again(tmp_path: Path) -> None:
    disk, log = new_log(tmp_path / "log")
    append_newer(log, 40)
    log.write_index_entries()
    log = disk.reopen(log)
    append_newer(log, 40, 40)
    log.close(clean=True)
    assert verify_indexes(disk.log_file()) == []
    assert index_bytes(disk)[0] == complete_index(tmp_path, 80)[0]


def lose(path: Path) -> None:
    path.unlink()


def fall_behind(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:24])


def run_ahead(path: Path) -> None:
    path.write_bytes(path.read_bytes() + bytes(11 * 24))


def turn_to_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


@pytest.mark.parametrize("damage", [lose, fall_behind, run_ahead, turn_to_zeros, tear])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_indexes_are_built_from_the_log_when_the_process_was_killed(
    tmp_path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    disk, log = new_log(tmp_path / "log")
    append_newer(log, 80)
    log.write_index_entries()
    log.close(clean=False)
    damage(disk.log_file().with_suffix(suffix))
    log = disk.open(is_clean=False)
    assert [offset for offset, _ in read_all(log)] == list(range(80))
    for number in (0, 41, 79):
        position = log.reader.find_by_timestamp(NOW + 1000 * number)
        assert position is not None
        assert position.offset == number
    assert index_bytes(disk) == complete_index(tmp_path, 80)
    append_newer(log, 40, 80)
    log.write_index_entries()
    assert verify_indexes(disk.log_file()) == []


def test_an_empty_log_has_empty_indexes_when_the_power_took_its_records_but_not_their_entries(tmp_path: Path) -> None:
    disk, log = new_log(tmp_path)
    append_newer(log, 40)
    log.write_index_entries()
    log.close(clean=False)
    disk.log_file().write_bytes(b"")
    log = disk.open(is_clean=False)
    assert index_bytes(disk) == (b"", b"")
    append_newer(log, 40)
    log.write_index_entries()
    assert verify_indexes(disk.log_file()) == []


def test_index_files_are_cut_when_the_log_is_truncated(tmp_path: Path) -> None:
    disk, log = new_log(tmp_path / "log")
    append_newer(log, 80)
    log.write_index_entries()
    log.truncate_to(40)
    append_newer(log, 10, 40)
    log.write_index_entries()
    assert verify_indexes(disk.log_file()) == []
    log.close(clean=True)
    assert index_bytes(disk)[0] == complete_index(tmp_path, 50)[0]


def test_index_files_come_back_when_somebody_removes_them(tmp_path: Path) -> None:
    disk, log = new_log(tmp_path / "log")
    append_newer(log, 40)
    log.write_index_entries()
    disk.log_file().with_suffix(".index").unlink()
    disk.log_file().with_suffix(".timeindex").unlink()
    append_newer(log, 40, 40)
    log.close(clean=True)
    assert index_bytes(disk) == complete_index(tmp_path, 80)


def test_index_files_have_no_hole_when_the_disk_is_full_just_after_somebody_removed_them(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk, log = new_log(tmp_path / "log", files)
    append_newer(log, 40)
    log.write_index_entries()
    disk.log_file().with_suffix(".index").unlink()
    append_newer(log, 40, 40)
    files.fail(Fault.on("write_file", ".index", errno.ENOSPC, partial_bytes=4))
    log.write_index_entries()
    files.heal()
    log.write_index_entries()
    assert index_bytes(disk)[0] == complete_index(tmp_path, 80)[0]


def test_indexes_are_durable_when_the_log_was_closed_cleanly(tmp_path: Path) -> None:
    files = FaultyFiles()
    _, log = new_log(tmp_path, files)
    append_many(log, 40)
    log.close(clean=True)
    synced = {Path(operation.path).suffix for operation in files.operations if operation.name == "sync"}
    assert {".index", ".timeindex"} <= synced


def test_a_partition_stays_online_when_the_disk_is_too_full_for_its_index_entries(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk, log = new_log(tmp_path / "log", files)
    append_newer(log, 40)
    files.fail(Fault.on("write", ".index", errno.ENOSPC, partial_bytes=4))
    log.write_index_entries()
    assert log.offline_reason is None
    files.heal()
    log.write_index_entries()
    assert verify_indexes(disk.log_file()) == []
    assert index_bytes(disk)[0] == complete_index(tmp_path, 40)[0]


def test_a_partition_goes_offline_when_its_disk_fails_under_an_index(tmp_path: Path) -> None:
    files = FaultyFiles()
    _, log = new_log(tmp_path, files)
    append_newer(log, 40)
    files.fail(Fault.on("write", ".timeindex"))
    with pytest.raises(ApiError):
        log.write_index_entries()
    assert log.offline_reason is not None
    log.write_index_entries()  # nothing more is asked of the disk
