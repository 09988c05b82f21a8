"""The partitions of a coordinator's topic. A load reads them from the beginning, piece by piece, so that other work
gets its turns. A write splits records into batches that fit. No answer shows their content before the flush and the
replication.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from penstock.broker.partitions.durability_wait import Appended, Question, ask_followers, settle
from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.slices import Slices, Work
from penstock.core.clock import Clock
from penstock.log.partition_log import Origin
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.in_sync import ALL_REPLICAS

# The size of one read from disk. Slices take its records.
_PIECE_SIZE = 256 * 1024
# Records per batch where they may be split: a large clean-up then stays below any max.message.bytes.
_SPLIT_RECORDS = 1_000

RecordType = TypeVar("RecordType")

# Gets a piece of the log, which begins with the batch at the given offset and may end in the middle of a batch. The
# result is the end of the last whole batch.
TakePiece = Callable[[bytes, int], Work[int]]


class Owed(NamedTuple):
    """Partitions whose content no answer may show yet, and the questions to their followers."""

    partitions: list[Partition]
    questions: list[Question]


class CoordinatorLog:
    def __init__(self, topic: str, partitions: Partitions, flusher: Flusher, clock: Clock, slices: Slices) -> None:
        self.topic = topic
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._slices = slices

    def find(self, index: int) -> Partition | None:
        return self._partitions.find(self.topic, index)

    def is_led(self, index: int) -> bool:
        """Whether no other broker leads the partition right now, as each request asks. After a long pause the process
        leads by its image alone, until it has checked its leases.
        """
        partition = self._partitions.find(self.topic, index)
        if partition is None or not partition.is_leader:
            return False
        return partition.leading is None or self._partitions.context.is_sure(partition.topic_partition)

    def append(self, index: int, batch: bytes) -> int:
        """Returns the offset of the first record. ApiError if nothing was written."""
        partition = self._partitions.find(self.topic, index)
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition.append(batch, ALL_REPLICAS, self._clock.now_ms(), Origin.COORDINATOR).base_offset

    def end_offset(self, index: int) -> int:
        partition = self._partitions.find(self.topic, index)
        return 0 if partition is None else partition.log.log_end_offset

    # -------------------------------------------------------------------------------------------- durability

    def owing(self, indexes: Iterable[int]) -> list[Partition]:
        """The partitions whose logs hold records that may still be lost, whoever appended them, and the partitions that
        another broker may lead: no answer may show their content before they are settled.
        """
        return [partition for index in indexes if (partition := self.find_owing(index)) is not None]

    def find_owing(self, index: int) -> Partition | None:
        """The same for one partition, as each request asks it: 0.5 us, with followers 1.4 us. Bench: rebalance."""
        partition = self._partitions.find(self.topic, index)
        if partition is None or (
            partition.log.is_settled() and (partition.leading is None or self._partitions.context.is_session_sure())
        ):
            return None
        return partition

    def ask(self, partitions: list[Partition]) -> Owed:
        """Call in the turn of a read or an append: a follower's fetch of the appended records also answers the
        question.
        """
        return Owed(partitions, ask_followers(self._partitions.context, partitions))

    async def settle(self, owed: Owed, timeout_ms: int) -> dict[int, ErrorCode]:
        """Waits until the present content of the logs may go into answers. Returns the errors of partitions by index
        (`durability_wait`).
        """
        partitions, questions = owed
        errors = await settle(self._flusher, map(Appended.now, partitions), timeout_ms)
        for question in questions:
            if question.partition not in errors and not await question.is_confirmed():
                errors[question.partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return {partition.topic_partition.partition: code for partition, code in errors.items()}

    def wake(self, index: int) -> None:
        """The state of the partition is dropped: waits of this leadership end at once, and questions look whether it
        is over. A wait of the next epoch that has just begun ends, too; its writer repeats what it wrote.
        """
        partition = self._partitions.find(self.topic, index)
        if partition is None:
            return
        partition.wake_all()
        if partition.leading is not None:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER if partition.is_online else ErrorCode.KAFKA_STORAGE_ERROR
            partition.leading.acknowledgements.end_epoch(code)

    # -------------------------------------------------------------------------------------------- loading

    async def read_all(self, partition: Partition, take: TakePiece) -> bool:
        """Passes on the present content of the log; False when the topic was deleted meanwhile."""
        log = partition.log
        offset, end = log.log_start_offset, log.log_end_offset
        while offset < end:
            piece = log.reader.read(offset, _PIECE_SIZE, end, at_least_one=True)
            if piece is None or not len(piece):
                break
            offset = await self._slices.run(take(piece.read(0, len(piece)), offset))
            await asyncio.sleep(0)
            if self._partitions.find(*partition.topic_partition) is not partition:
                return False
        return True


def split_records(records: Sequence[RecordType], is_atomic: bool) -> Iterator[Sequence[RecordType]]:
    """Splits records into batches: one batch, where the records make sense only together."""
    if is_atomic:
        yield records
        return
    for start in range(0, len(records), _SPLIT_RECORDS):
        yield records[start : start + _SPLIT_RECORDS]
