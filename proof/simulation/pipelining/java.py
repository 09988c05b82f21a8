"""When Java's producer sends what, and what it makes of answers: TransactionManager, Sender, RecordAccumulator.

- A request has a batch of each partition that the broker leads. Five requests are in flight on a connection.
- A batch that is sent again has the same epoch, sequence and records. Behind it no other batch of the partition is sent
  before it is done.
- OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that is not the next to be acknowledged is tried again. For the next one it
  is a gap: the epoch is bumped, and the partition's batches begin at sequence 0 of it.
- A batch whose delivery time ends fails. Its sequence is unresolved if it was sent before: nothing new of the partition
  is sent until nothing of it is tracked any more. Then the epoch is bumped, unless a later batch was acknowledged.
- Other partitions take the new epoch with their next batch, when all their earlier ones are done.
- DUPLICATE_SEQUENCE_NUMBER is success.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.protocol.errors import ErrorCode
from penstock.testing.history import Outcome
from proof.simulation.notebook import Partition
from proof.simulation.pipelining.batches import BACKOFF_MS, NO_ANSWER, Answer, Batch, Listener, Sending

# RetriableException, of those that a broker answers a write with.
_AGAIN = frozenset(
    {
        NO_ANSWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)
_NOTHING_ACKED = -1


class _Tracked:
    """A batch with a sequence, from its first sending on until it is done."""

    __slots__ = ("batch", "epoch", "is_done", "is_reset", "sequence")

    def __init__(self, batch: Batch, epoch: int, sequence: int) -> None:
        self.batch = batch
        self.epoch = epoch
        self.sequence = sequence
        self.is_reset = False
        self.is_done = False

    @property
    def last_sequence(self) -> int:
        return self.sequence + self.batch.count - 1


class _Entry:
    """One partition: `TxnPartitionEntry`, and its part of the accumulator."""

    __slots__ = ("epoch", "last_acked", "new", "next_sequence", "retries", "tracked", "unresolved")

    def __init__(self, epoch: int) -> None:
        self.new: list[Batch] = []  # without a sequence
        self.retries: list[_Tracked] = []  # by sequence
        self.tracked: list[_Tracked] = []  # by sequence
        self.epoch = epoch
        self.next_sequence = 0
        self.last_acked = _NOTHING_ACKED
        self.unresolved: int | None = None  # the sequence after one whose fate is not known

    def begin_at_0(self, epoch: int) -> None:
        """`startSequencesAtBeginning`."""
        sequence = 0
        for tracked in self.tracked:
            tracked.epoch, tracked.sequence, tracked.is_reset = epoch, sequence, True
            sequence += tracked.batch.count
        self.epoch, self.next_sequence, self.last_acked = epoch, sequence, _NOTHING_ACKED


class JavaRules:
    def __init__(self, epoch: int, listener: Listener, delivery_timeout_ms: float) -> None:
        self.epoch = epoch
        self._listener = listener
        self._delivery_timeout_ms = delivery_timeout_ms
        self._entries: dict[Partition, _Entry] = {}
        self._to_rewrite: set[Partition] = set()
        self._on_the_wire: dict[Batch, _Tracked] = {}

    def add(self, batch: Batch) -> None:
        self._entries.setdefault(batch.partition, _Entry(self.epoch)).new.append(batch)

    @property
    def is_idle(self) -> bool:
        return not any(each.new or each.tracked for each in self._entries.values())

    # ---- sending

    def take(self, node: int, led: Collection[Partition], room: int, now_ms: float) -> list[list[Sending]]:
        self._resolve()
        self._bump()
        taken: list[list[Sending]] = []
        while len(taken) < room:
            request = [sending for partition in led if (sending := self._drain(partition, now_ms)) is not None]
            if not request:
                break
            taken.append(request)
        self._expire(now_ms)
        return taken

    def _drain(self, partition: Partition, now_ms: float) -> Sending | None:
        entry = self._entries.get(partition)
        if entry is None:
            return None
        if entry.retries:
            tracked = entry.retries[0]
            if tracked.batch.not_before_ms > now_ms or tracked is not entry.tracked[0]:
                return None
            entry.retries.pop(0)
        else:
            is_held = entry.unresolved is not None or (entry.tracked and entry.epoch != self.epoch)
            if not entry.new or is_held:
                return None
            if entry.epoch != self.epoch:
                entry.begin_at_0(self.epoch)
            batch = entry.new.pop(0)
            tracked = _Tracked(batch, self.epoch, entry.next_sequence)
            entry.next_sequence += batch.count
            entry.tracked.append(tracked)
        tracked.batch.tries += 1
        self._on_the_wire[tracked.batch] = tracked
        return Sending(tracked.batch, tracked.epoch, tracked.sequence)

    def _expire(self, now_ms: float) -> None:
        for partition, entry in self._entries.items():
            for batch in [each for each in entry.new if now_ms - each.made_ms >= self._delivery_timeout_ms]:
                entry.new.remove(batch)
                self._listener.done(batch, Outcome.FAILED, -1)
            late = [each for each in entry.tracked if now_ms - each.batch.made_ms >= self._delivery_timeout_ms]
            for tracked in late:
                self._listener.note(f"{partition} sequence {tracked.sequence}: its delivery time ends")
                self._finish(entry, tracked)
                self._listener.done(tracked.batch, Outcome.UNKNOWN, -1)
                if tracked.batch.tries > 1 or tracked.batch not in self._on_the_wire:
                    entry.unresolved = max(entry.unresolved or 0, tracked.last_sequence + 1)

    def _finish(self, entry: _Entry, tracked: _Tracked) -> None:
        tracked.is_done = True
        entry.tracked.remove(tracked)
        if tracked in entry.retries:
            entry.retries.remove(tracked)

    def _resolve(self) -> None:
        for partition, entry in self._entries.items():
            if entry.unresolved is not None and not entry.tracked:
                if entry.next_sequence - entry.last_acked != 1:
                    self._to_rewrite.add(partition)
                entry.unresolved = None

    def _bump(self) -> None:
        if self._to_rewrite:
            self.epoch += 1
            self._listener.note(f"bumps the epoch to {self.epoch} for {sorted(self._to_rewrite)}")
            for partition in self._to_rewrite:
                entry = self._entries[partition]
                entry.begin_at_0(self.epoch)
                entry.unresolved = None
            self._to_rewrite.clear()

    # ---- answers

    def settle(self, sending: Sending, answer: Answer, now_ms: float) -> None:
        batch = sending.batch
        tracked, entry = self._on_the_wire.pop(batch), self._entries[batch.partition]
        if tracked.is_done:
            return  # the application was told that it failed
        if answer.code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            entry.last_acked = max(entry.last_acked, tracked.last_sequence)
            self._finish(entry, tracked)
            self._listener.done(batch, Outcome.OK, answer.offset if answer.code == ErrorCode.NONE else -1)
        elif answer.code in _AGAIN or answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if answer.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._is_gap(entry, tracked):
                self._to_rewrite.add(batch.partition)
            batch.not_before_ms = now_ms + BACKOFF_MS
            entry.retries.append(tracked)
            entry.retries.sort(key=lambda each: each.sequence)
        else:
            self._finish(entry, tracked)
            self._listener.done(batch, Outcome.UNKNOWN, -1)
            self._listener.fail(f"{sending} failed for good: {answer.name}")

    @staticmethod
    def _is_gap(entry: _Entry, tracked: _Tracked) -> bool:
        """`TransactionManager.canRetry`."""
        if entry.unresolved is None:
            return not tracked.is_reset and tracked.sequence == entry.last_acked + 1
        return tracked.sequence == entry.unresolved
