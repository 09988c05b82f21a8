"""One partition this broker leads: its log, its place in the cluster, and who waits for it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penstock.broker.partitions.waiting import Waiter
from penstock.cluster.image import PartitionState
from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.core.log_settings import NO_LIMIT
from penstock.core.metrics.counters import TopicMetrics
from penstock.core.types import Buffer, TopicId, TopicPartition
from penstock.log.partition_log import AppendResult, Origin, PartitionLog
from penstock.log.reading.positions import TimestampedOffset
from penstock.log.state.producer_state import ProducerStateEntry
from penstock.log.state.transaction_index import AbortedTransaction
from penstock.log.storage.files import FileSlice
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.single_produce import AnswerTemplate
from penstock.replication.in_sync import can_append


class Partition:
    __slots__ = ("is_internal", "log", "metrics", "produce_answers", "state", "topic_id", "topic_partition", "waiters")

    def __init__(self, log: PartitionLog, topic_id: TopicId, state: PartitionState, metrics: TopicMetrics) -> None:
        self.log = log
        self.topic_partition: TopicPartition = log.topic_partition
        self.is_internal = log.topic_partition.topic in INTERNAL_TOPICS
        self.topic_id = topic_id
        self.state = state
        self.metrics = metrics
        self.waiters: set[Waiter] = set()
        self.produce_answers: dict[int, AnswerTemplate] = {}  # by version; made at the first use

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
    def size(self) -> int:
        return self.log.size

    @property
    def may_wait_for_flush(self) -> bool:
        """Whether an append may have to reach the disk before it is acknowledged."""
        return self.log.settings.flush_messages != NO_LIMIT

    # -------------------------------------------------------------------------------------------- appending

    def append(
        self,
        records: Buffer,
        acks: int,
        now_ms: int,
        origin: Origin = Origin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendResult:
        _, _, isr, _, leader_epoch, _, _, _ = self.state
        in_sync_count, log = len(isr), self.log
        if not can_append(in_sync_count, log.settings.min_insync_replicas, acks):
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition} has {in_sync_count} in-sync replicas, "
                f"min.insync.replicas is {log.settings.min_insync_replicas}",
            )
        result = log.append_as_leader(records, leader_epoch, now_ms, origin, transaction_version)
        if in_sync_count == 1:
            log.advance_high_watermark_to_end()
            if self.waiters:
                self.notify(len(records))
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
        """Ends a transaction here. Readers of committed records get what waited for it, so all of them look again."""
        state, log = self.state, self.log
        result = log.append_end_marker(
            producer_id, producer_epoch, coordinator_epoch, is_commit, state.leader_epoch, now_ms, transaction_version
        )
        if len(state.isr) == 1:
            log.advance_high_watermark_to_end()
            self.wake_all()
        return result

    def notify(self, size: int) -> None:
        for waiter in tuple(self.waiters):
            waiter.arrived(size)

    def wake_all(self) -> None:
        """The partition is going away, or was cut: whoever waits must look again."""
        for waiter in tuple(self.waiters):
            waiter.wake()

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Clients say which epoch they believe in (KIP-320); -1 means they do not know one."""
        if current_leader_epoch == -1 or current_leader_epoch == self.state.leader_epoch:
            return
        if current_leader_epoch < self.state.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset). The leader's own epoch ends where the log ends, even if it has written nothing yet."""
        if leader_epoch == self.state.leader_epoch:
            return leader_epoch, self.log.log_end_offset
        return self.log.epochs.end_offset_for(leader_epoch, self.log.log_end_offset)

    # -------------------------------------------------------------------------------------------- reading

    def offsets(self) -> tuple[int, int, int]:
        """(high watermark, last stable offset, log start offset), as a fetch tells them."""
        return self.log.offsets()

    def readable_end(self, is_read_committed: bool) -> int:
        return self.log.last_stable_offset if is_read_committed else self.log.high_watermark

    def read(self, offset: int, max_bytes: int, end: int, *, at_least_one: bool) -> FileSlice | None:
        """The batches from the one with `offset` on, up to `end`; at least one whole batch if asked for."""
        return self.log.reader.read(offset, max_bytes, end, at_least_one=at_least_one)

    def aborted_transactions_in(self, offset: int, records: FileSlice) -> Iterable[AbortedTransaction]:
        return self.log.reader.aborted_transactions_in(offset, records)

    def earliest(self) -> tuple[int, int]:
        """(offset, leader epoch) of where the log begins."""
        start = self.log.log_start_offset
        return start, self.log.epochs.epoch_for_offset(start)

    def find_by_timestamp(self, timestamp: int) -> TimestampedOffset | None:
        return self.log.reader.find_by_timestamp(timestamp)

    def find_max_timestamp(self) -> TimestampedOffset | None:
        return self.log.reader.find_max_timestamp()

    # -------------------------------------------------------------------------------------------- deleting

    def delete_records_before(self, offset: int | None) -> int:
        """The new start of the log; None deletes everything that every reader may have seen. POLICY_VIOLATION where
        records go by compaction alone.
        """
        if "delete" not in self.log.settings.cleanup_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION, "records of a compacted topic cannot be deleted by offset")
        return self.log.delete_records_before(self.log.high_watermark if offset is None else offset)

    # -------------------------------------------------------------------------------------------- producers

    def active_producers(self) -> Iterable[ProducerStateEntry]:
        return self.log.producers.active()

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        return self.log.producers.has_open_transaction(producer_id, producer_epoch)
