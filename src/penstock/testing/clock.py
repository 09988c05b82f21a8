"""A clock that stands still until the test moves it."""

from __future__ import annotations

# Some day in November 2023: a time that records of a test may well carry.
A_MOMENT_MS = 1_700_000_000_000


class ManualClock:
    def __init__(self, now_ms: int = A_MOMENT_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, milliseconds: int) -> None:
        assert milliseconds >= 0, "time does not go backwards; set_now_ms is for wall clocks that were corrected"
        self._now_ms += milliseconds
        self._monotonic_ms += milliseconds

    def set_now_ms(self, now_ms: int) -> None:
        """The wall clock alone, as when an administrator corrects it."""
        self._now_ms = now_ms
