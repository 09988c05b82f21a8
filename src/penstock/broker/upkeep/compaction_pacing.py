"""How long compaction rests between two slices of work, so that producing and consuming do not suffer.

For cleanings that run in a thread (`cleaning_runs`). Python runs one thread at a time: what the cleaner takes, the
event loop does not get. So it takes what the loop leaves over, and never less than a small share, or a busy broker
would never compact.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

# What a slice has of a processor before the loop gets its turn: what a request may have to wait for in addition.
SLICE_SECONDS = 0.002
# And how long it may take in all, waiting for the disk and for its turn, so that stopping is not slow.
MAX_SLICE_SECONDS = 0.05
_MIN_SHARE = 0.10  # of the time, however busy the loop is
_MAX_SHARE = 0.50  # of the time, when there is nothing else to do
_HEADROOM = 0.10  # left unused, for what comes next
_TIMER_SECONDS = 0.0005
# A longer rest would make stopping slow; the rest of it is taken after the next slice.
MAX_PAUSE_SECONDS = 0.1


class Stopwatch(NamedTuple):
    """Seconds that have passed, and seconds that the calling thread has had of a processor."""

    passed: Callable[[], float]
    used: Callable[[], float]


REAL_TIME = Stopwatch(time.perf_counter, time.thread_time)


class Slice(NamedTuple):
    passed: float  # seconds that the slice took
    used: float  # seconds that it had of a processor; the rest it waited, for its turn or the disk
    size: int  # bytes that it read and wrote


def decide_share(busy: float) -> float:
    """The part of the time for compaction, where the loop itself is at work `busy` of the time (0 to 1)."""
    return min(max(1 - _HEADROOM - busy, _MIN_SHARE), _MAX_SHARE)


def decide_lateness(late_seconds: float) -> float:
    """How busy a loop is (0 to 1) that wakes a sleeper this late. A timer alone is tenths of a millisecond late."""
    return min(max((late_seconds - _TIMER_SECONDS) / SLICE_SECONDS, 0.0), 1.0)


class Pacing:
    """Remembers the rest that is owed. One for the whole cleaner: the limit is on all of its work together."""

    def __init__(self) -> None:
        self._owed_seconds = 0.0

    def pause_after(self, done: Slice, busy: float, bytes_per_second: float) -> float:
        """Seconds to rest now: for its share of the time, or for its share of the disk, whichever is longer."""
        by_time = done.used / decide_share(busy) - done.passed
        by_size = done.size / bytes_per_second - done.passed if bytes_per_second > 0 else 0.0
        self._owed_seconds += max(by_time, by_size, 0.0)
        pause = min(self._owed_seconds, MAX_PAUSE_SECONDS)
        self._owed_seconds -= pause
        return pause
