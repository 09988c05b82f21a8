"""Loads the partitions of a coordinator's topic, one after another: replays the last record of each key into the
partition's shard, in slices.

A load ends in one of three ways: everything is replayed; the shard is gone meanwhile, because its topic was deleted or
another broker leads the partition; or a record is unreadable, which the log reports to the operator. The partition
never stays in the loading state.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from penstock.broker.partitions.partition import Partition
from penstock.broker.runtimes.coordinator_log import CoordinatorLog
from penstock.broker.slices import Slices, Work
from penstock.coordinators.latest_records import LatestRecords
from penstock.coordinators.routing import Shard, Shards
from penstock.core.clock import Clock
from penstock.protocol.errors import ApiError

logger = logging.getLogger("penstock.broker.coordinators")

ShardType = TypeVar("ShardType", bound=Shard[Any, Any])
Result = TypeVar("Result")


class Loaded(enum.Enum):
    ALL = "all"
    NOT_WANTED = "not wanted"
    FAILED = "failed"


class _NotWantedError(Exception):
    """The shard does not exist any more."""


class CoordinatorLoading(Generic[ShardType]):
    def __init__(
        self, log: CoordinatorLog, shards: Shards[ShardType, Any, Any, Any], clock: Clock, slices: Slices
    ) -> None:
        self._log = log
        self._shards = shards
        self._clock = clock
        self._slices = slices
        self._queue: deque[tuple[Partition, ShardType]] = deque()
        self._is_running = False

    def add(self, partition: Partition, shard: ShardType) -> bool:
        """Whether the caller has to call `run` now, because no load is running."""
        self._queue.append((partition, shard))
        was_running, self._is_running = self._is_running, True
        return not was_running

    async def run(self, done: Callable[[int, Loaded], None]) -> None:
        """Loads the queued partitions. One partition at a time: each piece of the disk takes its part of a turn, and
        fifty at once would take all of it.
        """
        try:
            while self._queue:
                partition, shard = self._queue.popleft()
                if self._shards.find(partition.topic_partition.partition) is shard:
                    done(partition.topic_partition.partition, await self.load(partition, shard))
        finally:
            self._is_running = False

    async def load(self, partition: Partition, shard: ShardType) -> Loaded:
        index = partition.topic_partition.partition
        started_ms, size, records = self._clock.monotonic_ms(), partition.log.size, LatestRecords()
        try:
            is_complete = await self._log.read_all(
                partition, lambda data, offset: self._while_wanted(index, shard, records.take(data, offset))
            )
            await self._slices.run(self._while_wanted(index, shard, self._replay(index, records)))
        except _NotWantedError:
            return Loaded.NOT_WANTED
        except Exception as error:  # any effect of a damaged record; other partitions go on
            is_expected = isinstance(error, ApiError | OSError | ValueError)
            logger.error(
                "a coordinator's state cannot be loaded",
                exc_info=None if is_expected else error,
                extra={"topic": self._log.topic, "partition": index, "reason": str(error) or repr(error)},
            )
            return Loaded.FAILED if self._shards.find(index) is shard else Loaded.NOT_WANTED
        if not is_complete or self._shards.find(index) is not shard:
            return Loaded.NOT_WANTED
        fields = {"bytes": size, "batches": records.batch_count, "records": len(records)}
        logger.info(
            "a coordinator's state is loaded",
            extra={
                "topic": self._log.topic,
                "partition": index,
                **fields,
                "ms": self._clock.monotonic_ms() - started_ms,
            },
        )
        return Loaded.ALL

    def _replay(self, partition: int, records: LatestRecords) -> Work[None]:
        for key, value, offset, producer_id in records:
            self._shards.replay(partition, key, value, offset, producer_id)
            yield

    def _while_wanted(self, partition: int, shard: ShardType, work: Work[Result]) -> Work[Result]:
        """Between two steps the partition may go and return with another shard."""
        while self._shards.find(partition) is shard:
            try:
                next(work)
            except StopIteration as stop:
                result: Result = stop.value
                return result
            yield
        raise _NotWantedError
