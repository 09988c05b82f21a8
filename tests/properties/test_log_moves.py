"""A log that moves between data directories, against a list of records: cuts, retention, deletions, flushes, kills and
power failures come at any moment of a move.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.log.directories.log_move import LogMove, Pause
from penstock.log.replica_copies.steps import CopyStep
from tests.unit.log.moving_rig import A, B, MovingDisk
from tests.unit.log.support import NOW, SMALL, append, batch, read_all


class MoveModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MovingDisk(replace(SMALL, segment_bytes=500, retention_ms=10_000))
        self.values: list[str] = []
        self.start = 0
        self.flushed = 0
        self.counter = 0
        self.epoch = 0
        self.move: LogMove | None = None
        self.steps: Iterator[CopyStep | Pause] = iter(())
        self.pending: CopyStep | None = None
        # A power failure may bring back what was cut off since the last flush, as of any log.
        self.is_cut_durable = True
        self.append_records(1, False)
        self.flush()  # or a power failure might take the whole partition

    @rule(count=st.integers(1, 6), is_new_epoch=st.booleans())
    def append_records(self, count: int, is_new_epoch: bool) -> None:
        self.epoch += is_new_epoch
        for _ in range(count):
            self.counter += 1
            value = f"{self.counter}" + "x" * (self.counter % 80)
            append(self.disk.log, batch(value, timestamp=NOW + self.counter), leader_epoch=self.epoch)
            self.values.append(value)

    @rule()
    def flush(self) -> None:
        self.flushed = self.disk.log.flushing.flush()
        self.is_cut_durable |= self.flushed > 0

    @rule(data=st.data())
    @precondition(lambda self: len(self.values) > self.start and not self.disk.log.is_settling)
    def cut(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, len(self.values)))
        self.disk.log.truncate_to(offset)
        self._forget_after(self.disk.log.log_end_offset)
        self.epoch += 1
        self.is_cut_durable = False
        self.append_records(1, False)
        self.disk.directories.write_checkpoints()  # of the recovery point, which has gone back

    def _forget_after(self, end: int) -> None:
        del self.values[end:]
        self.start = min(self.start, end)
        self.flushed = min(self.flushed, end)

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        self.start = self.disk.log.delete_records_before(data.draw(st.integers(self.start, len(self.values))))

    @rule(age=st.sampled_from([0, 20_000]))
    def apply_retention(self, age: int) -> None:
        self.disk.log.apply_retention(NOW + age)
        self.start = self.disk.log.log_start_offset

    @rule(step_bytes=st.integers(1, 1_500))
    @precondition(lambda self: self.move is None)
    def begin_to_move(self, step_bytes: int) -> None:
        target = B if self.disk.log.directory.parent == A else A
        self.move = self.disk.move(target, step_bytes)
        self.steps = self.move.steps()

    @rule(count=st.integers(1, 12))
    @precondition(lambda self: self.move is not None)
    def go_on(self, count: int) -> None:
        assert self.move is not None
        if self.pending is not None:
            self.disk.do(self.pending)
            self.pending = None
        for _ in range(count):
            step = next(self.steps, None)
            if step is None:
                assert self.move.ending is not None
                self.move = None
                return
            self.disk.do(step)

    @rule()
    @precondition(lambda self: self.move is not None and self.pending is None)
    def begin_a_step(self) -> None:
        """It is captured now and run later, when the log has changed."""
        step = next(self.steps, None)
        if step is None:
            self.move = None
        elif isinstance(step, CopyStep):
            self.pending = step

    @rule()
    @precondition(lambda self: self.move is not None)
    def cancel(self) -> None:
        assert self.move is not None
        self.move.is_wanted = self.move.has_changed_over

    @rule()
    def write_checkpoints(self) -> None:
        self.disk.directories.write_checkpoints()

    @rule()
    def kill(self) -> None:
        self._begin_anew()
        self.disk.kill()
        self._look_after_start()
        assert len(self.values) == self.disk.log.log_end_offset

    @rule(seed=st.integers(0, 1_000))
    @precondition(lambda self: self.is_cut_durable)
    def cut_power(self, seed: int) -> None:
        self._begin_anew()
        self.disk.cut_power(random.Random(seed))
        end = self.disk.log.log_end_offset
        assert self.flushed <= end <= len(self.values)
        self._forget_after(end)
        self._look_after_start()

    def _begin_anew(self) -> None:
        self.move, self.pending, self.steps = None, None, iter(())

    def _look_after_start(self) -> None:
        """Log start offsets that no checkpoint has seen go back, as after any crash."""
        log = self.disk.log
        assert log.log_start_offset <= self.start
        self.start = log.log_start_offset
        assert len(self.disk.places) == 1

    @invariant()
    def records_are_those_of_the_list(self) -> None:
        log = self.disk.log
        assert log.offline_reason is None
        assert self.disk.directories.offline == {}
        assert log.log_end_offset == len(self.values)
        assert read_all(log) == list(enumerate(self.values))[self.start :]


TestLogMoves = MoveModel.TestCase
TestLogMoves.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
