"""kill -9 at every single file operation of a cleaning, and again at every one of the recovery after it."""

from __future__ import annotations

import contextlib
import errno
import shutil
from pathlib import Path

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.log_cleaner import CleanerLimits
from penstock.log.compaction.log_compaction import clean_log
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ApiError
from penstock.testing.disks.faulty_files import Fault
from tests.unit.log.compacted import (
    COMPACTED,
    Found,
    UnsyncedFiles,
    fill,
    keyed,
    latest,
    read_keyed,
    roll,
    with_settings,
)
from tests.unit.log.support import NOW, Disk, append, end_transaction, read_committed, sequenced, transactional

LATER = NOW + 5_000  # past every delete horizon of the first cleaning


def filled(directory: Path, settings: LogSettings) -> Disk:
    """Cleaned once, so that small segments wait to be joined; tombstones, a producer, an aborted transaction."""
    disk = Disk(directory, settings=settings)
    log = disk.create()
    append(log, sequenced(0, 2))
    append(log, keyed(("gone", "value")), keyed(("gone", None), ("stays", "here")))
    fill(log, 24)
    append(log, transactional(0, 2, producer_id=9))
    end_transaction(log, is_commit=False, producer_id=9)
    roll(log)
    clean_log(log.compaction, NOW)
    fill(log, 14, start=24)
    append(log, transactional(2, 2, producer_id=9))
    end_transaction(log, is_commit=False, producer_id=9)
    roll(log)
    log.flushing.flush()
    disk.recovery_point = log.recovery_point
    log.close(clean=False)
    return disk


class Attempt:
    """A copy of the filled log on a disk that dies."""

    def __init__(self, template: Disk, directory: Path) -> None:
        shutil.copytree(template.directory, directory)
        self.files = UnsyncedFiles()
        self.disk = Disk(directory, self.files, template.settings)
        self.disk.recovery_point = template.recovery_point
        self.log = self.disk.open(is_clean=False)
        self.log.advance_high_watermark(self.log.log_end_offset)
        self.replaced_until = 0  # before this offset, readers have seen the cleaned log

    def clean(self) -> None:
        cleaning = self.log.compaction.begin_cleaning(self.log.compaction.measure_dirt(LATER), LATER, CleanerLimits())
        bases = [source.base_offset for source in cleaning.request.sources]
        ends = [source.end_offset for source in cleaning.request.sources]
        with contextlib.closing(cleaning.steps()) as steps:
            for step in steps:
                if isinstance(step, Replacement):
                    step.commit(self.files)
                    self.log.compaction.replace_segments(step, LATER)
                    self.replaced_until = ends[bases.index(step.replaced[-1])]
        self.log.compaction.end_cleaning(cleaning.outcome)

    def die_at(self, number: int) -> None:
        """From here on, nothing reaches the disk."""
        self.files.fail(Fault.at(len(self.files.operations) + number, errno.EIO, 7))

    def reopened(self) -> PartitionLog:
        self.log.close(clean=False)
        self.files.heal()
        self.log = self.disk.open(is_clean=False)
        self.log.advance_high_watermark(self.log.log_end_offset)
        return self.log


class Expected:
    def __init__(self, template: Disk, directory: Path) -> None:
        whole = Attempt(template, directory)
        self.before = read_keyed(whole.log)
        self.committed = read_committed(whole.log, 0)
        self.end = whole.log.log_end_offset
        start = len(whole.files.operations)
        whole.clean()
        self.operations = len(whole.files.operations) - start
        # Between these, what a start finds in the directory differs.
        self.renames = [each.number - start for each in whole.files.operations[start:] if each.name == "rename"]
        self.after = read_keyed(whole.log)
        whole.log.close(clean=False)

    def check(self, log: PartitionLog, replaced_until: int) -> None:
        found = read_keyed(log)
        assert (log.log_start_offset, log.log_end_offset) == (0, self.end)
        assert latest([each for each in found if each[0] in set(self.committed)]) == latest(
            [each for each in self.before if each[0] in set(self.committed)]
        )
        # What readers have seen cleaned stays cleaned; the rest of the log is each segment as it was or as it will be.
        assert _below(found, replaced_until) == _below(self.after, replaced_until)
        assert set(self.after) <= set(found) <= set(self.before)
        assert [each[0] for each in found] == sorted(each[0] for each in found)
        assert not list(log.directory.glob("*.swap")) + list(log.directory.glob("*.cleaned"))
        assert set(read_committed(log, 0)) <= set(self.committed)


def _below(found: list[Found], offset: int) -> list[Found]:
    return [each for each in found if each[0] < offset]


@pytest.fixture(params=[COMPACTED, with_settings(segment_bytes=4_000)], ids=["many-groups", "joined"])
def template(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    return filled(tmp_path / "template", request.param)


def test_no_record_is_lost_or_comes_back_when_killed_at_any_operation(template: Disk, tmp_path: Path) -> None:
    expected = Expected(template, tmp_path / "whole")
    assert len(expected.after) < len(expected.before)
    assert expected.operations > 30
    for number in range(1, expected.operations + 1):
        attempt = Attempt(template, tmp_path / f"attempt-{number}")
        attempt.die_at(number)
        with pytest.raises((OSError, ApiError)):
            attempt.clean()
        expected.check(attempt.reopened(), attempt.replaced_until)
        attempt.clean()
        assert read_keyed(attempt.log) == expected.after
        attempt.log.close(clean=False)


def test_no_record_is_lost_or_comes_back_when_recovery_is_killed_too(template: Disk, tmp_path: Path) -> None:
    expected = Expected(template, tmp_path / "whole")
    for number in expected.renames[:18]:
        again = 1
        while True:
            attempt = Attempt(template, tmp_path / f"attempt-{number}-{again}")
            attempt.die_at(number)
            with pytest.raises((OSError, ApiError)):
                attempt.clean()
            attempt.log.close(clean=False)
            attempt.files.heal()
            attempt.die_at(again)
            is_done = True
            try:
                attempt.disk.open(is_clean=False).close(clean=False)
            except OSError:
                is_done = False
            expected.check(attempt.reopened(), attempt.replaced_until)
            attempt.log.close(clean=False)
            shutil.rmtree(attempt.disk.directory)
            # The first operations of a start are those that put the files in order; then it only reads.
            if is_done or again >= 12:
                break
            again += 2
