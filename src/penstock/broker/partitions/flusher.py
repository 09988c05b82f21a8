"""Group commit: acknowledgements that wait for the disk share as few fsyncs as possible.

While one fsync of a partition runs in a thread, everything appended meanwhile queues for the next one; when it ends,
one more fsync covers them all. So the number of fsyncs follows the disk's speed, not the number of requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from penstock.broker.partitions.partition import Partition
from penstock.core.clock import Clock
from penstock.core.metrics.counters import LogMetrics
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ApiError

# fsync waits for the device, not for a processor: a few threads keep several disks busy.
_THREADS = 4
_RETRY_S = 0.1


class Flusher:
    def __init__(self, metrics: LogMetrics, clock: Clock, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`stopwatch` gives elapsed seconds, for the metric of fsync times."""
        self._metrics = metrics
        self._clock = clock
        self._stopwatch = stopwatch
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-flush")
        self._waiting: dict[Partition, list[asyncio.Future[bool]]] = {}
        self._is_closing = False
        self._workers: dict[Partition, asyncio.Task[None]] = {}

    async def flush(self, partitions: list[Partition]) -> list[Partition]:
        """Returns once everything appended to `partitions` before the call is on disk. The result has the failed
        partitions.
        """
        durable = await asyncio.gather(*(self._join(partition) for partition in partitions))
        return [partition for partition, is_durable in zip(partitions, durable, strict=True) if not is_durable]

    def _join(self, partition: Partition) -> asyncio.Future[bool]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()
        self._waiting.setdefault(partition, []).append(future)
        if partition not in self._workers:
            self._workers[partition] = loop.create_task(self._work(partition))
        return future

    async def _work(self, partition: Partition) -> None:
        """A running fsync may miss a later append, so a request that joins meanwhile waits for the next round."""
        try:
            while waiting := self._waiting.pop(partition, None):
                is_durable = False  # also if the fsync raises an unforeseen error
                try:
                    is_durable = await self._sync(partition)
                finally:
                    _release(waiting, is_durable)
        finally:
            _release(self._waiting.pop(partition, ()), False)
            del self._workers[partition]

    async def _sync(self, partition: Partition) -> bool:
        started = self._stopwatch()
        log = partition.log
        while not await self._try(log):
            if log.offline_reason is not None or self._is_closing:
                return False
            # The process has no free descriptor. The appended records stay, so their writers wait on.
            await asyncio.sleep(_RETRY_S)
        self._metrics.flush_time_ms.observe((self._stopwatch() - started) * 1000)
        return log.offline_reason is None

    async def _try(self, log: PartitionLog) -> bool:
        try:
            flush = log.flushing.prepare()
            if flush is not None:
                await asyncio.get_running_loop().run_in_executor(self._executor, flush.run)
                log.flushing.mark_flushed(flush, self._clock.now_ms())
        except OSError as error:
            log.flushing.failed(error)
            return False
        except ApiError:
            return False  # mostly offline already, and logged
        return True

    async def close(self) -> None:
        """Every waiting request gets an answer first."""
        self._is_closing = True
        await asyncio.gather(*self._workers.values(), return_exceptions=True)
        self._executor.shutdown(wait=True)


def _release(waiting: Iterable[asyncio.Future[bool]], is_durable: bool) -> None:
    for future in waiting:
        if not future.done():  # the client may be gone
            future.set_result(is_durable)
