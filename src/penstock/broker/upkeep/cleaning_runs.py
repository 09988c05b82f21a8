"""One running cleaning: in the cleaner's own process, or in slices in a thread of the broker.

Both run the same steps (`Cleaning.steps`) on files alone. The process is the rule: it has a processor of its own and a
low priority. The thread is for disks that exist in this process only (tests, the simulation), and for programs whose
interpreter cannot be started a second time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol, TypeVar

from penstock.broker.upkeep.compaction_pacing import (
    MAX_SLICE_SECONDS,
    SLICE_SECONDS,
    Pacing,
    Slice,
    Stopwatch,
    decide_lateness,
)
from penstock.core.metrics.counters import CleanerMetrics
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.log_cleaner import Cleaning, CleaningOutcome
from penstock.log.compaction.worker.process import CleanerProcess

Result = TypeVar("Result")

# The longest wait of the thread for the process at a time: an unwanted cleaning goes on for this long.
_WAIT_SECONDS = 0.1


class CleanerThread:
    """The one thread in which the cleaner waits, for a disk or for its process."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="penstock-cleaner")

    async def run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def begin(self, work: Callable[[], object]) -> None:
        self._executor.submit(work)

    def close(self) -> None:
        """Ends after the work that has begun."""
        self._executor.shutdown(wait=True)


class Circumstances(NamedTuple):
    """The conditions that a run checks again and again."""

    is_wanted: Callable[[], bool]  # False: the broker stops, or the log is gone
    bytes_per_second: Callable[[], float]  # log.cleaner.io.max.bytes.per.second


class CleaningRun(Protocol):
    outcome: CleaningOutcome | None  # once it is complete

    async def next_replacement(self) -> Replacement | None:
        """None when there is no more, or the run is not wanted any more. The next call means that the replacement is in
        place.
        """

    async def close(self) -> bool:
        """Returns whether it is certain that nothing is written any more."""


class ProcessRun:
    def __init__(
        self, cleaning: Cleaning, process: CleanerProcess, thread: CleanerThread, circumstances: Circumstances
    ) -> None:
        self.outcome: CleaningOutcome | None = None
        self._cleaning = cleaning
        self._process = process
        self._thread = thread
        self._circumstances = circumstances
        self._has_begun = False

    async def next_replacement(self) -> Replacement | None:
        is_wanted, bytes_per_second = self._circumstances
        await self._thread.run(self._go_on)
        while is_wanted():
            rate = bytes_per_second()
            done = await self._thread.run(lambda rate=rate: self._process.advance(rate, _WAIT_SECONDS))  # type: ignore[misc]
            if isinstance(done, Replacement):
                return done
            if done is not None:
                self.outcome = done
                return None
        return None

    def _go_on(self) -> None:
        if self._has_begun:
            self._process.proceed()
        else:
            self._process.begin(self._cleaning.request, self._circumstances.bytes_per_second())
            self._has_begun = True

    async def close(self) -> bool:
        """The process stays for the next cleaning when this cleaning is complete."""
        return self.outcome is not None or await self._thread.run(self._process.end)


class Slicing:
    """The state that slices share, from one cleaning to the next."""

    def __init__(self, stopwatch: Stopwatch, metrics: CleanerMetrics) -> None:
        self.stopwatch = stopwatch
        self.metrics = metrics
        self.pacing = Pacing()
        self.load = _LoopLoad(stopwatch)


class SlicedRun:
    def __init__(
        self, cleaning: Cleaning, slicing: Slicing, thread: CleanerThread, circumstances: Circumstances
    ) -> None:
        self.outcome: CleaningOutcome | None = None
        self._cleaning = cleaning
        self._steps = cleaning.steps()
        self._slicing = slicing
        self._thread = thread
        self._circumstances = circumstances

    async def next_replacement(self) -> Replacement | None:
        slicing = self._slicing
        while self._circumstances.is_wanted():
            progress = await self._thread.run(lambda: _run_slice(self._steps, slicing.stopwatch))
            slicing.metrics.count_slice(progress.passed)
            if progress.replacement is not None:
                return progress.replacement
            if progress.is_done:
                self.outcome = self._cleaning.outcome
                return None
            pause = slicing.pacing.pause_after(
                Slice(progress.passed, progress.used, progress.size),
                slicing.load.busy,
                self._circumstances.bytes_per_second(),
            )
            await slicing.load.rest(pause)
        return None

    async def close(self) -> bool:
        await self._thread.run(self._steps.close)
        return True


class _Progress(NamedTuple):
    passed: float
    used: float
    size: int
    replacement: Replacement | None
    is_done: bool


def _run_slice(steps: Iterator[int | Replacement], stopwatch: Stopwatch) -> _Progress:
    """A slice is measured by its processor time: the loop keeps nothing from a thread that waits for its turn, and a
    busy loop would otherwise use up every slice with its own work.
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
    """The load of the loop, from 0 to 1: by the processor time of its thread, and by the lateness of its timers. The
    first misses a loop that other processes keep from running, the second a loop with many small tasks.
    """

    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        self.busy = 1.0  # until a measurement exists
        self._wall = self._used = 0.0

    async def rest(self, seconds: float) -> None:
        started = self._stopwatch.passed()
        await asyncio.sleep(seconds)
        wall, used = self._stopwatch.passed(), self._stopwatch.used()
        by_processor = (used - self._used) / max(wall - self._wall, 1e-9)
        self._wall, self._used = wall, used
        self.busy = (self.busy + max(by_processor, decide_lateness(wall - started - seconds))) / 2
