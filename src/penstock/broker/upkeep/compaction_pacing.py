"""The rests of compaction between two slices of work, so that producers and consumers do not suffer.

For cleanings that run in a thread (`cleaning_runs`). Python runs one thread at a time: the event loop does not get the
time that the cleaner takes. So the cleaner takes the time that the loop leaves over, and never less than a small share,
or a busy broker would never compact.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

# The processor time of a slice before the loop gets its turn: the additional wait of a request.
SLICE_SECONDS = 0.002
# The total time of a slice, with its waits for the disk and for its turn, so that stopping is not slow.
MAX_SLICE_SECONDS = 0.05
_MIN_SHARE = 0.10  # of the time, however busy the loop is
_MAX_SHARE = 0.50  # of the time, when there is nothing else to do
_HEADROOM = 0.10  # left unused, for the next requests
_TIMER_SECONDS = 0.0005
# A longer rest would make stopping slow; its remainder follows the next slice.
MAX_PAUSE_SECONDS = 0.1


class Stopwatch(NamedTuple):
    """Elapsed seconds, and seconds of processor time of the calling thread."""

    passed: Callable[[], float]
    used: Callable[[], float]


REAL_TIME = Stopwatch(time.perf_counter, time.thread_time)


class Slice(NamedTuple):
    passed: float  # elapsed seconds of the slice
    used: float  # seconds of processor time; during the rest it waited, for its turn or the disk
    size: int  # bytes read and written


def decide_share(busy: float) -> float:
    """The share of time for compaction, where the loop itself is busy for the part `busy` of the time (0 to 1)."""
    return min(max(1 - _HEADROOM - busy, _MIN_SHARE), _MAX_SHARE)


def decide_lateness(late_seconds: float) -> float:
    """The load (0 to 1) of a loop that wakes a sleeper this late. A timer alone is tenths of a millisecond late."""
    return min(max((late_seconds - _TIMER_SECONDS) / SLICE_SECONDS, 0.0), 1.0)


class Pacing:
    """Remembers the owed rest. One object for the whole cleaner: the limit covers all of its work together."""

    def __init__(self) -> None:
        self._owed_seconds = 0.0

    def pause_after(self, done: Slice, busy: float, bytes_per_second: float) -> float:
        """The seconds to rest now: for its share of the time, or for its share of the disk, whichever is longer."""
        by_time = done.used / decide_share(busy) - done.passed
        by_size = done.size / bytes_per_second - done.passed if bytes_per_second > 0 else 0.0
        self._owed_seconds += max(by_time, by_size, 0.0)
        pause = min(self._owed_seconds, MAX_PAUSE_SECONDS)
        self._owed_seconds -= pause
        return pause
