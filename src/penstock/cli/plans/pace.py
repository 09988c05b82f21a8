"""Sending at a steady rate: how long to wait before the next record."""

from __future__ import annotations

from typing import NamedTuple


class Pace(NamedTuple):
    """`rate` records a second from `started` on (in seconds of a monotonic clock); no rate means no waiting."""

    rate: float | None
    started: float

    def delay(self, sent: int, now: float) -> float:
        """Seconds to wait before record number `sent` (from 0). Falling behind is made up for, not waited for."""
        if self.rate is None:
            return 0.0
        return max(0.0, self.started + sent / self.rate - now)
