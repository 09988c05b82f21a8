"""A log that gets the name of a removed one must not be read with what the checkpoint files say of that one."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from penstock.log.directories.checkpoint_write import CheckpointCapture
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.log.support import NOW, SMALL, TOPIC_ID, append_many, read_all
from tests.unit.log.test_log_directories import opened, partition

NAME = partition(0)


def create(directories: LogDirectories, records: int) -> PartitionLog:
    log = directories.create(NAME, TOPIC_ID, SMALL)
    append_many(log, records)
    return log


def written_and_removed(directories: LogDirectories, records: int = 60) -> None:
    """The checkpoint files speak of a log that is gone."""
    log = create(directories, records)
    log.flushing.flush()
    log.advance_high_watermark(records)
    log.delete_records_before(records - 5)
    directories.write_checkpoints()
    directories.delete([NAME], NOW)


def marks(path: Path) -> list[str]:
    directory = path / names.partition_directory(NAME)
    return [each.name for each in directory.iterdir() if names.is_namesake_mark(each.name)]


def killed_and_opened(directories: LogDirectories, *paths: Path) -> LogDirectories:
    directories.close(clean=False)
    return opened(*paths)


def test_records_stay_after_a_kill_when_a_log_of_the_name_before_began_later(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    create(directories, 5)
    directories = killed_and_opened(directories, tmp_path)
    log = directories.logs[NAME]
    assert (log.log_start_offset, log.log_end_offset, len(read_all(log))) == (0, 5, 5)
    directories.close()


def test_a_log_ends_at_what_a_power_cut_took_when_a_log_of_the_name_before_was_flushed_further(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    log = create(directories, 30)
    log.flushing.flush()  # so the epochs and the mark are on the disk
    append_many(log, 20)
    assert len(log.segments) > 2
    cut = list(log.segments)[-2]
    directories.close(clean=False)
    with Path(cut.log_file.path).open("r+b") as file:
        file.truncate(cut.size // 2)
    directories = opened(tmp_path)
    log = directories.logs[NAME]
    assert log.log_end_offset < 50
    assert [offset for offset, *_ in read_all(log)] == list(range(log.log_end_offset))
    directories.close()


def test_only_a_log_with_a_name_of_the_files_gets_a_mark_and_it_goes_with_the_next_files(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    log = create(directories, 1)
    assert marks(tmp_path) == []
    directories.write_checkpoints()
    directories.delete([NAME], NOW)
    log = create(directories, 3)
    assert len(marks(tmp_path)) == 1
    log.flushing.flush()
    log.advance_high_watermark(3)
    directories.write_checkpoints()
    assert marks(tmp_path) == []
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].recovery_point == 3
    directories.delete([NAME], NOW)
    directories.write_checkpoints()
    create(directories, 1)
    assert marks(tmp_path) == []
    directories.close()


def test_a_mark_goes_later_when_a_kill_came_before_the_next_files(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    create(directories, 5)
    directories = killed_and_opened(directories, tmp_path)
    assert len(marks(tmp_path)) == 1
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.write_checkpoints()
    assert marks(tmp_path) == []
    directories.close()


def test_a_name_of_the_files_is_known_when_its_log_was_gone_before_the_start(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    directories = killed_and_opened(directories, tmp_path)
    create(directories, 5)
    assert len(marks(tmp_path)) == 1
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.close()


def test_a_mark_stays_when_files_were_begun_before_the_log_was_there(tmp_path: Path) -> None:
    """Removed, made, removed and made again while a thread writes what was true before."""
    directories = opened(tmp_path)
    first = create(directories, 40)
    first.delete_records_before(30)
    directories.write_checkpoints()
    append_many(first, 1)
    capture = CheckpointCapture()
    capture.add(first)
    write = directories.begin_checkpoints(capture)
    directories.delete([NAME], NOW)
    create(directories, 20)
    directories.delete([NAME], NOW)
    create(directories, 5)
    write.run()
    assert not write.failures
    assert len(marks(tmp_path)) == 1
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.close()


def test_a_name_is_remembered_when_it_is_removed_while_files_that_speak_of_it_are_written(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    second = create(directories, 40)
    second.delete_records_before(30)
    capture = CheckpointCapture()
    capture.add(second)
    write = directories.begin_checkpoints(capture)
    directories.delete([NAME], NOW)
    write.run()
    directories.begin_checkpoints(CheckpointCapture())  # settles the one before, and is never run
    create(directories, 5)
    assert len(marks(tmp_path)) == 1
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.close()


@pytest.mark.parametrize("operation", ["rename", "unlink"])
def test_a_mark_stays_when_the_files_or_the_mark_cannot_be_written(tmp_path: Path, operation: str) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    directories.close(clean=False)
    path = names.RECOVERY_POINTS if operation == "rename" else names.NAMESAKE
    files = FaultyFiles(Fault.on(operation, path, error=errno.ENOSPC))
    directories = opened(tmp_path, files=files)
    create(directories, 5)
    directories.write_checkpoints()
    assert len(marks(tmp_path)) == 1
    files.heal()
    directories.write_checkpoints()
    assert marks(tmp_path) == []
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.close()


def test_deleted_records_stay_deleted_when_a_mark_could_not_be_removed_before_a_clean_shutdown(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    directories.close(clean=False)
    files = FaultyFiles(Fault.on("unlink", names.NAMESAKE, error=errno.EIO))
    directories = opened(tmp_path, files=files)
    log = create(directories, 30)
    log.advance_high_watermark(30)
    log.delete_records_before(29)
    directories.close()
    assert len(marks(tmp_path)) == 1
    directories = opened(tmp_path)
    assert directories.logs[NAME].log_start_offset == 29
    directories.write_checkpoints()
    assert marks(tmp_path) == []
    directories.close()


def test_a_mark_stays_when_its_data_directory_is_offline_and_its_files_are_not_written(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    create(directories, 5)
    directories.take_directory_offline(tmp_path, "its disk did not answer for a while")
    directories.write_checkpoints()
    assert len(marks(tmp_path)) == 1
    directories = killed_and_opened(directories, tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.close()


def test_records_stay_after_a_clean_shutdown_whose_files_could_not_be_written(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    written_and_removed(directories)
    directories.close(clean=False)
    files = FaultyFiles(Fault.on("rename", names.LOG_START_OFFSETS, error=errno.ENOSPC))
    directories = opened(tmp_path, files=files)
    create(directories, 5)
    directories.close()
    directories = opened(tmp_path)
    assert directories.logs[NAME].log_end_offset == 5
    directories.close()
