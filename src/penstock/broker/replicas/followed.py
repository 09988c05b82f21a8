"""One partition that this broker follows, at one leader epoch: what to ask for, and what an answer does to the log.

Rules:
- A fetch asks for the end of the own log and says the epoch of its last record. Where the leader's log diverges, the
  own log is cut first, and fetched again. Only an answer that does not diverge raises the high watermark (KAFKA-14704).
- The high watermark is the leader's, up to the end of the own log. The log begins where the leader's log begins.
- The next offset that the leader no longer has: the log starts over where the leader's begins. A leader whose log ends
  before: the log is cut there.
- A disk that fails takes this partition away, and no other.

Cutting a log blocks the loop for some milliseconds, since a file is cut and epochs are synced, and the batches between
the last mark of the producers' state and the cut are replayed (`penstock.log.state.producer_marks`); a thread removes
the segments that go. It happens after an election at most, and each cut has a turn of the loop of its own.
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


class Answer(enum.Enum):
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
        self.failure_count = 0  # since the last answer that was taken
        self.is_delayed = False  # not fetched until its time has come
        self.is_behind = True  # the leader's high watermark was not reached by the last answer, or is not known yet
        self.lag = 0  # offsets to the leader's high watermark, at the last answer
        # What the leader was told last: see `position`.
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

    def take(self, data: PartitionData, now_ms: int) -> Answer:
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return Answer.OUT_OF_RANGE
        if data.error_code:
            return Answer.LATER
        try:
            if data.diverging_epoch is not None:
                self._cut(data.diverging_epoch, now_ms)
                return Answer.CUT
            return self._append(data, now_ms)
        except ApiError as error:
            return self._judge(error)

    def _append(self, data: PartitionData, now_ms: int) -> Answer:
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
        return Answer.TO_FLUSH if must_flush else Answer.TAKEN

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

    def take_bounds(self, leaders_start: int, leaders_end: int, now_ms: int) -> Answer:
        """After OUT_OF_RANGE: where the leader's log begins and ends."""
        log = self.partition.log
        try:
            if leaders_end < log.log_end_offset:
                self.cut_to(leaders_end, now_ms)
            elif leaders_start > log.log_end_offset:
                logger.debug("%s starts over at %d", self.partition.topic_partition, leaders_start)
                log.start_over(leaders_start, now_ms)
            else:
                return Answer.LATER  # the leader's log has changed meanwhile
        except ApiError as error:
            return self._judge(error)
        return Answer.CUT

    def _judge(self, error: ApiError) -> Answer:
        """A process without descriptors fails with the same code as a disk, and leaves the log online."""
        logger.error("%s cannot follow: %s", self.partition.topic_partition, error.message)
        return Answer.LATER if self.partition.log.offline_reason is None else Answer.LOST
