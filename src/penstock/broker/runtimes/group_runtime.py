"""Runs the group coordinator: appends its records, replays them, then releases its replies; sets its timers; loads it
from the log.

The coordinator decides and this does. Operation, append and replay happen in one turn of the event loop, so no other
operation can see a state between them. Only the release of answers may wait, for the disk: later operations and
reads see what was replayed, so their answers wait as well while the log owes an fsync (flush.messages).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.coordinator_log import replay_log, split_records
from penstock.broker.runtimes.coordinator_timers import CoordinatorTimers
from penstock.broker.runtimes.tickets import Ticket, release_all
from penstock.cluster.image import TopicImage
from penstock.core.clock import Clock
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.metrics.counters import GroupMetrics
from penstock.core.types import NO_PRODUCER_ID
from penstock.groups.classic.group import GroupState
from penstock.groups.consumer.group import ConsumerProgress
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.outcome import AppendPurpose, GroupRecord, Outcome, TimerKey, TimerKind
from penstock.groups.requests import DeletedTopic
from penstock.groups.topics import Topic, Topics
from penstock.log.partition_log import Origin
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import CONTROL_COMMIT, Record, build_batch, decode_end_marker, iterate_records

logger = logging.getLogger("penstock.broker.groups")

_OFFSET_KEY = b"\0\1"  # the version that keys of committed offsets begin with


R = TypeVar("R")


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
        self._timers = CoordinatorTimers(self._on_timer)
        self._tasks: set[asyncio.Task[None]] = set()

    async def read(self, group_ids: Iterable[str], look: Callable[[], R]) -> R:
        """What `look` finds in these groups, once the disk has what it found. `look` is called again, and finds
        that the groups are not here, if the disk fails.
        """
        result = look()
        owing = {
            partition
            for group_id in group_ids
            if (partition := self._owing(self.coordinator.partition_for(group_id))) is not None
        }
        failed = await self._flusher.flush(list(owing)) if owing else ()
        for partition in failed:
            self._unload(partition.topic_partition.partition)
        return look() if failed else result

    async def submit(self, operation: Callable[[Ticket], Outcome]) -> Any:
        """Performs one operation of the coordinator and returns its reply, at once or when the coordinator
        releases it.
        """
        ticket = Ticket()
        self._perform(operation(ticket))
        return await ticket.wait()

    # -------------------------------------------------------------------------------------------- outcomes

    def _perform(self, outcome: Outcome) -> None:
        before = self._progress(outcome)
        if outcome.records:
            try:
                self._append(outcome)
            except ApiError as error:
                logger.error("writing group state failed: %s", error, extra={"partition": outcome.partition})
                self._timers.apply(outcome.timers)
                self._perform(self.coordinator.on_append_failed(outcome, error.code, self._clock.now_ms()))
                return
            except BaseException:  # a bug; without this the coordinator would wait for these records for ever
                code = ErrorCode.UNKNOWN_SERVER_ERROR
                self._perform(self.coordinator.on_append_failed(outcome, code, self._clock.now_ms()))
                raise
            self._count(outcome, before)
        self._timers.apply(outcome.timers)
        if outcome.replies:
            owing = self._owing(outcome.partition)
            if owing is None:
                release_all(outcome.replies)
            else:
                self._start(self._release_when_durable(outcome, owing))

    def _owing(self, index: int) -> Partition | None:
        """The partition, if its log has more than flush.messages allows to be lost: nobody may learn of it yet."""
        partition = self._partitions.find(CONSUMER_OFFSETS, index)
        if partition is None:
            return None
        log = partition.log
        return partition if log.log_end_offset - log.recovery_point >= log.settings.flush_messages else None

    def _append(self, outcome: Outcome) -> None:
        """Takes what is in the log out of `outcome.records`, so that after an error only what is missing is there."""
        partition = self._partitions.find(CONSUMER_OFFSETS, outcome.partition)
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        producer_id = NO_PRODUCER_ID if outcome.producer is None else outcome.producer.producer_id
        written = 0
        try:
            for records in split_records(outcome.records, outcome.is_atomic):
                now_ms = self._clock.now_ms()
                result = partition.append(_batch(outcome, records, now_ms), -1, now_ms, Origin.COORDINATOR)
                for index, record in enumerate(records):
                    offset = result.base_offset + index
                    self.coordinator.replay(outcome.partition, record.key, record.value, offset, producer_id)
                written += len(records)
        finally:
            outcome.records = outcome.records[written:]

    def _progress(self, outcome: Outcome) -> ConsumerProgress | None:
        pending = outcome.pending
        if pending is None or pending.purpose is not AppendPurpose.CHANGE_CONSUMER_GROUP:
            return None
        return self.coordinator.consumer_progress(outcome.partition, pending.group_id)

    def _count(self, outcome: Outcome, before: ConsumerProgress | None) -> None:
        if outcome.pending is not None and outcome.pending.purpose is AppendPurpose.STORE_ASSIGNMENT:
            self.metrics.completed_rebalances += 1
        after = self._progress(outcome)
        if after is not None and after != before:
            self.metrics.consumer_rebalances += before is None or after.epoch > before.epoch
            self.metrics.completed_rebalances += after.state is GroupState.STABLE

    async def _release_when_durable(self, outcome: Outcome, partition: Partition) -> None:
        if await self._flusher.flush([partition]):
            # The log is offline now. What was replayed may be lost, so nobody is told of it; the next start finds out.
            release_all(outcome.failed_replies(ErrorCode.KAFKA_STORAGE_ERROR))
            self._unload(outcome.partition)
        else:
            release_all(outcome.replies)

    def _on_timer(self, key: TimerKey) -> None:
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
                self._unload(partition.topic_partition.partition)

    async def _load(self, partition: Partition) -> None:
        index = partition.topic_partition.partition
        if await replay_log(
            partition,
            lambda header, batch: self._replay_batch(index, header, batch),
            lambda: self._partitions.find(CONSUMER_OFFSETS, index) is partition,
        ):
            self._finish_loading(partition)

    def _replay_batch(self, index: int, header: BatchHeader, batch: bytes) -> None:
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in iterate_records(batch):
            if header.is_control:
                marker = decode_end_marker(record)
                if marker is not None:
                    self.end_transaction(index, producer_id, marker.control_type == CONTROL_COMMIT)
            elif record.key is not None:
                self.coordinator.replay(index, record.key, record.value, record.offset, producer_id)

    def end_transaction(self, partition: int, producer_id: int, is_committed: bool) -> None:
        """The log of `partition` has a marker: offsets that waited for it count from now on, or never."""
        self.coordinator.replay_transaction_end(partition, producer_id, is_committed)

    # -------------------------------------------------------------------------------------------- upkeep

    def topics_changed(self, topics: Iterable[TopicImage]) -> None:
        known = (Topic(topic.name, topic.topic_id, len(topic.partitions)) for topic in topics)
        version = self.coordinator.topics.version + 1
        self.coordinator.on_topics_changed(Topics.of(known, version))

    def expire_offsets(self) -> None:
        for partition in self.coordinator.active_partitions():
            outcome = self.coordinator.expire_offsets(partition, self._clock.now_ms())
            self.metrics.offset_expirations += self._clean_up(outcome)

    def remove_topics(self, topics: Sequence[DeletedTopic]) -> None:
        for partition in self.coordinator.active_partitions():
            outcome = self.coordinator.remove_topics(partition, topics)
            self.metrics.offset_deletions += self._clean_up(outcome)

    def _clean_up(self, outcome: Outcome) -> int:
        """How many offsets are gone: all of those asked for, unless the log took only some of the tombstones."""
        count = _count_offsets(outcome)
        self._perform(outcome)
        return count - _count_offsets(outcome)

    def unload(self, count: int) -> None:
        for partition in range(count):
            self._unload(partition)

    def _unload(self, partition: int) -> None:
        self._perform(self.coordinator.unload(partition, self._clock.now_ms()))

    async def close(self) -> None:
        self._timers.cancel_all()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _batch(outcome: Outcome, records: Sequence[GroupRecord], now_ms: int) -> bytes:
    content = [Record(record.key, record.value, timestamp=now_ms) for record in records]
    if outcome.producer is None:
        return build_batch(content)
    # Sequence 0 in every batch, as Kafka writes it: nobody retries these, so nobody compares them.
    return build_batch(content, **outcome.producer._asdict(), base_sequence=0, is_transactional=True)


def _count_offsets(outcome: Outcome) -> int:
    """Tombstones of offsets; a clean-up may write those of groups, too."""
    return sum(record.key.startswith(_OFFSET_KEY) for record in outcome.records)
