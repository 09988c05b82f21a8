"""The log against the simplest thing that could be right: a list of records."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.log.partition_log import PartitionLog
from penstock.protocol.compression import Codec
from penstock.protocol.records import Record, build_batch
from tests.unit.log.support import NOW, SMALL, Disk, append, contents, read_all, whole_batches


class LogModel(RuleBasedStateMachine):
    """Appends, restarts, crashes, cuts and deletions in any order, over segments of a few batches each."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-log-"))
        self.disk = Disk(self.directory, settings=replace(SMALL, segment_bytes=600, retention_ms=10_000))
        self.log: PartitionLog = self.disk.create()
        self.values: list[str] = []
        self.batch_starts: list[int] = []
        self.start = 0
        self.sequence = 0
        self.counter = 0
        self.flushed = 0

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)

    @rule(count=st.integers(1, 4), codec=st.sampled_from(Codec), is_idempotent=st.booleans(), epoch=st.integers(0, 1))
    def append_batch(self, count: int, codec: Codec, is_idempotent: bool, epoch: int) -> None:
        values = [f"{self.counter}.{index}" for index in range(count)]
        self.counter += 1
        records = [Record(b"k", value.encode(), (), NOW + self.counter) for value in values]
        leader_epoch = max(self.log.epochs.latest, 0) + epoch
        if is_idempotent:
            data = build_batch(records, codec=codec, producer_id=7, producer_epoch=0, base_sequence=self.sequence)
            self.sequence += count
        else:
            data = build_batch(records, codec=codec)
        (offset,) = append(self.log, data, leader_epoch=leader_epoch)
        assert offset == len(self.values)
        if is_idempotent:
            again = self.log.append_as_leader(data, leader_epoch, NOW)
            assert (again.is_duplicate, again.base_offset) == (True, offset)
        self.batch_starts.append(offset)
        self.values += values

    def _note_restart(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)

    @rule()
    def restart_cleanly(self) -> None:
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log = self.disk.reopen(self.log)
        self.flushed = len(self.values)
        self._note_restart()

    @rule()
    def kill(self) -> None:
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log = self.disk.crash(self.log)
        self._note_restart()

    @rule(data=st.data())
    @precondition(lambda self: self.log.log_end_offset > self.flushed and self.log.log_end_offset > self.start)
    def lose_power(self, data: st.DataObject) -> None:
        """What was not synced may be lost from any byte of the last segment on."""
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log.close(clean=False)
        last = max(self.directory.glob("*.log"))
        content = last.read_bytes()
        durable = sum(len(found) for found in whole_batches(content) if int.from_bytes(found[:8], "big") < self.flushed)
        keep = data.draw(st.integers(durable, len(content)))
        last.write_bytes(content[:keep])
        self.log = self.disk.open(is_clean=False)
        end = self.log.log_end_offset
        assert self.flushed <= end <= len(self.values)
        assert end == len(self.values) or end in self.batch_starts or end == self.start
        self._forget_after(end)
        self._note_restart()

    @rule(data=st.data())
    @precondition(lambda self: len(self.values) > self.start)
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.values)))
        self.log.truncate_to(offset)
        self._forget_after(self.log.log_end_offset)
        assert len(self.values) <= offset
        self._note_restart()

    def _forget_after(self, end: int) -> None:
        del self.values[end:]
        self.batch_starts = [start for start in self.batch_starts if start < end]
        self.start = min(self.start, end)
        self.flushed = min(self.flushed, end)
        entries = {entry.producer_id: entry for entry in self.log.producers.active()}
        self.sequence = entries[7].last_sequence + 1 if 7 in entries else 0

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.values)))
        self.start = self.log.delete_records_before(offset)
        assert self.start == offset

    @rule(age=st.sampled_from([0, 9_000, 20_000]))
    def apply_retention(self, age: int) -> None:
        self.log.apply_retention(NOW + age)
        assert self.log.log_start_offset >= self.start
        self.start = self.log.log_start_offset

    @rule()
    def flush(self) -> None:
        self.flushed = self.log.flushing.flush()
        assert self.flushed == len(self.values)

    @rule(data=st.data())
    @precondition(lambda self: len(self.values) > self.start)
    def read_with_limits(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.values) - 1))
        limit = data.draw(st.integers(offset, len(self.values)))
        max_bytes = data.draw(st.integers(0, 1000))
        at_least_one = data.draw(st.booleans())
        slice_ = self.log.reader.read(offset, max_bytes, limit, at_least_one)
        batch_end = next((start for start in self.batch_starts if start > offset), len(self.values))
        if slice_ is None:
            assert limit < batch_end or not at_least_one
            return
        found = list(whole_batches(contents(slice_)))
        assert found
        assert len(slice_) <= max(max_bytes, len(found[0]))
        first, last = int.from_bytes(found[0][:8], "big"), int.from_bytes(found[-1][:8], "big")
        assert first <= offset
        assert last < limit

    @invariant()
    def holds_what_was_appended(self) -> None:
        assert self.log.log_end_offset == len(self.values)
        assert self.log.log_start_offset == self.start
        expected = [(offset, self.values[offset]) for offset in range(self.start, len(self.values))]
        assert read_all(self.log) == expected


LogModel.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestLogModel = LogModel.TestCase
