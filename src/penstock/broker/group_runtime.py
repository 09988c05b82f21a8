"""Runs the group coordinator: appends its records, replays them, then releases its replies; sets its timers; loads it
from the log.

The coordinator decides and this does. Operation, append and replay happen in one turn of the event loop, so no other
operation can see a state between them. Only the release of replies may wait, for the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from penstock.broker.flusher import Flusher
from penstock.broker.partition import Partition
from penstock.broker.partitions import Partitions
from penstock.cluster.internal_topics import CONSUMER_OFFSETS
from penstock.core.clock import Clock
from penstock.core.metrics import GroupMetrics
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.outcome import AppendPurpose, GroupRecord, Outcome, Reply, TimerKey, TimerKind
from penstock.groups.requests import DeletedTopic
from penstock.log.partition_log import Origin
from penstock.protocol.batch import HEADER_SIZE, is_crc_valid, read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import Record, build_batch, iterate_records

logger = logging.getLogger("penstock.broker.groups")

T = TypeVar("T")

# One turn of the loop while loading: long enough to be efficient, short enough that other clients do not notice.
_LOAD_PIECE_SIZE = 256 * 1024
# Records per batch where an outcome may be split: a clean-up of a large group then stays below any max.message.bytes.
_SPLIT_RECORDS = 1_000
_OFFSET_KEY = b"\0\1"  # the version that keys of committed offsets begin with


class Ticket:
    """A request's claim on a reply that may come at once or much later."""

    __slots__ = ("future", "result")

    def __init__(self) -> None:
        self.result: Any = None
        self.future: asyncio.Future[Any] | None = None

    def release(self, result: object) -> None:
        if self.future is None:
            self.result = result
        elif not self.future.done():  # the client may be gone
            self.future.set_result(result)


class GroupRuntime:
    def __init__(
        self,
        coordinator: GroupCoordinator,
        partitions: Partitions,
        flusher: Flusher,
        clock: Clock,
        metrics: GroupMetrics,
    ) -> None:
        self.coordinator = coordinator
        self.metrics = metrics
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._timers: dict[TimerKey, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def submit(self, operation: Callable[[Ticket], Outcome]) -> Any:
        """Performs one operation of the coordinator and returns its reply, at once or when the coordinator
        releases it.
        """
        ticket = Ticket()
        self._perform(operation(ticket))
        if ticket.result is None:
            ticket.future = asyncio.get_running_loop().create_future()
            return await ticket.future
        return ticket.result

    # -------------------------------------------------------------------------------------------- outcomes

    def _perform(self, outcome: Outcome) -> None:
        must_flush = None
        if outcome.records:
            try:
                must_flush = self._append(outcome)
            except ApiError as error:
                logger.error("writing group state failed: %s", error, extra={"partition": outcome.partition})
                self._set_timers(outcome)
                self._perform(self.coordinator.on_append_failed(outcome, error.code, self._clock.now_ms()))
                return
            except BaseException:  # a bug; without this the coordinator would wait for these records for ever
                code = ErrorCode.UNKNOWN_SERVER_ERROR
                self._perform(self.coordinator.on_append_failed(outcome, code, self._clock.now_ms()))
                raise
            self._count(outcome)
        self._set_timers(outcome)
        if must_flush is None:
            _release(outcome.replies)
        else:
            self._start(self._release_when_durable(outcome, must_flush))

    def _append(self, outcome: Outcome) -> Partition | None:
        """The partition, if the replies have to wait for its fsync."""
        partition = self._partitions.find(CONSUMER_OFFSETS, outcome.partition)
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        must_flush = False
        for records in _split(outcome):
            now_ms = self._clock.now_ms()
            batch = build_batch([Record(record.key, record.value, timestamp=now_ms) for record in records])
            result = partition.append(batch, -1, now_ms, Origin.COORDINATOR)
            must_flush = must_flush or result.must_flush
            for index, record in enumerate(records):
                self.coordinator.replay(outcome.partition, record.key, record.value, result.base_offset + index)
        return partition if must_flush else None

    def _count(self, outcome: Outcome) -> None:
        if outcome.pending is not None and outcome.pending.purpose is AppendPurpose.STORE_ASSIGNMENT:
            self.metrics.completed_rebalances += 1

    async def _release_when_durable(self, outcome: Outcome, partition: Partition) -> None:
        failed = await self._flusher.flush([partition])
        _release(outcome.failed_replies(ErrorCode.KAFKA_STORAGE_ERROR) if failed else outcome.replies)

    def _set_timers(self, outcome: Outcome) -> None:
        loop = asyncio.get_running_loop()
        for key, delay_ms in outcome.timers:
            earlier = self._timers.pop(key, None)
            if earlier is not None:
                earlier.cancel()
            if delay_ms is not None:
                self._timers[key] = loop.call_later(delay_ms / 1000, self._on_timer, key)

    def _on_timer(self, key: TimerKey) -> None:
        self._timers.pop(key, None)
        if key.kind is TimerKind.SESSION:
            self.metrics.sessions_expired += 1
        self._perform(self.coordinator.on_timer(key, self._clock.now_ms()))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -------------------------------------------------------------------------------------------- loading

    def load(self, count: int) -> None:
        """All partitions of the topic: clients are told to wait until theirs is loaded."""
        self.coordinator.partition_count = count
        partitions = [
            found for index in range(count) if (found := self._partitions.find(CONSUMER_OFFSETS, index)) is not None
        ]
        for partition in partitions:
            self.coordinator.begin_loading(partition.topic_partition.partition)
        empty = [
            partition for partition in partitions if partition.log.log_end_offset == partition.log.log_start_offset
        ]
        for partition in empty:
            self._finish_loading(partition)
        filled = [partition for partition in partitions if partition not in empty]
        if filled:
            self._start(self._load_all(filled))

    def _finish_loading(self, partition: Partition) -> None:
        self._perform(self.coordinator.finish_loading(partition.topic_partition.partition, self._clock.now_ms()))

    async def _load_all(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            try:
                await self._load(partition)
            except (ApiError, OSError, ValueError) as error:
                # Its groups stay unavailable: serving them without their state would lose offsets.
                logger.error("groups of %s cannot be loaded: %s", partition.topic_partition, error)
                self._perform(self.coordinator.unload(partition.topic_partition.partition, self._clock.now_ms()))

    async def _load(self, partition: Partition) -> None:
        log = partition.log
        offset, end = log.log_start_offset, log.log_end_offset
        index = partition.topic_partition.partition
        while offset < end:
            found = log.read(offset, _LOAD_PIECE_SIZE, end, at_least_one=True)
            if found is None or not len(found):
                break
            offset = self._replay(index, found.read(0, len(found)), offset)
            await asyncio.sleep(0)
            if self._partitions.find(CONSUMER_OFFSETS, index) is not partition:
                return  # the topic was deleted meanwhile
        self._finish_loading(partition)

    def _replay(self, index: int, data: bytes, offset: int) -> int:
        """The offset after the last whole batch of `data`, which may end in the middle of one."""
        position = 0
        while len(data) - position >= HEADER_SIZE:
            header = read_header(data, position)
            if position + header.size > len(data):
                break
            if not is_crc_valid(data, position, header):
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is damaged")
            if not header.is_control:
                self._replay_batch(index, data[position : position + header.size])
            position += header.size
            offset = header.next_offset
        return offset

    def _replay_batch(self, index: int, batch: bytes) -> None:
        for record in iterate_records(batch):
            if record.key is not None:
                self.coordinator.replay(index, record.key, record.value, record.offset)

    # -------------------------------------------------------------------------------------------- upkeep

    def expire_offsets(self) -> None:
        for partition in self.coordinator.active_partitions():
            outcome = self.coordinator.expire_offsets(partition, self._clock.now_ms())
            self.metrics.offset_expirations += _count_offsets(outcome)
            self._perform(outcome)

    def remove_topics(self, topics: Sequence[DeletedTopic]) -> None:
        for partition in self.coordinator.active_partitions():
            outcome = self.coordinator.remove_topics(partition, topics)
            self.metrics.offset_deletions += _count_offsets(outcome)
            self._perform(outcome)

    def unload(self, count: int) -> None:
        for partition in range(count):
            self._perform(self.coordinator.unload(partition, self._clock.now_ms()))

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _release(replies: Iterable[Reply]) -> None:
    for token, result in replies:
        assert isinstance(token, Ticket)
        token.release(result)


def _count_offsets(outcome: Outcome) -> int:
    """Tombstones of offsets; a clean-up may write those of groups, too."""
    return sum(record.key.startswith(_OFFSET_KEY) for record in outcome.records)


def _split(outcome: Outcome) -> Iterable[list[GroupRecord]]:
    if outcome.is_atomic:
        yield outcome.records
        return
    for start in range(0, len(outcome.records), _SPLIT_RECORDS):
        yield outcome.records[start : start + _SPLIT_RECORDS]
