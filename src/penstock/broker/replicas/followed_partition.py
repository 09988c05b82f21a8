"""A partition that this broker follows, at one leader epoch: its next fetch, and the effect of an answer on the log.

Rules:
- A fetch asks for the end of the follower's log and carries the epoch of its last record. Where the leader's log
  diverges, the follower truncates its log, and fetches again. Only an answer that does not diverge raises the high
  watermark (KAFKA-14704).
- The high watermark is the leader's, up to the end of the follower's log. The follower's log begins where the leader's
  log begins.
- Where the leader no longer has the next offset, the follower's log starts over at the start of the leader's log. Where
  the leader's log ends earlier, the follower truncates its log there.
- A failed disk takes this partition away, and no other.

A truncation blocks the loop for some milliseconds, since it cuts a file, syncs epochs, and replays the batches between
the last mark of the producers' state and the cut (`penstock.log.state.producer_marks`); a thread removes the segments
behind the cut. A truncation happens after an election at most, and each has a turn of the loop of its own.
"""

from __future__ import annotations

import enum
import logging

from penstock.broker.partitions.partition import Partition
from penstock.core.types import TopicId
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.fetch import EpochEndOffset, FetchPartition, PartitionData
from penstock.replication.truncation import EpochEnd, decide_truncation

logger = logging.getLogger("penstock.broker.replicas")

# (topic id, partition)
FollowedKey = tuple[TopicId, int]


class FollowerFetchOutcome(enum.Enum):
    TAKEN = "taken"
    CUT = "the log was cut, and is fetched again"
    TO_FLUSH = "taken, and must be on the disk before the leader hears of it"
    OUT_OF_RANGE = "the leader does not have the offset"
    LATER = "try again later"
    LOST = "the disk has failed"


class Followed:
    __slots__ = ("failure_count", "is_behind", "is_delayed", "lag", "leader_epoch", "partition", "sent")

    def __init__(self, partition: Partition, leader_epoch: int) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.failure_count = 0  # since the last accepted answer
        self.is_delayed = False  # not fetched until its time has come
        # The last answer did not reach the leader's high watermark, or the follower does not know it yet.
        self.is_behind = True
        self.lag = 0  # offsets to the leader's high watermark, at the last answer
        # The last position that the leader got: see `position`.
        self.sent: tuple[int, int, int, int] | None = None

    @property
    def key(self) -> FollowedKey:
        return self.partition.topic_id, self.partition.topic_partition.partition

    @property
    def position(self) -> tuple[int, int, int, int]:
        """(next offset, epoch of the last record, log start, high watermark)."""
        log = self.partition.log
        return log.log_end_offset, log.epochs.latest, log.log_start_offset, log.high_watermark

    def ask(self, max_bytes: int) -> FetchPartition:
        self.sent = offset, epoch, log_start, high_watermark = self.position
        return FetchPartition(
            partition=self.partition.topic_partition.partition,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=offset,
            last_fetched_epoch=epoch,
            log_start_offset=log_start,
            partition_max_bytes=max_bytes,
            high_watermark=high_watermark,
        )

    def take(self, data: PartitionData, now_ms: int) -> FollowerFetchOutcome:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return FollowerFetchOutcome.OUT_OF_RANGE
        if data.error_code:
            return FollowerFetchOutcome.LATER
        try:
            if data.diverging_epoch is not None:
                self._cut(data.diverging_epoch, now_ms)
                return FollowerFetchOutcome.CUT
            return self._append(data, now_ms)
        except ApiError as error:
            return self._judge(error)

    def _append(self, data: PartitionData, now_ms: int) -> FollowerFetchOutcome:
        partition, must_flush = self.partition, False
        log, records = partition.log, data.records
        if records is not None and len(records):
            assert isinstance(records, bytes | bytearray | memoryview)
            must_flush = log.append_as_follower(records, now_ms).must_flush
        self.lag = max(data.high_watermark - log.log_end_offset, 0)
        self.is_behind = self.lag > 0
        before = log.high_watermark
        log.advance_high_watermark(data.high_watermark)
        self._follow_log_start(data.log_start_offset)
        if partition.waiters and log.high_watermark != before:
            partition.wake_all()
        return FollowerFetchOutcome.TO_FLUSH if must_flush else FollowerFetchOutcome.TAKEN

    def _follow_log_start(self, leaders: int) -> None:
        log = self.partition.log
        offset = min(leaders, log.high_watermark)
        if offset > log.log_start_offset:
            log.delete_records_before(offset)

    def _cut(self, diverging: EpochEndOffset, now_ms: int) -> None:
        log = self.partition.log
        leaders = EpochEnd(diverging.epoch, diverging.end_offset)
        own = EpochEnd(*log.epochs.end_offset_for(leaders.epoch, log.log_end_offset))
        self.cut_to(decide_truncation(leaders, own, log.log_end_offset), now_ms)

    def cut_to(self, offset: int, now_ms: int) -> None:
        log, name = self.partition.log, self.partition.topic_partition
        if offset < log.high_watermark:
            logger.warning(
                "%s is cut to %d, below its high watermark %d: its leader does not have these records",
                name,
                offset,
                log.high_watermark,
            )
        logger.debug("%s is cut from %d to %d", name, log.log_end_offset, offset)
        log.truncate_to(offset, now_ms)

    def take_bounds(self, leaders_start: int, leaders_end: int, now_ms: int) -> FollowerFetchOutcome:
        """After OUT_OF_RANGE: takes the start and the end of the leader's log."""
        log = self.partition.log
        try:
            if leaders_end < log.log_end_offset:
                self.cut_to(leaders_end, now_ms)
            elif leaders_start > log.log_end_offset:
                logger.debug("%s starts over at %d", self.partition.topic_partition, leaders_start)
                log.start_over(leaders_start, now_ms)
            else:
                return FollowerFetchOutcome.LATER  # the leader's log has changed meanwhile
        except ApiError as error:
            return self._judge(error)
        return FollowerFetchOutcome.CUT

    def _judge(self, error: ApiError) -> FollowerFetchOutcome:
        """A process without descriptors fails with the same code as a disk, and leaves the log online."""
        logger.error("%s cannot follow: %s", self.partition.topic_partition, error.message)
        return FollowerFetchOutcome.LATER if self.partition.log.offline_reason is None else FollowerFetchOutcome.LOST
