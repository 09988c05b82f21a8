"""When windows of a key are closed: one timer per key, for the first that has something to do."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.streams.machines.machine import Clock

MICROS = 1000  # of a millisecond
NO_TIMER = -1
# No window is closed at the beginning of time.
NEVER_MS = -1


@dataclass(slots=True)
class Bell:
    """The key's timer, kept in its state. Timers that were set for later still ring, and find nothing to do."""

    at_ms: int = NO_TIMER

    def want(self, at_ms: int, clock: Clock) -> None:
        if not clock.is_last and (self.at_ms == NO_TIMER or at_ms < self.at_ms):
            clock.ring(at_ms)
            self.at_ms = at_ms

    def rang(self, at_ms: int) -> None:
        if at_ms >= self.at_ms:
            self.at_ms = NO_TIMER


def watermark_of(clock: Clock) -> int:
    """Without a watermark nothing is late."""
    return NEVER_MS if clock.watermark_ms is None else clock.watermark_ms
