"""What a clean shutdown syncs, and in which threads."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.types import Buffer
from penstock.log.directories.clean_close import close_cleanly
from penstock.log.formats import names
from penstock.log.storage.files import Files, OpenFile, StrPath
from penstock.testing.disks.faulty_files import FaultyFiles
from tests.unit.log.support import SMALL, TOPIC_ID, append, batch, read_all
from tests.unit.log.test_log_directories import filled, opened, partition


class CountingFiles(Files):
    """Counts the fsyncs of each path, and the threads that make them."""

    def __init__(self) -> None:
        self.synced: Counter[str] = Counter()
        self.threads: set[int] = set()

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return CountingFile(os.open(path, flags, 0o644), str(path), self)

    def write_file(self, path: StrPath, data: Buffer, *, sync: bool = False) -> None:
        super().write_file(path, data, sync=sync)
        if sync:
            self.count(path)

    def sync_file(self, path: StrPath) -> None:
        self.count(path)
        super().sync_file(path)

    def sync_directory(self, path: StrPath) -> None:
        self.count(path)
        super().sync_directory(path)

    def count(self, path: StrPath) -> None:
        self.synced[str(path)] += 1
        self.threads.add(threading.get_ident())

    def forget(self) -> None:
        self.synced.clear()
        self.threads.clear()

    def inside(self, directory: Path) -> Counter[str]:
        names_inside = {path: count for path, count in self.synced.items() if path.startswith(f"{directory}/")}
        return Counter({path.removeprefix(f"{directory}/"): count for path, count in names_inside.items()})


class CountingFile(OpenFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, path: str, files: CountingFiles) -> None:
        super().__init__(fd, path)
        self._files = files

    def sync(self) -> None:
        self._files.count(self.path)
        super().sync()


def test_each_changed_file_is_synced_once_when_a_log_is_closed(tmp_path: Path) -> None:
    files = CountingFiles()
    directories = opened(tmp_path, files=files)
    for number in range(20):
        append(directories.create(partition(number), TOPIC_ID, SMALL), batch("a record"))
    files.forget()
    directories.close()
    for number in range(20):
        directory = tmp_path / f"orders-{number}"
        assert files.inside(directory) == {
            names.segment_file(0, names.LOG): 1,
            names.segment_file(0, names.TIME_INDEX): 1,
            names.segment_file(1, names.SNAPSHOT): 1,
            names.LEADER_EPOCHS: 1,
        }
        assert files.synced[str(directory)] == 1
    # The names of all partitions together, and each file that the data directory itself gets.
    assert files.synced[str(tmp_path)] <= 6


def test_no_file_is_synced_when_a_log_is_closed_as_it_was_found(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    directories.close()
    files = CountingFiles()
    directories = opened(tmp_path, files=files)
    files.forget()
    directories.close()
    assert [files.inside(tmp_path / f"orders-{number}") for number in range(3)] == [Counter()] * 3


def test_logs_are_synced_in_several_threads_when_they_are_closed(tmp_path: Path) -> None:
    files = CountingFiles()
    directories = opened(tmp_path / "a", tmp_path / "b", files=files)
    filled(directories, 200)
    files.forget()
    directories.close(threads_per_directory=2)
    assert len(files.threads - {threading.get_ident()}) >= 2
    directories = opened(tmp_path / "a", tmp_path / "b")
    assert all(len(read_all(log)) == 20 for log in directories.logs.values())
    directories.close()


def test_shutdown_is_clean_when_there_is_no_log_to_close(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    directories.close(threads_per_directory=2)
    assert (tmp_path / names.CLEAN_SHUTDOWN).exists()


def test_nothing_is_asked_of_the_disk_when_a_log_is_closed_as_it_was_found(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    aborted = directories.create(partition(7), TOPIC_ID, SMALL)
    append(aborted, batch("given up", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True))
    aborted.append_end_marker(1, 0, 0, False, 0, 0)
    directories.create(partition(8), TOPIC_ID, SMALL)  # without any record
    directories.close()
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    before = len(files.operations)
    directories.close()
    asked = [each for each in files.operations[before:] if str(tmp_path / "orders-") in each.path]
    assert [(each.name, each.path) for each in asked if each.name != "close"] == []


def test_directory_is_synced_when_retention_removed_a_segment_since_the_start(tmp_path: Path) -> None:
    directories = opened(tmp_path)
    filled(directories)
    directories.close()
    files = CountingFiles()
    directories = opened(tmp_path, files=files)
    log = directories.logs[partition(0)]
    log.update_settings(replace(SMALL, retention_bytes=1))
    assert log.apply_retention(0)
    files.forget()
    directories.close()
    assert files.synced[str(log.directory)] == 2  # for the epochs that went, and for the names
    assert files.synced[str(tmp_path / "orders-1")] == 0


def test_file_operations_are_bounded_when_a_log_with_a_new_record_is_closed(tmp_path: Path) -> None:
    files = FaultyFiles()
    directories = opened(tmp_path, files=files)
    for number in range(20):
        append(directories.create(partition(number), TOPIC_ID, SMALL), batch("a record"))
    before = len(files.operations)
    directories.close()
    per_log = Counter(each.name for each in files.operations[before:] if str(tmp_path / "orders-3") in each.path + "/")
    assert sum(per_log.values()) <= 12, per_log


def test_progress_is_logged_when_closing_takes_long(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directories = opened(tmp_path)
    filled(directories, 150)
    times_ms = itertools.count(step=3_000)
    with caplog.at_level(logging.INFO):
        close_cleanly({tmp_path: list(directories.logs.values())}, 1, lambda: next(times_ms))
    lines = [record.getMessage() for record in caplog.records if "logs are closed" in record.getMessage()]
    assert lines == ["logs are closed: 128 of 150"]
    directories.close(clean=False)
