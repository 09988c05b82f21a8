"""A cut replays what lies near it, and finds the same producers as a replay of everything."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.core.log_settings import LogSettings
from penstock.log.partition_log import PartitionLog
from penstock.log.state.producer_marks import ProducerMarks
from penstock.log.state.producer_state import BatchMetadata, ProducerStateEntry
from penstock.log.storage.files import Files, OpenFile, StrPath
from tests.unit.log.support import NOW, SMALL, Disk, batch, sequenced, transactional

_LARGE = LogSettings(segment_bytes=1 << 30)
_VALUE = "v" * 900
_COUNT = 5_400  # batches: 5 MB
_NEAR = 1_000_000  # bytes that a cut may read: the interval of marks, and the index


class _CountingFiles(Files):
    def __init__(self) -> None:
        self.read_bytes = 0

    def open(self, path: StrPath, *, create: bool = False) -> OpenFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _CountingFile(os.open(path, flags, 0o644), str(path), self)


class _CountingFile(OpenFile):
    __slots__ = ("_files",)

    def __init__(self, fd: int, path: str, files: _CountingFiles) -> None:
        super().__init__(fd, path)
        self._files = files

    def read(self, position: int, size: int) -> bytes:
        data = super().read(position, size)
        self._files.read_bytes += len(data)
        return data


def _fill(log: PartitionLog, lag: int) -> None:
    """Idempotent batches, of which all but the last `lag` are replicated."""
    for sequence in range(_COUNT):
        records = batch(_VALUE, producer_id=7 + sequence % 3, producer_epoch=0, base_sequence=sequence // 3)
        log.append_as_leader(records, 0, NOW)
        log.advance_high_watermark(log.log_end_offset - lag)


def _view(log: PartitionLog) -> dict[int, Any]:
    return {
        producer_id: (
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.current_transaction_first_offset,
            entry.batches[-1:],
        )
        for producer_id, entry in log.producers.entries.items()
    }


def _cut(log: PartitionLog, files: _CountingFiles) -> int:
    """How many bytes are read when the last 20 records are cut off."""
    before = files.read_bytes
    log.truncate_to(log.log_end_offset - 20, NOW)
    assert {entry.last_sequence for entry in log.producers.entries.values()} == {
        (_COUNT - 20 - 1 - index) // 3 for index in range(3)
    }
    return files.read_bytes - before


def test_little_is_read_when_a_follower_cuts_off_what_was_not_replicated(tmp_path: Path) -> None:
    files = _CountingFiles()
    log = Disk(tmp_path, files, _LARGE).create()
    _fill(log, lag=50)
    assert log.size > 4 * _NEAR
    assert _cut(log, files) < _NEAR
    assert all(len(entry.batches) == 5 for entry in log.producers.entries.values()), "all five are known"


@pytest.mark.parametrize("is_clean", [True, False])
def test_little_is_read_when_a_log_is_cut_right_after_a_restart(tmp_path: Path, is_clean: bool) -> None:
    files = _CountingFiles()
    disk = Disk(tmp_path, files, _LARGE)
    log = disk.create()
    _fill(log, lag=50)
    log.close(clean=is_clean)
    opened = disk.open(is_clean)
    assert _cut(opened, files) < _NEAR


def test_a_producer_may_repeat_any_of_its_last_five_batches_after_a_cut(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=_LARGE).create()
    for sequence in range(8):
        log.append_as_leader(sequenced(sequence), 0, NOW)
        log.advance_high_watermark(sequence + 1)
    log.append_as_leader(sequenced(8), 0, NOW)
    log.truncate_to(8, NOW)
    assert [log.append_as_leader(sequenced(sequence), 0, NOW).base_offset for sequence in range(3, 8)] == [*range(3, 8)]
    assert log.log_end_offset == 8


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_finds_what_a_replay_of_everything_finds(tmp_path: Path, seed: int) -> None:
    """Segments of 1,000 bytes: there is a mark at the beginning of each."""
    chance = random.Random(seed)
    disk = Disk(tmp_path, settings=replace(SMALL, segment_bytes=chance.choice((1_000, 3_000))))
    log = disk.create()
    sequences: dict[int, int] = {}
    for _ in range(chance.randrange(20, 120)):
        producer_id, kind = chance.randrange(1, 5), chance.randrange(10)
        if kind == 0:
            log.append_end_marker(producer_id, 0, 0, chance.random() < 0.5, 0, NOW)
        elif kind == 1 and log.log_end_offset > log.high_watermark:
            log.truncate_to(chance.randrange(log.high_watermark, log.log_end_offset), NOW)
            sequences = {each: entry.next_sequence for each, entry in log.producers.entries.items()}
        else:
            sequence = sequences.get(producer_id, 0)
            log.append_as_leader(transactional(sequence, producer_id=producer_id), 0, NOW)
            sequences[producer_id] = sequence + 1
        if chance.random() < 0.7:
            log.advance_high_watermark(chance.randrange(log.high_watermark, log.log_end_offset + 1))
    log.truncate_to(chance.randrange(log.high_watermark, log.log_end_offset + 1), NOW)
    found, unstable, high_watermark = _view(log), log.last_stable_offset, log.high_watermark
    open_transactions = dict(log.producers.open_transactions)
    log.close(clean=False)
    for path in tmp_path.glob("*.snapshot"):
        path.unlink()
    whole = disk.open(is_clean=False)
    assert _view(whole) == found
    assert whole.producers.open_transactions == open_transactions
    whole.producers.note_high_watermark(high_watermark)
    whole.advance_high_watermark(high_watermark)
    assert whole.last_stable_offset == unstable


def test_a_transaction_is_undecided_after_a_cut_when_its_marker_is_above_the_high_watermark(tmp_path: Path) -> None:
    log = Disk(tmp_path, settings=_LARGE).create()
    for sequence in range(4):
        log.append_as_leader(transactional(sequence, producer_id=1), 0, NOW)
    log.append_end_marker(1, 0, 0, False, 0, NOW)
    log.append_as_leader(sequenced(0), 0, NOW)
    log.advance_high_watermark(2)  # with a mark at the end
    assert log.last_stable_offset == 0
    log.append_as_leader(sequenced(1), 0, NOW)
    log.truncate_to(6, NOW)
    assert (log.log_end_offset, log.last_stable_offset) == (6, 0)
    log.advance_high_watermark(6)
    assert log.last_stable_offset == 6


def _entries(count: int) -> Iterator[ProducerStateEntry]:
    for producer_id in range(count):
        yield ProducerStateEntry(producer_id, 0, batches=[BatchMetadata(0, producer_id, 0, NOW)])


def test_marks_stay_few_and_reach_from_the_high_watermark_to_the_end_when_it_does_not_move() -> None:
    marks, entries = ProducerMarks(), list(_entries(3))
    position = made = 0
    while position < 1 << 30:
        position += 64 * 1024
        if marks.is_due(0, position):
            marks.make(position, 0, position, entries, {})
            made += 1
    first = marks.find(0, 1 << 20)
    last = marks.find(0, 1 << 30)
    assert first is not None
    assert last is not None
    assert first.offset < 1 << 20
    assert last.offset > 1 << 29
    assert made < 200
    marks.note_high_watermark(1 << 30)
    assert marks.find(0, last.offset - 1) is None, "the newest is enough"


def test_a_mark_does_not_change_when_the_producer_goes_on() -> None:
    marks, entries = ProducerMarks(), list(_entries(1))
    marks.make(5, 0, 100, entries, {})
    entries[0].batches.append(BatchMetadata(1, 6, 0, NOW))
    mark = marks.find(0, 5)
    assert mark is not None
    mark.copies()[0].batches.clear()
    assert [each.last_offset for each in mark.entries[0].batches] == [0]
    assert marks.find(6, 10) is None
    marks.cut(4)
    assert marks.find(0, 10) is None


def test_a_log_gets_no_marks_when_copies_of_its_producers_would_take_long() -> None:
    marks = ProducerMarks()
    marks.make(5, 0, 100, list(_entries(10_000)), {})
    assert marks.find(0, 5) is None
    assert not marks.is_due(0, 200)
    marks.make(5, 0, 100, list(_entries(9_000)), {})
    assert marks.find(0, 5) is not None
