"""Latencies, counted in buckets: any number of them in bounded memory, each percentile within one percent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

# Each bucket is one percent wider than the last: 1 us to 100 s takes about 1,850 of them.
_GROWTH = math.log(1.01)
_SMALLEST_MS = 0.001

PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


@dataclass(slots=True)
class Latencies:
    count: int = 0
    sum_ms: float = 0.0
    max_ms: float = 0.0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, latency_ms: float) -> None:
        self.count += 1
        self.sum_ms += latency_ms
        if latency_ms > self.max_ms:
            self.max_ms = latency_ms
        bucket = int(math.log(max(latency_ms, _SMALLEST_MS) / _SMALLEST_MS) / _GROWTH)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1

    def percentile(self, fraction: float) -> float:
        """The latency that `fraction` of all did not exceed; 0 when there are none."""
        wanted = math.ceil(self.count * fraction)
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                upper = _SMALLEST_MS * math.exp((bucket + 1) * _GROWTH)
                return min(upper, self.max_ms)
        return 0.0

    def summary(self) -> dict[str, float]:
        mean = self.sum_ms / self.count if self.count else 0.0
        values = {"mean": mean, **{name: self.percentile(fraction) for name, fraction in PERCENTILES.items()}}
        return {name: round(value, 3) for name, value in {**values, "max": self.max_ms}.items()}
