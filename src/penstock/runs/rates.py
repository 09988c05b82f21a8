"""Rows a second over the last half minute, from the totals at each heartbeat. Pure.

An engine's own rate of its last batch would not do: it stays as it is while a run is paused or has nothing to read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

# Several batches of a slow pipeline; people see a pause within this time.
WINDOW_MS: Final = 30_000


@dataclass(slots=True)
class RateWindow:
    _totals: deque[tuple[int, int]] = field(default_factory=deque)  # (time, total), oldest first

    def per_second(self, total: int, now_ms: int) -> float:
        """`now_ms` never goes backwards. A total that is smaller than the last is of a part that was started anew."""
        if self._totals and total < self._totals[-1][1]:
            self._totals.clear()
        self._totals.append((now_ms, total))
        while len(self._totals) > 2 and self._totals[1][0] <= now_ms - WINDOW_MS:
            self._totals.popleft()
        first_ms, first = self._totals[0]
        return (total - first) * 1000 / (now_ms - first_ms) if now_ms > first_ms else 0.0
