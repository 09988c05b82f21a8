"""The power fails at the worst moment: whatever was not synced is gone, and names are as they last were for sure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.formats import names
from penstock.log.formats.checkpoints import encode_offsets
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import StrPath
from penstock.testing.disks.memory import MemoryFiles
from penstock.testing.disks.power_cut import PowerCutFiles, Tail
from tests.unit.log.compacted import COMPACTED, keyed
from tests.unit.log.support import (
    NOW,
    PARTITION,
    SMALL,
    TOPIC_ID,
    Disk,
    append,
    append_many,
    batch,
    read_all,
    sequenced,
)
from tests.unit.log.test_log_directories import opened

DATA = Path("/data")
FLUSHED = replace(SMALL, flush_messages=1)
Item = TypeVar("Item")


class WorstCase(random.Random):
    """Of all that a disk may have done, the least."""

    def choice(self, seq: Sequence[Item]) -> Item:  # type: ignore[override]
        return seq[0]


class PowerCutDisk:
    def __init__(self, settings: LogSettings) -> None:
        self.settings = settings
        self.files = MemoryFiles()
        self.files.make_directories(DATA)
        self.files.sync_directory("/")
        self.directories = self._open()
        self.log = self.directories.create(PARTITION, TOPIC_ID, settings)

    def _open(self) -> LogDirectories:
        return opened(DATA, files=self.files, settings_for=lambda topic: self.settings)

    def path(self, base_offset: int) -> str:
        return f"/data/{names.partition_directory(PARTITION)}/{names.segment_file(base_offset, names.LOG)}"

    def tear(self, base_offset: int) -> None:
        """Half a batch is behind the last whole one, for good."""
        file = self.files.open(self.path(base_offset))
        file.write((b"\x01" * 40,), file.size(), 40)
        file.sync()

    def kill(self) -> PartitionLog:
        self.files = self.files.after_kill()
        return self._start()

    def cut_power(self) -> PartitionLog:
        self.files = self.files.after_power_cut(WorstCase())
        return self._start()

    def _start(self) -> PartitionLog:
        self.directories = self._open()
        self.log = self.directories.logs[PARTITION]
        return self.log


def test_a_torn_batch_stays_cut_off_when_the_power_fails_after_the_next_segment_has_begun() -> None:
    disk = PowerCutDisk(SMALL)
    append_many(disk.log, 5)
    disk.log.flushing.flush()
    disk.directories.write_checkpoints()
    disk.tear(0)
    log = disk.kill()
    sound_size = disk.files.size(disk.path(0))
    append(log, batch("x" * 900))
    log.flushing.flush()
    assert len(log.segments) == 2
    disk.directories.write_checkpoints()
    log = disk.cut_power()
    assert [offset for offset, _ in read_all(log)] == list(range(6))
    assert disk.files.size(disk.path(0)) == sound_size


def test_segments_behind_a_damaged_one_stay_away_when_the_power_fails_after_recovery() -> None:
    disk = PowerCutDisk(SMALL)
    append(disk.log, batch("x" * 900), batch("second segment"))
    disk.log.flushing.flush()
    disk.directories.write_checkpoints()
    append(disk.log, batch("lost"), batch("x" * 900))
    disk.log.flushing.flush()
    disk.files.open(disk.path(1)).truncate(disk.files.size(disk.path(1)) - 10)
    log = disk.kill()
    assert log.log_end_offset == 2
    append(log, batch("one"), batch("two"), batch("three"))
    log.flushing.flush()
    log = disk.cut_power()
    assert log.offline_reason is None
    assert [value for _, value in read_all(log)][2:] == ["one", "two", "three"]


def test_a_compacted_log_ends_where_records_are_missing_when_the_power_took_a_segment_and_spared_the_next() -> None:
    disk = PowerCutDisk(COMPACTED)
    append(disk.log, keyed(("a", "x" * 900)), keyed(("b", "x" * 900)))
    disk.files.sync_file(disk.path(1))
    for directory in (f"/data/{names.partition_directory(PARTITION)}", "/data"):
        disk.files.sync_directory(directory)
    log = disk.cut_power()
    assert log.log_end_offset == 0
    assert [segment.base_offset for segment in log.segments] == [0]


def test_what_a_killed_process_had_not_synced_is_durable_once_the_next_one_serves_it() -> None:
    disk = PowerCutDisk(FLUSHED)
    append(disk.log, batch("written, not acknowledged"))
    assert disk.kill().recovery_point == 1
    assert [value for _, value in read_all(disk.cut_power())] == ["written, not acknowledged"]


def test_a_batch_that_is_sent_again_waits_for_the_disk_when_its_first_copy_still_does() -> None:
    log = PowerCutDisk(FLUSHED).log
    append(log, sequenced(0))
    again = log.append_as_leader(sequenced(0), 0, NOW)
    assert (again.is_duplicate, again.must_flush) == (True, True)
    log.flushing.flush()
    assert not log.append_as_leader(sequenced(0), 0, NOW).must_flush


def test_a_value_is_compacted_away_only_when_its_successor_is_durable() -> None:
    disk = PowerCutDisk(COMPACTED)
    append(disk.log, keyed(("k", "old")))
    disk.log.flushing.flush()
    append(disk.log, keyed(("filler", "x" * 900)), keyed(("k", "new")), keyed(("filler", "x" * 900)))
    clean_log(disk.log.compaction, NOW)
    found = [value for _, value in read_all(disk.cut_power()) if "x" not in value]
    assert found in (["old"], ["new"])


def test_what_is_written_anew_counts_as_dirty_when_the_power_took_what_had_been_compacted() -> None:
    disk = PowerCutDisk(COMPACTED)
    append_many(disk.log, 3)
    disk.log.flushing.flush()
    disk.files.write_file(DATA / names.CLEANER_OFFSETS, encode_offsets({PARTITION: 10}), sync=True)
    disk.files.sync_directory(DATA)
    log = disk.cut_power()
    append_many(log, 20)
    assert log.compaction.measure_dirt(NOW).first_dirty_offset == 3


def test_the_mark_of_a_clean_shutdown_stays_away_when_the_power_fails_after_the_next_start() -> None:
    disk = PowerCutDisk(SMALL)
    append_many(disk.log, 3)
    disk.directories.close()
    disk.files.sync_directory(DATA)
    disk.kill()
    assert disk.directories.directories[DATA].was_clean
    disk.cut_power()
    assert not disk.directories.directories[DATA].was_clean


class Killed(BaseException):
    """The process ends here."""


class KilledBeforeEpochsAreSynced(PowerCutFiles):
    is_due = True

    def sync_file(self, path: StrPath) -> None:
        if self.is_due and str(path).endswith(names.LEADER_EPOCHS):
            self.is_due = False
            raise Killed
        super().sync_file(path)


def test_epochs_are_kept_when_the_power_fails_and_an_earlier_kill_came_before_their_sync(tmp_path: Path) -> None:
    data, found = tmp_path / "data", tmp_path / "found"
    directory = names.partition_directory(PARTITION)
    files = KilledBeforeEpochsAreSynced()
    disk = Disk(data / directory, files)
    log = disk.create()
    for leader_epoch in range(3):
        append(log, *(batch(f"value-{number:06d}") for number in range(12)), leader_epoch=leader_epoch)
    epochs = list(log.epochs.entries)
    with pytest.raises(Killed):
        log.flushing.flush()
    log = disk.crash(log)
    append(log, batch("after the kill"), leader_epoch=2)
    disk.recovery_point = log.flushing.flush()
    files.write_survivors(data, found, Tail.LOST, random.Random(1))
    disk.directory = found / directory
    assert disk.open(is_clean=False).epochs.entries == epochs


def test_what_replaced_a_cut_end_is_there_when_it_was_flushed_after_a_kill_and_the_power_fails() -> None:
    disk = PowerCutDisk(SMALL)
    append_many(disk.log, 5)
    for number in range(5):  # not replicated yet
        disk.log.append_as_leader(batch(f"old {number}"), 0, NOW)
    disk.log.flushing.flush()
    disk.directories.write_checkpoints()
    disk.log.truncate_to(5)
    for number in range(5):
        disk.log.append_as_leader(batch(f"new {number}"), 1, NOW)
    log = disk.kill()
    assert log.recovery_point <= 5
    log.flushing.flush()
    values = [value for _, value in read_all(disk.cut_power())]
    assert values[5:] == [f"new {number}" for number in range(5)]
