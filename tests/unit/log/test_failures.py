"""A disk that is full or broken, at every single operation of the log."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import OpenFile
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.log.support import NOW, SMALL, Disk, append, append_many, batch, read_all

SETTINGS = replace(SMALL, segment_bytes=300, retention_ms=1000, file_delete_delay_ms=0)
OPENING = ("create", "open", "read_file", "write_file", "sync_file", "sync_directory")


def workload(log: PartitionLog, acknowledged: list[str]) -> None:
    """Appends over several segments and epochs, flushes, reads, deletes and closes."""
    for index in range(8):
        append(log, batch(f"value-{index}"), leader_epoch=index // 3)
        acknowledged.append(f"value-{index}")
        log.write_index_entries()
    log.flushing.flush()
    for index in range(8, 12):
        append(log, batch(f"value-{index}"), leader_epoch=3)
        acknowledged.append(f"value-{index}")
    log.reader.read(0, 10**6, 12, True)
    log.delete_records_before(3)
    log.apply_retention(NOW)
    log.close(clean=True)


def failure_of(log: PartitionLog, acknowledged: list[str]) -> ErrorCode | None:
    """None when the fault hit nothing that matters: what follows it is never retried."""
    try:
        workload(log, acknowledged)
    except ApiError as error:
        return error.code if log.offline_reason is not None else ErrorCode.UNKNOWN_SERVER_ERROR
    return None


def count_operations(tmp_path: Path) -> int:
    files = FaultyFiles()
    disk = Disk(tmp_path, files, SETTINGS)
    workload(disk.create(), [])
    return len(files.operations)


@pytest.mark.parametrize("partial_bytes", [0, 40, 70])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_no_acknowledged_record_is_lost_when_the_disk_fails_at_any_operation(
    tmp_path: Path, error: int, partial_bytes: int
) -> None:
    total = count_operations(tmp_path / "whole")
    assert total > 60
    for number in range(1, total + 1):
        directory = tmp_path / str(number)
        files = FaultyFiles(Fault.at(number, error, partial_bytes))
        disk = Disk(directory, files, SETTINGS)
        acknowledged: list[str] = []
        try:
            log = disk.create()
        except OSError:
            continue  # the log directories deal with a partition that cannot be created
        assert failure_of(log, acknowledged) in (None, ErrorCode.KAFKA_STORAGE_ERROR)
        log.close(clean=False)
        files.heal()
        log = disk.open(is_clean=False)
        found = read_all(log)
        values = [value for _, value in found]
        assert values == [f"value-{offset}" for offset, _ in found]
        assert [offset for offset, _ in found] == list(range(found[0][0], found[-1][0] + 1)) if found else True
        assert not acknowledged or values[-1] in (acknowledged[-1], f"value-{len(acknowledged)}")
        append(log, batch("after"))
        assert read_all(log)[-1][1] == "after"


def test_the_torn_batch_is_cut_off_when_a_write_fails_half_way(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk = Disk(tmp_path, files)
    log = disk.create()
    append_many(log, 3)
    size = log.size
    files.fail(Fault.on("write", error=errno.ENOSPC, partial_bytes=50))
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(batch("lost"), 0, NOW)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left" in caught.value.message
    assert disk.log_file().stat().st_size == size
    assert (log.log_end_offset, log.size) == (3, size)


def test_recovery_cuts_the_torn_batch_when_it_could_not_be_cut_at_once(tmp_path: Path) -> None:
    files = FaultyFiles()
    disk = Disk(tmp_path, files)
    log = disk.create()
    append_many(log, 3)
    files.fail(Fault.on("write", partial_bytes=50))
    files.fail(Fault.on("truncate"))
    with pytest.raises(ApiError):
        log.append_as_leader(batch("lost"), 0, NOW)
    assert disk.log_file().stat().st_size == log.size + 50
    files.heal()
    assert len(read_all(disk.crash(log))) == 3


def test_the_partition_goes_offline_when_a_file_cannot_be_read(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = Disk(tmp_path, files).create()
    append_many(log, 3)
    files.fail(Fault.on("read"))
    with pytest.raises(ApiError) as caught:
        log.reader.read(0, 100, 3, True)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "Input/output error" in str(log.offline_reason)


def test_the_first_reason_stays_when_more_goes_wrong_later(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    log.go_offline("first")
    log.go_offline("second")
    assert log.offline_reason == "first"


def test_the_partition_goes_offline_when_fsync_fails(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = Disk(tmp_path, files).create()
    append_many(log, 3)
    files.fail(Fault.on("sync"))
    with pytest.raises(ApiError):
        log.flushing.flush()
    assert log.offline_reason is not None
    assert log.recovery_point == 0


class StingyFile(OpenFile):
    """Takes at most ten bytes at a time, as a pipe or a nearly full disk may."""

    def write_slowly(self, data: bytes, position: int) -> None:
        self._write_rest(data, 10, position)


def test_the_rest_is_written_when_the_system_takes_only_a_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    opened = FaultyFiles().open(path, create=True)
    file = StingyFile(opened.fileno(), str(path))
    opened.write((b"0123456789",), 0, 10)
    file.write_slowly(b"0123456789abcdef", 0)
    assert path.read_bytes() == b"0123456789abcdef"
    file._fd = -1  # the descriptor is the other object's


def persist(call: Callable[[], object]) -> None:
    """As a client does: again after an error that passes."""
    try:
        call()
    except ApiError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            raise
        call()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_partition_stays_online_and_whole_when_the_process_has_no_descriptor_at_any_opening(
    tmp_path: Path, error: int
) -> None:
    """No descriptor is an error of opening alone. The next attempt finds one again."""

    def workload(log: PartitionLog) -> None:
        for index in range(12):
            persist(lambda index=index: append(log, batch(f"value-{index}"), leader_epoch=index // 3))  # type: ignore[misc]
            log.write_index_entries()
        persist(log.flushing.flush)
        persist(lambda: log.reader.read(0, 10**6, 12, True))
        persist(lambda: log.reader.find_by_timestamp(NOW))
        persist(lambda: log.apply_retention(NOW))

    counting = FaultyFiles()
    workload(Disk(tmp_path / "whole", counting, SETTINGS).create())
    opens = [number for number, each in enumerate(counting.operations, 1) if each.name in OPENING]
    assert len(opens) > 20
    for number in opens:
        files = FaultyFiles()
        disk = Disk(tmp_path / str(number), files, SETTINGS)
        log = disk.create()
        files.fail(Fault(lambda operation, number=number: operation.number == number, error))  # type: ignore[misc]
        workload(log)
        assert log.offline_reason is None
        expected = [(offset, f"value-{offset}") for offset in range(12)]
        assert read_all(log) == expected
        log.close(clean=False)
        log = disk.open(is_clean=False)
        assert read_all(log) == expected
