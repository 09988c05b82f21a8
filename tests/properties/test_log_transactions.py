"""Transactions in a log against a model that knows only the list of batches: what a reader of committed records sees,
where the last stable offset is, and which transactions count as aborted.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.log.partition_log import PartitionLog
from penstock.protocol.records import Record, build_batch
from tests.unit.log.support import NOW, SMALL, Disk, read_committed

PRODUCER_COUNT = 4


class Action(NamedTuple):
    kind: str
    producer_id: int
    record_count: int
    is_commit: bool
    version: int
    is_replicated: bool


ACTIONS = st.builds(
    Action,
    kind=st.sampled_from(["transactional", "end", "plain"]),
    producer_id=st.integers(1, PRODUCER_COUNT),
    record_count=st.integers(1, 3),
    is_commit=st.booleans(),
    version=st.sampled_from([0, 2]),
    is_replicated=st.booleans(),
)


class Stored(NamedTuple):
    offset: int
    end: int
    producer_id: int
    epoch: int
    next_sequence: int
    is_transactional: bool
    decision: bool | None  # of a marker: whether it commits


class Transaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class Model:
    """Everything is worked out anew from the batches, as slowly as can be."""

    def __init__(self) -> None:
        self.stored: list[Stored] = []

    @property
    def end(self) -> int:
        return self.stored[-1].end if self.stored else 0

    def truncate(self, end: int) -> None:
        self.stored = [each for each in self.stored if each.end <= end]

    def producer(self, producer_id: int) -> tuple[int, int]:
        """(epoch, next sequence)"""
        mine = [each for each in self.stored if each.producer_id == producer_id]
        return (mine[-1].epoch, mine[-1].next_sequence) if mine else (0, 0)

    def open_transactions(self) -> dict[int, int]:
        """Producer -> first offset."""
        return self._replay()[0]

    def completed(self) -> list[Transaction]:
        return self._replay()[1]

    def _replay(self) -> tuple[dict[int, int], list[Transaction]]:
        opened: dict[int, int] = {}
        completed = []
        for each in self.stored:
            if each.decision is None and each.is_transactional:
                opened.setdefault(each.producer_id, each.offset)
            elif each.decision is not None and each.producer_id in opened:
                first = opened.pop(each.producer_id)
                completed.append(Transaction(each.producer_id, first, each.offset, not each.decision))
        return opened, completed

    def last_stable_offset(self, high_watermark: int, start: int) -> int:
        undecided = list(self.open_transactions().values())
        undecided += [each.first_offset for each in self.completed() if each.last_offset >= high_watermark]
        return min(max(min(undecided, default=high_watermark), start), high_watermark)

    def committed(self, start: int, end: int) -> list[int]:
        """The offsets that a reader of committed records gets."""
        aborted = [each for each in self.completed() if each.is_aborted]
        return [
            offset
            for each in self.stored
            if each.decision is None and each.end <= end and not _is_aborted(each, aborted)
            for offset in range(each.offset, each.end)
            if offset >= start
        ]


def _is_aborted(batch: Stored, aborted: list[Transaction]) -> bool:
    return batch.is_transactional and any(
        each.producer_id == batch.producer_id and each.first_offset <= batch.offset < each.last_offset
        for each in aborted
    )


class TransactionModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-transactions-"))
        self.disk = Disk(self.directory, settings=replace(SMALL, segment_bytes=400))
        self.log: PartitionLog = self.disk.create()
        self.model = Model()
        self.start = 0

    def teardown(self) -> None:
        self.log.close(clean=False)
        shutil.rmtree(self.directory)

    def _append(self, count: int, producer_id: int, is_transactional: bool) -> None:
        records = [Record(b"k", b"v", (), NOW) for _ in range(count)]
        epoch, sequence = self.model.producer(producer_id)
        data = build_batch(
            records,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        result = self.log.append_as_leader(data, 0, NOW)
        assert not result.is_duplicate
        end = result.last_offset + 1
        self.model.stored.append(
            Stored(result.base_offset, end, producer_id, epoch, sequence + count, is_transactional, None)
        )

    @rule(actions=st.lists(ACTIONS, min_size=3, max_size=15))
    def write(self, actions: list[Action]) -> None:
        """Several at a time, so that transactions overlap before the next thing happens to the log."""
        for action in actions:
            if action.kind == "end":
                self._end_transaction(action.producer_id, action.is_commit, action.version)
            elif action.kind == "transactional":
                self._append(action.record_count, action.producer_id, True)
            elif action.producer_id not in self.model.open_transactions():
                self._append(action.record_count, action.producer_id, False)
            if action.is_replicated:
                self.log.advance_high_watermark(self.log.log_end_offset)

    def _end_transaction(self, producer_id: int, is_commit: bool, version: int) -> None:
        """Version 2 bumps the epoch with each marker; and a marker may come where nothing was written."""
        epoch, sequence = self.model.producer(producer_id)
        if version == 2:
            epoch, sequence = epoch + 1, 0
        result = self.log.append_end_marker(producer_id, epoch, 0, is_commit, 0, NOW, version)
        self.model.stored.append(
            Stored(result.base_offset, result.base_offset + 1, producer_id, epoch, sequence, True, is_commit)
        )

    @rule(data=st.data())
    def advance_high_watermark(self, data: st.DataObject) -> None:
        ends = [each.end for each in self.model.stored if each.end >= self.log.high_watermark]
        if ends:
            self.log.advance_high_watermark(data.draw(st.sampled_from(ends)))

    def _note_restart(self) -> None:
        self.log.advance_high_watermark(self.log.log_end_offset)

    @rule()
    def flush(self) -> None:
        assert self.log.flushing.flush() == self.model.end

    @rule()
    def restart_cleanly(self) -> None:
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log = self.disk.reopen(self.log)
        self._note_restart()

    @rule()
    def kill(self) -> None:
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log = self.disk.crash(self.log)
        self._note_restart()

    @rule(data=st.data())
    def lose_unsynced_files(self, data: st.DataObject) -> None:
        """Power is lost: small files that were not synced may be anything.

        Not the snapshot at the first segment after older segments were deleted, because the rest of the log does not
        tell what it says. Nothing syncs it before they go, so this relies on the kernel, which writes a file within
        half a minute of its making. Without it no record is lost, but producers are known only by what is left.
        """
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        recovery_point = self.log.recovery_point
        bases = [int(path.stem) for path in self.directory.glob("*.log") if int(path.stem) <= recovery_point]
        first = min(int(path.stem) for path in self.directory.glob("*.log"))
        self.log.close(clean=False)
        for path in sorted(self.directory.iterdir()):
            is_small = path.suffix in (".txnindex", ".index", ".timeindex")
            is_unsynced = is_small and int(path.stem) >= max(bases, default=0)
            is_unsynced |= path.suffix == ".snapshot" and int(path.stem) > max(recovery_point, first)
            if is_unsynced and data.draw(st.booleans()):
                path.write_bytes(data.draw(st.binary(max_size=70)))
        self.log = self.disk.open(is_clean=False)
        self._note_restart()

    @rule(data=st.data())
    def damage_indexes(self, data: st.DataObject) -> None:
        """What can be seen to be damaged is made again."""
        self.disk.log_start_offset, self.disk.recovery_point = self.log.log_start_offset, self.log.recovery_point
        self.log.close(clean=True)
        for path in sorted(self.directory.glob("*.txnindex")):
            if data.draw(st.booleans()):
                path.write_bytes(path.read_bytes() + b"\x00")
        self.log = self.disk.open()
        self._note_restart()

    @rule(data=st.data())
    @precondition(lambda self: self.model.end > self.start)
    def truncate(self, data: st.DataObject) -> None:
        self.log.truncate_to(data.draw(st.integers(self.start, self.model.end)))
        self.model.truncate(self.log.log_end_offset)
        assert self.log.log_end_offset == self.model.end
        self.start = min(self.start, self.model.end)
        self._note_restart()

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        """Not into what producers have open: a truncation back to before would then be a different story."""
        limit = min([self.log.high_watermark, *self.model.open_transactions().values()])
        if limit < self.start:
            return
        self.start = self.log.delete_records_before(data.draw(st.integers(self.start, limit)))
        self.log.apply_retention(NOW)
        assert self.log.log_start_offset == self.start

    @invariant()
    def state_is_the_models(self) -> None:
        log, model = self.log, self.model
        assert log.log_end_offset == model.end
        assert log.last_stable_offset == model.last_stable_offset(log.high_watermark, self.start)
        opened = model.open_transactions()
        for producer_id in range(1, PRODUCER_COUNT + 1):
            epoch, _ = model.producer(producer_id)
            assert log.producers.has_open_transaction(producer_id, epoch) == (producer_id in opened)
            assert not log.producers.has_open_transaction(producer_id, epoch + 1)
        for entry in log.producers.active():
            assert entry.current_transaction_first_offset == opened.get(entry.producer_id, -1)

    @invariant()
    def aborted_transactions_are_complete(self) -> None:
        stable = self.log.last_stable_offset
        aborted = sorted((each for each in self.model.completed() if each.is_aborted), key=lambda each: each[1])
        for start in range(self.start, stable, 3):
            for end in {min(start + length, stable) for length in (1, 4, 11, 1000)}:
                expected = [each[:2] for each in aborted if each.last_offset >= start and each.first_offset < end]
                assert [each[:2] for each in self.log.reader.aborted_transactions(start, end)] == expected

    @invariant()
    def committed_records_are_read(self) -> None:
        stable = self.log.last_stable_offset
        for max_bytes in (1, 300, 100_000):
            assert read_committed(self.log, self.start, max_bytes) == self.model.committed(self.start, stable)

    @rule(data=st.data())
    def committed_records_are_read_from_anywhere(self, data: st.DataObject) -> None:
        stable = self.log.last_stable_offset
        start = data.draw(st.integers(self.start, stable))
        assert read_committed(self.log, start, 200) == self.model.committed(start, stable)


TransactionModel.TestCase.settings = settings(max_examples=60, stateful_step_count=15, deadline=None)
TestTransactionModel = TransactionModel.TestCase
