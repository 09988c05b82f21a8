"""Compaction at run time: picks the dirtiest log, has it cleaned, puts the results in place.

The cleaning reads sealed segments and writes new files, in a process of its own (`cleaning_runs`); it shares nothing
with the loop. The log itself changes on the loop only, in the one turn in which a cleaned segment replaces the old
segments (0.2 ms for a few segments).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from penstock.broker.upkeep.cleaning_runs import (
    Circumstances,
    CleanerThread,
    CleaningRun,
    ProcessRun,
    SlicedRun,
    Slicing,
)
from penstock.broker.upkeep.compaction_pacing import REAL_TIME, Stopwatch
from penstock.broker.upkeep.retention import apply_retention
from penstock.core.clock import Clock
from penstock.core.config.sections import CleanerSection
from penstock.core.metrics.counters import CleanerMetrics
from penstock.core.types import TopicPartition
from penstock.log.compaction.cleaned_segment import Replacement, remove_leftovers
from penstock.log.compaction.decisions import Dirt
from penstock.log.compaction.log_cleaner import CleanerLimits, Cleaning, CleaningOutcome
from penstock.log.compaction.worker.process import CleanerProcess, WorkerLostError, WorkerUnavailableError
from penstock.log.partition_log import PartitionLog
from penstock.log.storage.files import Files
from penstock.log.storage.scan import CorruptLogError
from penstock.protocol.errors import ApiError

logger = logging.getLogger("penstock.broker.upkeep.compaction")

# The number of logs checked before other work gets a turn of the loop: about 1 ms.
_LOGS_PER_TURN = 50
# The time for which cleanings run in a thread when the process did not start. The missing resource (memory, file
# descriptors) may be free again by then; where the process never starts, this is one log line and one attempt per
# period.
_WITHOUT_PROCESS_MS = 10 * 60 * 1000


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
        process: CleanerProcess | None = None,
    ) -> None:
        """Without a process, cleanings run in a thread."""
        self._logs = logs
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._is_stopping = is_stopping
        self._slicing = Slicing(stopwatch, metrics)
        self._process = process
        self._process_after_ms = 0  # monotonic; cleanings before that run in a thread
        self._retirement: asyncio.TimerHandle | None = None
        self._thread = CleanerThread()
        self.uncleanable: dict[TopicPartition, Uncleanable] = {}

    async def run(self) -> None:
        """Cleans every log that is worth it, the dirtiest first. A log whose disk refuses is left for the next time."""
        if not self._settings().log_cleaner_enable:
            return
        refused: set[PartitionLog] = set()
        while not self._is_stopping():
            candidate = await self._choose(refused)
            if candidate is None:
                return
            self._keep_process()
            try:
                if not await self._clean(candidate):
                    refused.add(candidate.log)
            finally:
                self._retire_process_later()

    async def stop(self) -> None:
        """Call after `run`. The timer belongs to the loop, the wait for the process to a thread."""
        self._keep_process()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        if self._process is not None:
            self._thread.begin(self._process.end)
        self._thread.close()

    def uncleanable_logs(self) -> list[PartitionLog]:
        """Without the logs that were deleted since."""
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
        return marked is None or marked.log is not log  # a recreated topic begins anew

    # -------------------------------------------------------------------------------------------- cleaning

    async def _clean(self, candidate: Candidate) -> bool:
        """Whether there was progress; False when an immediate retry is of no use."""
        log, dirt = candidate
        started_ms = self._clock.monotonic_ms()
        outcome: CleaningOutcome | None = None
        try:
            cleaning = log.compaction.begin_cleaning(dirt, self._clock.now_ms(), self._limits())
            outcome = await self._work(log, cleaning)
        except CorruptLogError as error:
            self._give_up_for_good(log, error)
        except (OSError, WorkerLostError) as error:
            self._metrics.cleanings_failed += 1
            logger.warning("%s could not be compacted and is tried again later: %s", log.topic_partition, error)
        except WorkerUnavailableError as error:
            self._process_after_ms = self._clock.monotonic_ms() + _WITHOUT_PROCESS_MS
            logger.warning("compaction goes on in a thread of the broker, slowly, for ten minutes: %s", error)
            return True
        except ApiError as error:
            logger.error("%s: %s", log.topic_partition, error)
        finally:
            log.compaction.end_cleaning(outcome)
        if outcome is None:
            return False
        self._report(log, outcome, self._clock.monotonic_ms() - started_ms)
        return await self._apply_retention(log)

    def _limits(self) -> CleanerLimits:
        settings = self._settings()
        return CleanerLimits(
            settings.log_cleaner_dedupe_buffer_size,
            settings.log_cleaner_io_buffer_load_factor,
            max(settings.log_cleaner_io_buffer_size, 1),
        )

    def _give_up_for_good(self, log: PartitionLog, error: CorruptLogError) -> None:
        if log.compaction.was_cut:
            return  # during the read: the missing segments were removed on purpose
        self.uncleanable[log.topic_partition] = Uncleanable(log, str(error))
        logger.error("%s is not compacted any more: %s", log.topic_partition, error)

    async def _work(self, log: PartitionLog, cleaning: Cleaning) -> CleaningOutcome | None:
        """None when the broker stops, or the log was truncated or deleted meanwhile."""
        run = self._begin_run(log, cleaning)
        files = cleaning.request.files
        try:
            while (replacement := await run.next_replacement()) is not None:
                if not log.compaction.can_replace(replacement):
                    return None
                await self._replace(log, replacement, files)
                await self._thread.run(lambda: files.sync_directory(log.directory))
            return run.outcome
        finally:
            is_over = await run.close()
            # An offline log is left as it is: its next start can handle half a replacement.
            if run.outcome is None and is_over and log.offline_reason is None:
                with contextlib.suppress(OSError):  # the next cleaning tries again
                    await self._thread.run(lambda: remove_leftovers(files, str(log.directory)))

    def _begin_run(self, log: PartitionLog, cleaning: Cleaning) -> CleaningRun:
        circumstances = Circumstances(
            lambda: not self._is_stopping() and log.offline_reason is None,
            lambda: self._settings().log_cleaner_io_max_bytes_per_second,
        )
        if self._process is not None and self._clock.monotonic_ms() >= self._process_after_ms:
            return ProcessRun(cleaning, self._process, self._thread, circumstances)
        return SlicedRun(cleaning, self._slicing, self._thread, circumstances)

    async def _replace(self, log: PartitionLog, replacement: Replacement, files: Files) -> None:
        try:
            await self._thread.run(lambda: replacement.commit(files))
        except OSError as error:
            # It is unknown whether the next start completes the replacement, so nothing may be changed before that.
            raise log.availability.fail("replacing compacted segments", error) from error
        log.compaction.replace_segments(replacement, self._clock.now_ms())

    def _report(self, log: PartitionLog, outcome: CleaningOutcome, elapsed_ms: int) -> None:
        done, metrics = outcome.statistics, self._metrics
        metrics.count_cleaning(done.bytes_read, done.bytes_written, done.records_read - done.records_kept)
        metrics.max_buffer_utilization_percent = int(100 * done.map_utilization)
        metrics.max_clean_time_seconds = elapsed_ms // 1000
        logger.info(
            "compacted %s up to offset %d in %d ms: %d of %d records stay, %d of %d bytes",
            log.topic_partition,
            outcome.end_offset,
            elapsed_ms,
            done.records_kept,
            done.records_read,
            done.bytes_written,
            done.bytes_read,
        )

    async def _apply_retention(self, log: PartitionLog) -> bool:
        """Retention skipped the log during the cleaning, so its turn comes right after."""
        try:
            await apply_retention(log, self._clock.now_ms())
        except ApiError as error:
            logger.error("%s: %s", log.topic_partition, error)
            return False
        return True

    # -------------------------------------------------------------------------------------------- the process

    def _retire_process_later(self) -> None:
        """An idle broker has no second process."""
        if self._process is not None and self._process.process_id is not None:
            loop = asyncio.get_running_loop()
            self._retirement = loop.call_later(self._process.idle_seconds, self._thread.begin, self._process.end)

    def _keep_process(self) -> None:
        if self._retirement is not None:
            self._retirement.cancel()
            self._retirement = None
