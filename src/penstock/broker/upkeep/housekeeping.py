"""Periodic chores of a broker: retention, checkpoints, delayed flushes, expiry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.partitions.partition import Partition
from penstock.broker.slices import pieces
from penstock.broker.upkeep.compaction import Compaction
from penstock.broker.upkeep.compaction_pacing import REAL_TIME, Stopwatch
from penstock.broker.upkeep.retention import apply_retention
from penstock.broker.upkeep.token_expiry import remove_expired_tokens
from penstock.core.limits import WRITE_BACK_BYTES
from penstock.log.compaction.worker.process import CleanerProcess
from penstock.log.directories.checkpoint_write import CheckpointCapture
from penstock.log.upkeep.write_back import WriteBack, WriteBackRange, start_write_back
from penstock.protocol.errors import ApiError

logger = logging.getLogger("penstock.broker.upkeep.housekeeping")

# The number of partitions handled before other work gets a turn of the loop: about 1 ms.
_PARTITIONS_PER_TURN = 50
# The number of logs whose offsets are read before other work gets a turn: about 1 ms.
_LOGS_PER_TURN = 250
# Files of deleted segments and topics wait for file.delete.delay.ms; this is the precision of that wait.
_FILE_REMOVAL_INTERVAL_MS = 5_000
# A step of a removal takes about 5 ms. The rest after it leaves half of the disk's time to other work, and 1.5 GB still
# go in a second, which is more than producers bring.
_REMOVAL_REST_MS = 5
# At a gigabyte a second, the fastest that clients bring records, 200 MB wait for a disk: below every kernel's limit.
_WRITE_BACK_INTERVAL_MS = 200
# Kafka's number, which is fixed there, too.
_PRODUCER_EXPIRY_INTERVAL_MS = 600_000
# The possible lag of the index files of a segment that is being written: only tools read them.
_INDEX_INTERVAL_MS = 1_000
# The number of logs whose fsyncs begin in one turn of the loop: about 3 ms. They keep all threads of the flusher busy.
FLUSHED_PER_TURN = 32
_MIN_FLUSH_INTERVAL_MS = 100
# A sealed segment is synced soon after the roll, so that a crash leaves little to recover.
_MAX_FLUSH_INTERVAL_MS = 1_000


class Chore(NamedTuple):
    name: str
    interval_ms: Callable[[], int]
    run: Callable[[], Awaitable[None]]


class Housekeeping:
    def __init__(self, broker: Broker, stopwatch: Stopwatch = REAL_TIME, cleaner: CleanerProcess | None = None) -> None:
        self._broker = broker
        self._tasks: list[asyncio.Task[None]] = []
        self._write_back = WriteBack()
        self._written_back = 0  # of the received bytes, at the begin of the last write-back
        self._stopping = asyncio.Event()
        config = broker.config
        self.compaction = Compaction(
            lambda: [partition.log for partition in broker.partitions],
            lambda: broker.config.cleaner,
            broker.clock,
            broker.metrics.cleaner,
            self._stopping.is_set,
            stopwatch,
            cleaner,
        )
        self.chores: tuple[Chore, ...] = (
            Chore("retention", lambda: broker.config.upkeep.log_retention_check_interval_ms, self._apply_retention),
            # Kafka writes high watermarks every 5 s and recovery points every 60 s; here one chore writes the changed
            # offsets of both.
            Chore(
                "checkpoints",
                lambda: config.upkeep.replica_high_watermark_checkpoint_interval_ms,
                self._write_checkpoints,
            ),
            Chore("offset expiry", lambda: config.groups.offsets_retention_check_interval_ms, self._expire_offsets),
            Chore(
                "transactional id expiry",
                lambda: config.transactions.transaction_remove_expired_transaction_cleanup_interval_ms,
                self._expire_transactional_ids,
            ),
            Chore("token expiry", self._token_expiry_interval_ms, lambda: remove_expired_tokens(broker)),
            Chore("producer expiry", lambda: _PRODUCER_EXPIRY_INTERVAL_MS, self._expire_producers),
            Chore("file removal", lambda: _FILE_REMOVAL_INTERVAL_MS, self._remove_files),
            Chore("write-back", lambda: _WRITE_BACK_INTERVAL_MS, self._start_write_back),
            Chore("compaction", lambda: max(broker.config.cleaner.log_cleaner_backoff_ms, 1), self.compaction.run),
            Chore("index entries", lambda: _INDEX_INTERVAL_MS, self._write_index_entries),
            Chore("flush", self._flush_interval_ms, self._flush_old),
        )

    def _token_expiry_interval_ms(self) -> int:
        interval_ms = self._broker.config.get("delegation.token.expiry.check.interval.ms")
        assert isinstance(interval_ms, int)
        return interval_ms

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._repeat(chore), name=f"chore {chore.name}") for chore in self.chores]

    async def stop(self) -> None:
        """A running chore ends by itself: a cancelled chore would leave its thread writing behind our back."""
        self._stopping.set()
        await asyncio.gather(*self._tasks)
        await self.compaction.stop()

    async def _repeat(self, chore: Chore) -> None:
        """A supervisor: a chore that fails is logged and tried again next time."""
        while not await self._stops_within(chore.interval_ms()):
            try:
                await chore.run()
            except Exception:
                logger.exception("%s failed and will be tried again", chore.name)

    async def _stops_within(self, interval_ms: int) -> bool:
        try:
            async with asyncio.timeout(interval_ms / 1000):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _each_partition(self, action: Callable[[Partition], object]) -> None:
        for count, partition in enumerate(self._broker.partitions):
            if partition.log.offline_reason is None:
                try:
                    action(partition)
                except ApiError as error:
                    logger.error("%s: %s", partition.topic_partition, error)
            if count % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _apply_retention(self) -> None:
        now_ms = self._broker.clock.now_ms()
        for count, partition in enumerate(self._broker.partitions):
            try:
                deleted = await apply_retention(partition.log, now_ms)
            except ApiError as error:
                logger.error("%s: %s", partition.topic_partition, error)
                continue
            self._broker.metrics.logs.segments_deleted += deleted
            if deleted or count % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _write_checkpoints(self) -> None:
        """Offline logs keep their last offsets in the files, so every log is asked, not every partition."""
        directories = self._broker.directories
        capture = CheckpointCapture()
        for count, log in enumerate(list(directories.logs.values()), start=1):
            capture.add(log)
            if count % _LOGS_PER_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.to_thread(directories.begin_checkpoints(capture).run)

    async def _expire_offsets(self) -> None:
        await self._broker.groups.expire_offsets()

    async def _expire_transactional_ids(self) -> None:
        await self._broker.transactions.expire()

    async def _expire_producers(self) -> None:
        now_ms = self._broker.clock.now_ms()
        await self._each_partition(
            lambda partition: partition.log.producers.remove_expired(
                now_ms, partition.log.settings.producer_id_expiration_ms
            )
        )

    async def _write_index_entries(self) -> None:
        await self._each_partition(lambda partition: partition.log.write_index_entries())

    async def _start_write_back(self) -> None:
        """Costs nothing while few bytes come in."""
        received = self._broker.metrics.sockets.bytes_in
        if received - self._written_back < WRITE_BACK_BYTES:
            return
        self._written_back = received
        ranges: list[WriteBackRange] = []

        def look(partition: Partition) -> None:
            found = self._write_back.take(partition.log.segments)
            if found is not None:
                ranges.append(found)

        await self._each_partition(look)
        if ranges:
            await asyncio.to_thread(start_write_back, ranges)

    async def _remove_files(self) -> None:
        """Runs a step in a thread, then a rest: the disk serves others in between. Files that are left when the broker
        stops are removed after the next start.
        """
        delayed_deletes = self._broker.directories.delayed_deletes
        removal = delayed_deletes.take_due(self._broker.clock.now_ms())
        if removal is None:
            return
        try:
            while await asyncio.to_thread(removal.step):
                if await self._stops_within(_REMOVAL_REST_MS):
                    break
        finally:
            delayed_deletes.settle(removal)

    # -------------------------------------------------------------------------------------------- flush.ms

    def _flush_interval_ms(self) -> int:
        """Half the shortest flush.ms in use, within bounds."""
        shortest = min(
            (settings.flush_ms for settings in self._broker.partitions.settings_in_use), default=_MAX_FLUSH_INTERVAL_MS
        )
        return max(_MIN_FLUSH_INTERVAL_MS, min(shortest // 2, _MAX_FLUSH_INTERVAL_MS))

    async def _flush_old(self) -> None:
        now_ms = self._broker.clock.now_ms()
        due: list[Partition] = []

        def look(partition: Partition) -> None:
            if partition.log.flushing.is_due(now_ms):
                due.append(partition)

        await self._each_partition(look)
        for piece in pieces(due, FLUSHED_PER_TURN):
            await self._broker.flusher.flush([*piece])
