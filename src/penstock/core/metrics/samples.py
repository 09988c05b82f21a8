"""Kinds of counters: numbers, numbers by label, and histograms with fixed buckets."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

Labels = tuple[str, ...]
Number = int | float

# A histogram of milliseconds from half a millisecond (a small produce) to half a minute (the longest common poll).
MILLISECONDS = (0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000)
# Request sizes from a heartbeat to the default socket.request.max.bytes.
BYTES = (256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 104_857_600)


class Histogram:
    """Counts per fixed bucket. An observation costs a bisection of a 15-element tuple and two additions."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = MILLISECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: Number = 0

    def observe(self, value: Number) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def copy(self) -> Histogram:
        """A copy. A scrape is rendered in later slices, and needs numbers that no longer move."""
        copied = Histogram(self.bounds)
        copied.counts = self.counts.copy()
        copied.total = self.total
        return copied


Value = int | float | Histogram
Sample = tuple[Labels, Value]


class CounterSet:
    """Attributes that are integers, dictionaries by label, or histograms; `samples` reads one of them by name."""

    __slots__ = ()

    def samples(self, attribute: str) -> Iterator[Sample]:
        value = getattr(self, attribute)
        if isinstance(value, dict):
            for label, number in value.items():
                yield (label,), number
        elif isinstance(value, Histogram):
            yield (), value.copy()
        else:
            yield (), value
