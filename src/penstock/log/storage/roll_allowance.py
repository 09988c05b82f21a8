"""The number of segments of a broker that may follow young segments."""

from __future__ import annotations

# A client chooses the times of its records, and an owner of a topic the size of an index, so each small batch could
# begin a segment of four files. Honest records stay far below this: their segments are old or full.
SEGMENTS_A_SECOND = 20
# For topics that are loaded with records of past years.
MOST_AT_ONCE = 200


class RollAllowance:
    """One allowance for all logs of a broker: a client may write to many partitions."""

    def __init__(self) -> None:
        self._left = float(MOST_AT_ONCE)
        self._at_ms = 0

    def take(self, now_ms: int) -> bool:
        passed_ms = max(0, now_ms - self._at_ms)  # a clock that was set back adds nothing
        self._at_ms = now_ms
        self._left = min(MOST_AT_ONCE, self._left + passed_ms * SEGMENTS_A_SECOND / 1000)
        if self._left < 1:
            return False
        self._left -= 1
        return True
