"""Write-back begins where it ended last, and anew with each segment."""

from __future__ import annotations

from pathlib import Path

from penstock.log.upkeep.write_back import WriteBack, start_write_back
from tests.unit.log.support import Disk, append, append_many, batch


def test_nothing_is_taken_when_little_was_written(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    append(log, batch("a"))
    assert WriteBack(least_bytes=log.size + 1).take(log.segments) is None


def test_only_what_is_new_is_taken_when_more_was_written(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    write_back = WriteBack(least_bytes=1)
    append(log, batch("a"))
    first = write_back.take(log.segments)
    assert first is not None
    assert (first.position, first.size) == (0, log.size)
    assert write_back.take(log.segments) is None
    append(log, batch("b"))
    second = write_back.take(log.segments)
    assert second is not None
    assert (second.position, second.size) == (first.size, log.size - first.size)
    start_write_back([first, second])


def test_a_new_segment_begins_at_its_start_when_the_log_has_rolled(tmp_path: Path) -> None:
    log = Disk(tmp_path).create()
    write_back = WriteBack(least_bytes=1)
    append(log, batch("a"))
    write_back.take(log.segments)
    append_many(log, 30)
    assert len(log.segments) > 1
    taken = write_back.take(log.segments)
    assert taken is not None
    assert (taken.position, taken.size) == (0, log.segments.active.size)
    assert taken.file.path == log.segments.active.path(".log")
