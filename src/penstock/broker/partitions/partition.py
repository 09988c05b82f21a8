"""One partition on this broker: its log, its place in the cluster, and the waiting requests.

Rules:
- The state of the image names the leader. A leader notes the begin of its epoch in the log before it writes.
- A partition with one replica is replicated as soon as a record is in its log. With several replicas the leader keeps
  its state of them in `leading`. A follower has no such state: its high watermark comes from its leader.
- A leader that succeeds another leader is careful for a while with producers that it does not know (`taking_over`).
- States come from images and from the controller's answers to in-sync changes. An older state changes nothing.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.leader_context import LeaderContext
from penstock.broker.partitions.purgatory import Waiter, Waiters
from penstock.broker.partitions.suspension import Suspension
from penstock.broker.partitions.taking_over import TAKING_OVER_MS, check_first_batch, may_follow_another
from penstock.cluster.image import PartitionState
from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.core.metrics.counters import TopicMetrics
from penstock.core.types import Buffer, TopicId, TopicPartition
from penstock.log.partition_log import AppendResult, Origin, PartitionLog
from penstock.log.storage.files import FileSlice
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.single_produce import AnswerTemplate
from penstock.replication.in_sync import ALL_REPLICAS, is_below_minimum
from penstock.replication.leader_state import Effects, LeaderState

_MARKER_SIZE = 78  # bytes of a transaction's end marker, for fetches that wait for bytes


class Partition:
    __slots__ = (
        "_context",
        "deletions",
        "is_internal",
        "is_leader",
        "leading",
        "log",
        "metrics",
        "produce_answers",
        "state",
        "suspension",
        "taking_over_until_ms",
        "topic_id",
        "topic_partition",
        "waiters",
    )

    def __init__(
        self, log: PartitionLog, topic_id: TopicId, state: PartitionState, metrics: TopicMetrics, context: LeaderContext
    ) -> None:
        self.log = log
        self.topic_partition: TopicPartition = log.topic_partition
        self.is_internal = log.topic_partition.topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.state = state
        self.metrics = metrics
        self.is_leader = False
        self.leading: LeaderState | None = None  # set on a leader with followers
        self.deletions: Waiters | None = None  # deletions that wait for followers; set where there were some
        self.suspension: Suspension | None = None  # set on a leader without a lease
        self.waiters: dict[Waiter, None] = {}  # fetches of consumers, in the order of their arrival
        self._context = context
        self.produce_answers: dict[int, AnswerTemplate] = {}  # by version; made at the first use
        self.taking_over_until_ms: int | None = None  # requests may wait at the former leader
        self._take_role(None)

    # -------------------------------------------------------------------------------------------- leadership

    def adopt(self, state: PartitionState) -> None:
        """Adopts a newer state. The role may change, and requests that wait for the old role look again."""
        if state.partition_epoch < self.state.partition_epoch or state.leader_epoch < self.state.leader_epoch:
            return
        if state != self.state:
            former, self.state = self.state, state
            is_new_epoch = state.leader_epoch != former.leader_epoch
            self._take_role(former)
            if is_new_epoch and not self.is_leader:
                self.wake_all()  # consumers that read from a follower

    def _take_role(self, former_state: PartitionState | None) -> None:
        """`former_state` is the previous state; None when the partition has just been opened."""
        state, suspension, self.suspension = self.state, self.suspension, None
        former = self.leading if suspension is None else suspension.former
        if state.leader != self._context.node_id:
            self._stop_leading()
            if former is not None:
                former.resign()
            return
        if may_follow_another(former_state, state):
            self.taking_over_until_ms = self._context.clock.monotonic_ms() + TAKING_OVER_MS
        if len(state.replicas) == 1:
            self.is_leader = True
            self.log.advance_high_watermark_to_end()
            self.leading = None
            if former is not None:  # the image removed its followers
                former.lose_followers()
                self.wake_all()
        else:
            self.is_leader = True
            now_ms = self._context.clock.monotonic_ms()
            if self.leading is None:
                self.deletions = self.deletions or Waiters()
                effects = Effects(self.wake_all, self.deletions.wake)
                self.leading = LeaderState(self.log, state, self._context, effects, now_ms, former)
            else:
                self.leading.follow(state, now_ms)

    def _stop_leading(self) -> None:
        was_leader, self.is_leader = self.is_leader, False
        self.leading = None
        if was_leader:
            self.log.epoch_file.forget_empty(self.log.log_end_offset)
            self.wake_all()
            self._context.lease_changed(self.topic_partition)

    def allow_leading(self, is_allowed: bool) -> None:
        """Ends the lease, or begins it again: without a lease this broker does not lead, whatever the image says."""
        if not is_allowed:
            leading = self.leading
            self._stop_leading()
            if leading is not None:
                leading.suspend()
                self.suspension = Suspension(leading)
        elif not self.is_leader:
            self._take_role(self.state)
            self._context.lease_changed(self.topic_partition)

    def check_leader(self) -> None:
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_leader_of(self, watch: FollowerWatch | None, leader_epoch: int, broker_epoch: int) -> None:
        """The same for a follower's fetch, which may let a suspended leader lead again later."""
        if self.suspension is not None and watch is not None and leader_epoch == self.state.leader_epoch:
            self.suspension.note_refusal(watch, broker_epoch, self._context.clock.monotonic_ms())
        self.check_leader()

    # -------------------------------------------------------------------------------------------- facts

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def is_online(self) -> bool:
        return self.log.offline_reason is None

    @property
    def directory(self) -> Path:
        """The data directory that the log lies in."""
        return self.log.directory.parent

    @property
    def may_wait(self) -> bool:
        """Whether an append may have to wait: for the check of its schemas, or for the disk before its
        acknowledgement.
        """
        return self.log.settings.may_wait

    # -------------------------------------------------------------------------------------------- appending

    def append(
        self,
        records: Buffer,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Costs 0.4 us beside the log's part where there is one replica. Bench: produce, and one record at a time."""
        _, replicas, isr, _, leader_epoch, _, _, _ = self.state
        log = self.log
        if not self.is_leader or (
            acks == ALL_REPLICAS
            and len(isr) < len(replicas)  # a full set is never below the minimum: spares the call, 0.1 us
            and is_below_minimum(len(isr), log.settings.min_insync_replicas, len(replicas))
        ):
            raise _refusal(self)
        if self.taking_over_until_ms is not None and origin is Origin.CLIENT:
            if self._context.clock.monotonic_ms() < self.taking_over_until_ms:
                check_first_batch(records, log)
            else:
                self.taking_over_until_ms = None
        result = log.append_as_leader(records, leader_epoch, now_ms, origin, transaction_version)
        if self.leading is None:
            log.advance_high_watermark_to_end()
            if self.waiters:
                self.notify(len(records))
        elif self.leading.appended(len(records)):
            self.leading.raise_high_watermark(self._context.clock.monotonic_ms())
        return result

    def append_end_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        is_commit: bool,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendResult:
        """Ends a transaction in this partition. Readers of committed records get the records behind it, so all readers
        look again.
        """
        self.check_leader()
        epoch, log = self.state.leader_epoch, self.log
        result = log.append_end_marker(
            producer_id, producer_epoch, coordinator_epoch, is_commit, epoch, now_ms, transaction_version
        )
        if self.leading is None:
            log.advance_high_watermark_to_end()
            self.wake_all()
        elif self.leading.appended(_MARKER_SIZE):
            self.leading.raise_high_watermark(self._context.clock.monotonic_ms())
        return result

    # -------------------------------------------------------------------------------------------- replication

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def is_replicated(self, end_offset: int) -> bool:
        """Whether a writer with acks=all need not wait for records below `end_offset`. With one replica no writer
        waits.
        """
        leading = self.leading
        return self.is_leader if leading is None else leading.judge(end_offset) is ErrorCode.NONE

    def wait_until_replicated(
        self, end_offset: int, timeout_ms: int, leader_epoch: int | None = None
    ) -> asyncio.Future[ErrorCode]:
        """NONE when the high watermark has reached `end_offset` and the in-sync set is large enough. Otherwise
        NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS_AFTER_APPEND or REQUEST_TIMED_OUT; the records may stay all the
        same. Costs about 3 us.

        With a `leader_epoch` the wait ends with that epoch, and with a suspension of this broker. Without one the wait
        outlasts both (`penstock.replication.acknowledgements` has the reasons).
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ErrorCode] = loop.create_future()
        leading = self.leading
        is_same_epoch = leader_epoch is None or leader_epoch == self.state.leader_epoch
        if not self.is_leader or not is_same_epoch:
            future.set_result(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif leading is None:
            future.set_result(ErrorCode.NONE)
        elif (code := leading.judge(end_offset)) is not None:
            future.set_result(code)
        else:
            waits = leading.acknowledgements
            timer = loop.call_later(max(timeout_ms, 0) / 1000, waits.expire, future)
            waits.add(end_offset, future, timer, ends_with_epoch=leader_epoch is not None)
        return future

    def notify(self, size: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.arrived(size)

    def wake_all(self) -> None:
        """The partition is going away, or was truncated: waiting requests must look again."""
        for waiter in tuple(self.waiters):
            waiter.wake()

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Clients send the leader epoch that they know (KIP-320); -1 means that they know none."""
        if current_leader_epoch == -1 or current_leader_epoch == self.state.leader_epoch:
            return
        if current_leader_epoch < self.state.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset). The leader's own epoch ends where the log ends, even if the leader has written nothing
        yet. An unreadable log has no end: otherwise a follower would truncate records that no other log has.
        """
        self.log.availability.check_online()
        epoch = self.state.leader_epoch
        if self.is_leader:
            if leader_epoch == epoch:
                return leader_epoch, self.log.log_end_offset
            if self.log.epochs.latest < leader_epoch < epoch:
                self.log.epoch_file.begin(
                    epoch, self.log.log_end_offset
                )  # the reader has an epoch that ended without records
        return self.log.epochs.end_offset_for(leader_epoch, self.log.log_end_offset)

    # -------------------------------------------------------------------------------------------- reading

    def offsets(self) -> tuple[int, int, int]:
        """(high watermark, last stable offset, log start offset), as in a fetch answer."""
        self.log.availability.check_online()
        return self.log.offsets()

    def readable_end(self, is_read_committed: bool) -> int:
        return self.log.last_stable_offset if is_read_committed else self.log.high_watermark

    def read(self, offset: int, max_bytes: int, end: int, *, at_least_one: bool) -> FileSlice | None:
        """The batches from the batch with `offset` on, up to `end`; at least one whole batch if requested."""
        return self.log.reader.read(offset, max_bytes, end, at_least_one=at_least_one)

    def earliest(self) -> tuple[int, int]:
        """(offset, leader epoch) of the log's start."""
        start = self.log.log_start_offset
        return start, self.log.epochs.epoch_for_offset(start)

    # -------------------------------------------------------------------------------------------- deleting

    def delete_records_before(self, offset: int | None) -> int:
        """Returns the offset at which the logs of all replicas will begin, or a later offset; None deletes everything
        that every reader may have seen. POLICY_VIOLATION where only compaction removes records.
        """
        if "delete" not in self.log.settings.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "records of a compacted topic cannot be deleted by offset")
        wanted = self.log.high_watermark if offset is None else offset
        self.log.delete_records_before(wanted)
        if self.leading is not None:
            self.leading.tell_followers()
        return wanted


def _refusal(partition: Partition) -> ApiError:
    if not partition.is_leader:
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return ApiError(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        f"{partition.topic_partition} has {len(partition.state.isr)} in-sync replicas, "
        f"min.insync.replicas is {partition.log.settings.min_insync_replicas}",
    )
