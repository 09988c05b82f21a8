"""Compaction at run time: picks the dirtiest log, cleans it in slices in a thread, puts the results in place.

The thread reads sealed segments and writes new files; it shares nothing with the loop. The log itself changes on the
loop only, in the one turn in which a cleaned segment takes the place of the old ones (0.2 ms for a few segments).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from penstock.broker.upkeep.compaction_pacing import (
    MAX_SLICE_SECONDS,
    REAL_TIME,
    SLICE_SECONDS,
    Pacing,
    Slice,
    Stopwatch,
    decide_lateness,
)
from penstock.broker.upkeep.retention import apply_retention
from penstock.core.clock import Clock
from penstock.core.config.sections import CleanerSection
from penstock.core.metrics.counters import CleanerMetrics
from penstock.core.types import TopicPartition
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.cleaning import CleanerLimits, Cleaning
from penstock.log.compaction.decisions import Dirt
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.errors import ApiError

logger = logging.getLogger("penstock.broker.upkeep.compaction")

Result = TypeVar("Result")

# Logs looked at before other work gets a turn of the loop: about 1 ms.
_LOGS_PER_TURN = 50


class Candidate(NamedTuple):
    log: PartitionLog
    dirt: Dirt


class Uncleanable(NamedTuple):
    log: PartitionLog
    reason: str


class Compaction:
    def __init__(
        self,
        logs: Callable[[], Iterable[PartitionLog]],
        settings: Callable[[], CleanerSection],
        clock: Clock,
        metrics: CleanerMetrics,
        is_stopping: Callable[[], bool],
        stopwatch: Stopwatch = REAL_TIME,
    ) -> None:
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._is_stopping = is_stopping
        self._pacing = Pacing()
        self._stopwatch = stopwatch
        self._load = _LoopLoad(stopwatch)
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="penstock-cleaner")
        self.uncleanable: dict[TopicPartition, Uncleanable] = {}

    async def run(self) -> None:
        """Clean whatever is worth it, the dirtiest first, until nothing is. A log whose disk refuses is left for the
        next time.
        """
        settings = self._settings()
        if not settings.log_cleaner_enable:
            return
        refused: set[PartitionLog] = set()
        while not self._is_stopping():
            candidate = await self._choose(refused)
            if candidate is None:
                return
            if not await self._clean(candidate):
                refused.add(candidate.log)

    def close(self) -> None:
        self._executor.shutdown(wait=True)

    def uncleanable_logs(self) -> list[PartitionLog]:
        """Without those that were deleted since."""
        return [each.log for each in self.uncleanable.values() if each.log.offline_reason is None]

    def uncleanable_bytes(self, directory: Path) -> int:
        now_ms = self._clock.now_ms()
        return sum(
            log.compaction.measure_dirt(now_ms).dirty_bytes
            for log in self.uncleanable_logs()
            if log.directory.parent == directory
        )

    # -------------------------------------------------------------------------------------------- choosing

    async def _choose(self, refused: set[PartitionLog]) -> Candidate | None:
        now_ms = self._clock.now_ms()
        self._metrics.last_run_ms = now_ms
        found: list[Candidate] = []
        dirtiest, longest_delay_ms = 0.0, 0
        for count, log in enumerate(self._logs()):
            if count % _LOGS_PER_TURN == _LOGS_PER_TURN - 1:
                await asyncio.sleep(0)
            if not log.settings.is_compacted or log in refused or not self._is_cleanable(log):
                continue
            try:
                dirt = log.compaction.measure_dirt(now_ms)
            except ApiError:
                continue  # went offline, and said so
            dirtiest, longest_delay_ms = max(dirtiest, dirt.ratio), max(longest_delay_ms, dirt.delay_ms)
            if dirt.is_worth_cleaning(log.settings.min_cleanable_dirty_ratio):
                found.append(Candidate(log, dirt))
        self._metrics.max_dirty_percent = int(100 * dirtiest)
        self._metrics.max_compaction_delay_seconds = longest_delay_ms // 1000
        return max(found, key=lambda candidate: candidate.dirt.ratio, default=None)

    def _is_cleanable(self, log: PartitionLog) -> bool:
        if log.offline_reason is not None:
            return False
        marked = self.uncleanable.get(log.topic_partition)
        return marked is None or marked.log is not log  # a topic made anew begins anew

    # -------------------------------------------------------------------------------------------- cleaning

    async def _clean(self, candidate: Candidate) -> bool:
        """Whether it got on; False when there is no use in trying again at once."""
        log, dirt = candidate
        started_ms = self._clock.monotonic_ms()
        finished: Cleaning | None = None
        try:
            cleaning = log.compaction.begin_cleaning(dirt, self._clock.now_ms(), self._limits())
            if await self._work(log, cleaning):
                finished = cleaning
        except CorruptLogError as error:
            self.uncleanable[log.topic_partition] = Uncleanable(log, str(error))
            logger.error("%s is not compacted any more: %s", log.topic_partition, error)
        except OSError as error:
            logger.warning("%s could not be compacted and is tried again later: %s", log.topic_partition, error)
        except ApiError as error:
            logger.error("%s: %s", log.topic_partition, error)
        finally:
            log.compaction.end_cleaning(finished)
        if finished is None:
            return False
        self._report(log, finished, self._clock.monotonic_ms() - started_ms)
        return await self._apply_retention(log)

    def _limits(self) -> CleanerLimits:
        settings = self._settings()
        return CleanerLimits(
            settings.log_cleaner_dedupe_buffer_size,
            settings.log_cleaner_io_buffer_load_factor,
            max(settings.log_cleaner_io_buffer_size, 1),
        )

    async def _work(self, log: PartitionLog, cleaning: Cleaning) -> bool:
        """Whether it was finished; False when the broker stops, or the log was cut or deleted meanwhile."""
        steps = cleaning.steps()
        files = cleaning.request.files
        try:
            while not self._is_stopping():
                progress = await self._in_thread(lambda: _run_slice(steps, self._stopwatch))
                self._metrics.count_slice(progress.passed)
                replacement = progress.replacement
                if replacement is not None:
                    if not log.compaction.can_replace(replacement):
                        return False
                    await self._replace(log, replacement, files)
                    await self._in_thread(lambda: files.sync_directory(log.directory))
                if progress.is_done:
                    return True
                pause = self._pacing.pause_after(
                    Slice(progress.passed, progress.used, progress.size),
                    self._load.busy,
                    self._settings().log_cleaner_io_max_bytes_per_second,
                )
                await self._load.rest(pause)
            return False
        finally:
            await self._in_thread(steps.close)  # removes what was being written

    async def _replace(self, log: PartitionLog, replacement: Replacement, files: Files) -> None:
        try:
            await self._in_thread(lambda: replacement.commit(files))
        except OSError as error:
            # Nobody knows whether the next start will complete it, so nothing may be changed before that.
            raise log.availability.fail("replacing compacted segments", error) from error
        log.compaction.replace_segments(replacement, self._clock.now_ms())

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def _report(self, log: PartitionLog, cleaning: Cleaning, elapsed_ms: int) -> None:
        done, metrics = cleaning.statistics, self._metrics
        metrics.count_cleaning(done.bytes_read, done.bytes_written, done.records_read - done.records_kept)
        metrics.max_buffer_utilization_percent = int(100 * done.map_utilization)
        metrics.max_clean_time_seconds = elapsed_ms // 1000
        logger.info(
            "compacted %s up to offset %d in %d ms: %d of %d records stay, %d of %d bytes",
            log.topic_partition,
            cleaning.end_offset,
            elapsed_ms,
            done.records_kept,
            done.records_read,
            done.bytes_written,
            done.bytes_read,
        )

    async def _apply_retention(self, log: PartitionLog) -> bool:
        """Retention kept away while the log was cleaned, so its turn comes right after."""
        try:
            await apply_retention(log, self._clock.now_ms())
        except ApiError as error:
            logger.error("%s: %s", log.topic_partition, error)
            return False
        return True


class _Progress(NamedTuple):
    passed: float
    used: float
    size: int
    replacement: Replacement | None
    is_done: bool


def _run_slice(steps: Iterator[int | Replacement], stopwatch: Stopwatch) -> _Progress:
    """A slice is measured by what it takes of a processor: the loop keeps nothing from a thread that waits for its
    turn, and a busy one would otherwise use up every slice with its own work.
    """
    started, used_before = stopwatch.passed(), stopwatch.used()
    size = 0
    replacement: Replacement | None = None
    is_done = True
    for step in steps:
        if isinstance(step, Replacement):
            replacement, is_done = step, False
            break
        size += step
        if stopwatch.used() - used_before >= SLICE_SECONDS or stopwatch.passed() - started >= MAX_SLICE_SECONDS:
            is_done = False
            break
    return _Progress(stopwatch.passed() - started, stopwatch.used() - used_before, size, replacement, is_done)


class _LoopLoad:
    """How busy the loop is, from 0 to 1: by the processor's account of its thread, and by how late it wakes us. The
    first misses a loop that other processes keep from running, the second one with many small things to do.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self.busy = 1.0  # until something is known
        self._wall = self._used = 0.0

    async def rest(self, seconds: float) -> None:
        started = self._stopwatch.passed()
        await asyncio.sleep(seconds)
        wall, used = self._stopwatch.passed(), self._stopwatch.used()
        by_processor = (used - self._used) / max(wall - self._wall, 1e-9)
        self._wall, self._used = wall, used
        self.busy = (self.busy + max(by_processor, decide_lateness(wall - started - seconds))) / 2
