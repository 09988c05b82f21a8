"""Runs the transaction coordinator: appends its records, replays them, then releases its replies and writes the
markers it decided on; sets its timers; loads it from the log.

As with groups, operation, append and replay happen in one turn of the event loop. What follows from a decision, the
reply and the markers, waits until the decision is durable. Markers that cannot be written are tried again until they
are, or until the coordinator's partition is no longer ours.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from penstock.broker.partitions.flusher import Flusher
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.coordinator_log import replay_log, split_records
from penstock.broker.runtimes.coordinator_timers import CoordinatorTimers
from penstock.broker.runtimes.tickets import Ticket, release_all
from penstock.broker.runtimes.transaction_markers import MarkerWriter, WrittenMarkers
from penstock.core.clock import Clock
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.log.partition_log import Origin
from penstock.protocol.batch import BatchHeader
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.records import Record, build_batch, iterate_records
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.outcome import Markers, Outcome, TimerKey

logger = logging.getLogger("penstock.broker.transactions")

# A partition that does not take its marker is mostly one that comes back with its disk or after a restart: soon at
# first, then rarely enough not to matter.
_FIRST_RETRY_MS = 100
_LAST_RETRY_MS = 5_000


class TransactionRuntime:
    def __init__(
        self,
        coordinator: TransactionCoordinator,
        partitions: Partitions,
        markers: MarkerWriter,
        flusher: Flusher,
        clock: Clock,
    ) -> None:
        self.coordinator = coordinator
        self.markers = markers
        self._partitions = partitions
        self._flusher = flusher
        self._clock = clock
        self._timers = CoordinatorTimers(self._on_timer)
        self._retries: dict[Markers, asyncio.TimerHandle] = {}
        self._flushing: Counter[int] = Counter()  # by partition: outcomes that wait for the disk
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, operation: Callable[[Ticket], Outcome]) -> Ticket:
        """Performs one operation of the coordinator; its reply is mostly there when this returns."""
        ticket = Ticket()
        self._perform(operation(ticket))
        return ticket

    async def submit(self, operation: Callable[[Ticket], Outcome]) -> Any:
        return await self.start(operation).wait()

    @property
    def waiting_markers(self) -> int:
        """Partitions that have not taken their marker yet."""
        return sum(len(markers.partitions) for markers in self._retries)

    # -------------------------------------------------------------------------------------------- outcomes

    def _perform(self, outcome: Outcome) -> None:
        must_flush = outcome.partition in self._flushing
        if outcome.records:
            try:
                must_flush = self._append(outcome) or must_flush
            except ApiError as error:
                logger.error("writing transaction state failed: %s", error, extra={"partition": outcome.partition})
                self._timers.apply(outcome.timers)
                self._perform(self.coordinator.on_append_failed(outcome, error.code))
                return
            except BaseException:  # a bug; without this the coordinator would wait for these records for ever
                self._perform(self.coordinator.on_append_failed(outcome, ErrorCode.UNKNOWN_SERVER_ERROR))
                raise
        self._timers.apply(outcome.timers)
        if must_flush and (outcome.replies or outcome.markers):
            self._flushing[outcome.partition] += 1
            self._begin(self._follow_when_durable(outcome))
        else:
            self._follow(outcome)

    def _append(self, outcome: Outcome) -> bool:
        """Whether replies and markers have to wait for an fsync."""
        partition = self._partitions.find(TRANSACTION_STATE, outcome.partition)
        if partition is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        must_flush = False
        for records in split_records(outcome.records, outcome.is_atomic):
            now_ms = self._clock.now_ms()
            batch = build_batch([Record(record.key, record.value, timestamp=now_ms) for record in records])
            must_flush = partition.append(batch, -1, now_ms, Origin.COORDINATOR).must_flush or must_flush
            for record in records:
                self.coordinator.replay(outcome.partition, record.key, record.value)
        return must_flush

    async def _follow_when_durable(self, outcome: Outcome) -> None:
        partition = self._partitions.find(TRANSACTION_STATE, outcome.partition)
        try:
            failed = partition is None or await self._flusher.flush([partition])
        finally:
            self._flushing[outcome.partition] -= 1
            self._flushing += Counter()  # drops those at zero
        if failed:
            # The log is offline now: nobody learns of a decision that may be lost, neither now nor by asking again. The
            # next start finds out.
            release_all(outcome.failed_replies(ErrorCode.KAFKA_STORAGE_ERROR))
            self._perform(self.coordinator.unload(outcome.partition))
        else:
            self._follow(outcome)

    def _follow(self, outcome: Outcome) -> None:
        release_all(outcome.replies)
        for markers in outcome.markers:
            self._write_markers(markers, _FIRST_RETRY_MS)

    def _on_timer(self, key: TimerKey) -> None:
        self._perform(self.coordinator.on_timer(key, self._clock.now_ms()))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -------------------------------------------------------------------------------------------- markers

    def _write_markers(self, markers: Markers, retry_ms: int) -> None:
        written = self.markers.write(markers)
        if written.left:
            left = markers._replace(partitions=tuple(written.left))
            loop = asyncio.get_running_loop()
            self._retries[left] = loop.call_later(retry_ms / 1000, self._retry, left, min(retry_ms * 2, _LAST_RETRY_MS))
        if written.to_flush:
            self._begin(self._report_when_durable(markers, written, retry_ms))
        elif written.done or not markers.partitions:
            self._report(markers, written.done)

    def _retry(self, markers: Markers, retry_ms: int) -> None:
        if self._retries.pop(markers, None) is not None:
            self._write_markers(markers, retry_ms)

    async def _report_when_durable(self, markers: Markers, written: WrittenMarkers, retry_ms: int) -> None:
        """The transaction must not count as complete while a power cut could still take a marker away."""
        failed = {partition.topic_partition for partition in await self._flusher.flush(written.to_flush)}
        done = [where for where in written.done if where not in failed]
        if done:
            self._report(markers, done)
        if failed:
            self._write_markers(markers._replace(partitions=tuple(sorted(failed))), retry_ms)

    def _report(self, markers: Markers, done: list[TopicPartition]) -> None:
        reported = markers._replace(partitions=tuple(done))
        self._perform(self.coordinator.on_markers_written(reported, self._clock.now_ms()))

    # -------------------------------------------------------------------------------------------- loading

    def load(self, count: int) -> None:
        """All partitions of the topic: clients are told to wait until theirs is loaded."""
        self.coordinator.partition_count = count
        partitions = [
            found for index in range(count) if (found := self._partitions.find(TRANSACTION_STATE, index)) is not None
        ]
        for partition in partitions:
            self.coordinator.begin_loading(partition.topic_partition.partition, partition.state.leader_epoch)
        filled = [
            partition for partition in partitions if partition.log.log_end_offset > partition.log.log_start_offset
        ]
        for partition in partitions:
            if partition not in filled:
                self._finish_loading(partition)
        if filled:
            self._begin(self._load_all(filled))

    def _finish_loading(self, partition: Partition) -> None:
        self._perform(self.coordinator.finish_loading(partition.topic_partition.partition, self._clock.now_ms()))

    async def _load_all(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            index = partition.topic_partition.partition
            try:
                await self._load(partition, index)
            except (ApiError, OSError, ValueError) as error:
                # Its transactions stay unavailable: going on without their state would tear them.
                logger.error("transactions of %s cannot be loaded: %s", partition.topic_partition, error)
                self._perform(self.coordinator.unload(index))

    async def _load(self, partition: Partition, index: int) -> None:
        def take(header: BatchHeader, batch: bytes) -> None:
            if header.is_control:
                return
            for record in iterate_records(batch):
                if record.key is not None:
                    self.coordinator.replay(index, record.key, record.value)

        if await replay_log(partition, take, lambda: self._partitions.find(TRANSACTION_STATE, index) is partition):
            self._finish_loading(partition)

    # -------------------------------------------------------------------------------------------- upkeep

    def expire(self) -> None:
        """Forgets transactional ids that nobody has used for long."""
        for partition in self.coordinator.active_partitions():
            self._perform(self.coordinator.expire_transactional_ids(partition, self._clock.now_ms()))

    def unload(self, count: int) -> None:
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        for partition in range(count):
            self._perform(self.coordinator.unload(partition))

    async def close(self) -> None:
        self._timers.cancel_all()
        for timer in self._retries.values():
            timer.cancel()
        self._retries.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
