"""The leader, its follower and whoever recovers the log after a crash know the same of each producer, also when the ids
of some have expired: a batch that comes again is a batch that comes again, whoever leads by then.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.log.partition_log import PartitionLog
from penstock.log.state.origin import Origin
from penstock.log.state.producer_state import BatchMetadata, ProducerState, ProducerStateEntry
from penstock.protocol.batch import iterate_batches
from penstock.protocol.records import Record, build_batch
from tests.unit.log.support import NOW, SMALL, Disk, contents, whole_batches

EXPIRATION_MS = 10_000
PRODUCERS = (1, 2, 3)


class Action(NamedTuple):
    kind: str
    producer_id: int
    record_count: int
    is_new_epoch: bool
    age_ms: int
    is_commit: bool
    is_replicated: bool


ACTIONS = st.builds(
    Action,
    kind=st.sampled_from(["plain", "plain", "transactional", "end"]),
    producer_id=st.sampled_from(PRODUCERS),
    record_count=st.integers(1, 3),
    is_new_epoch=st.sampled_from([False, False, False, True]),
    age_ms=st.sampled_from([0, 0, EXPIRATION_MS // 2, 2 * EXPIRATION_MS]),
    is_commit=st.booleans(),
    is_replicated=st.booleans(),
)


class Known(NamedTuple):
    """What decides about the next batch of a producer."""

    epoch: int
    last_timestamp: int
    transaction: int
    newest: tuple[int, int, int] | None  # without its time: a snapshot has the producer's alone


def known(state: ProducerState) -> dict[int, Known]:
    return {entry.producer_id: _known(entry) for entry in state.active()}


def _known(entry: ProducerStateEntry) -> Known:
    newest = entry.batches[-1][:3] if entry.batches else None
    return Known(entry.producer_epoch, entry.last_timestamp, entry.current_transaction_first_offset, newest)


class ProducerEntries(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="penstock-producers-"))
        small = replace(SMALL, segment_bytes=600, producer_id_expiration_ms=EXPIRATION_MS)
        self.disks = [Disk(self.directory / name, settings=small) for name in ("leader", "follower")]
        self.leader, self.follower = (disk.create() for disk in self.disks)
        self.now_ms = NOW
        self.sent: dict[int, tuple[int, int]] = {}  # epoch and next sequence, which producers remember for ever

    def teardown(self) -> None:
        for log in (self.leader, self.follower):
            log.close(clean=False)
        shutil.rmtree(self.directory)

    @rule(actions=st.lists(ACTIONS, min_size=3, max_size=12))
    def write(self, actions: list[Action]) -> None:
        for action in actions:
            if action.kind == "end":
                self._end_transaction(action)
            else:
                self._append(action)
            if action.is_replicated:
                self.leader.advance_high_watermark(self.leader.log_end_offset)
        self._replicate()

    def _end_transaction(self, action: Action) -> None:
        epoch, _ = self.sent.get(action.producer_id, (0, 0))
        if self.leader.producers.has_open_transaction(action.producer_id, epoch):
            self.leader.append_end_marker(action.producer_id, epoch, 0, action.is_commit, 0, self.now_ms)

    def _append(self, action: Action) -> None:
        epoch, sequence = self.sent.get(action.producer_id, (0, 0))
        is_open = self.leader.producers.has_open_transaction(action.producer_id, epoch)
        if action.is_new_epoch and not is_open:
            epoch, sequence = epoch + 1, 0
        records = [Record(b"k", b"v", (), self.now_ms - action.age_ms) for _ in range(action.record_count)]
        data = build_batch(
            records,
            producer_id=action.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_open or action.kind == "transactional",
        )
        self.leader.append_as_leader(data, 0, self.now_ms)
        self.sent[action.producer_id] = epoch, sequence + action.record_count

    def _replicate(self) -> None:
        while (
            slice_ := self.leader.reader.read(
                self.follower.log_end_offset, 300, self.leader.log_end_offset, at_least_one=True
            )
        ) is not None:
            self.follower.append_as_follower(b"".join(whole_batches(contents(slice_))), self.now_ms)
        self.follower.advance_high_watermark(self.leader.high_watermark)

    @rule(passed_ms=st.sampled_from([1, EXPIRATION_MS // 2, EXPIRATION_MS, 3 * EXPIRATION_MS]))
    def pass_time(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self._expire()

    def _expire(self) -> None:
        """Each broker does so every few minutes, and when it reads a log back."""
        for log in (self.leader, self.follower):
            log.producers.remove_expired(self.now_ms, EXPIRATION_MS)

    @rule()
    def flush(self) -> None:
        """What is flushed is not replayed after a crash: a snapshot tells of it."""
        for log in (self.leader, self.follower):
            log.flushing.flush()

    @rule(is_leader=st.booleans(), is_clean=st.booleans())
    def restart(self, is_leader: bool, is_clean: bool) -> None:
        log, disk = (self.leader, self.disks[0]) if is_leader else (self.follower, self.disks[1])
        self._expire()
        before, batches = known(log.producers), self._batches(log)
        disk.recovery_point = log.recovery_point
        log.close(clean=is_clean)
        log = disk.open(is_clean=is_clean, now_ms=self.now_ms)
        log.producers.remove_expired(self.now_ms, EXPIRATION_MS)
        log.advance_high_watermark((self.follower if is_leader else self.leader).high_watermark)
        assert known(log.producers) == before
        if is_leader:
            self.leader = log
        else:
            self.follower = log
        self._check_repetitions(log, batches)

    def _batches(self, log: PartitionLog) -> dict[int, list[BatchMetadata]]:
        return {entry.producer_id: entry.batches.copy() for entry in log.producers.active()}

    def _check_repetitions(self, log: PartitionLog, before: dict[int, list[BatchMetadata]]) -> None:
        """What was known as one of the last batches is known again, with the same offset."""
        for producer_id, batches in before.items():
            for each in batches:
                data = build_batch(
                    [Record(b"k", b"v", (), NOW)] * (each.offset_delta + 1),
                    producer_id=producer_id,
                    producer_epoch=log.producers.entries[producer_id].producer_epoch,
                    base_sequence=each.base_sequence,
                )
                ((_, header),) = iterate_batches(data)
                found = log.producers.admit(header, Origin.CLIENT)
                assert found is not None
                assert found.last_offset == each.last_offset

    @invariant()
    def all_know_the_same(self) -> None:
        assert known(self.leader.producers) == known(self.follower.producers)


ProducerEntries.TestCase.settings = settings(max_examples=100, stateful_step_count=12, deadline=None)
TestProducerEntries = ProducerEntries.TestCase
