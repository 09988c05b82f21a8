"""The rate limit of replication, and the throttled replicas (KIP-73). Pure: the caller passes the time.

Rules (Kafka's `SimpleRate` and `ReplicationQuotaManager`):
- Bytes are counted in windows. The rate is the sum of all windows divided by the time since the oldest began, at least
  one window. A window begins with the first bytes after the window before, and is forgotten when all windows are over.
- The quota is exceeded while the rate is above the limit. A caller that checks first and counts afterwards exceeds the
  limit by one move at most, and makes progress however low the limit is: moved bytes are forgotten some time.
- A limit can be changed at any time. Counted bytes stay counted.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection

from penstock.core.log_settings import NO_LIMIT

WINDOW_COUNT = 11  # replication.quota.window.num: ten whole windows, and the current window
WINDOW_MS = 1_000  # replication.quota.window.size.seconds

_EVERY_PARTITION = range(2**31)
_NO_PARTITION: tuple[int, ...] = ()


class RateLimiter:
    """Check `is_exceeded` or `room` before a move, and call `note` afterwards."""

    __slots__ = ("_span_ms", "_total", "_window_ms", "_windows", "limit")

    def __init__(self, limit: int = NO_LIMIT, window_count: int = WINDOW_COUNT, window_ms: int = WINDOW_MS) -> None:
        self.limit = limit  # bytes per second
        self._window_ms = window_ms
        self._span_ms = window_count * window_ms
        # (begin, bytes), the oldest first: at most one more than configured.
        self._windows: deque[tuple[int, int]] = deque()
        self._total = 0

    def has_windows(self, window_count: int, window_ms: int) -> bool:
        return (window_count * window_ms, window_ms) == (self._span_ms, self._window_ms)

    def note(self, size: int, now_ms: int) -> None:
        self._forget(now_ms)
        windows = self._windows
        if windows and now_ms - windows[-1][0] < self._window_ms:
            begin, before = windows[-1]
            windows[-1] = begin, before + size
        elif size:
            windows.append((now_ms, size))
        self._total += size

    def is_exceeded(self, now_ms: int) -> bool:
        if self.limit == NO_LIMIT:
            return False
        self._forget(now_ms)
        return self._total * 1000 > self.limit * self._elapsed_ms(now_ms)

    def room(self, now_ms: int) -> int:
        """The bytes that can move now without exceeding the limit. It may be 0 although the limit is not exceeded."""
        if self.limit == NO_LIMIT:
            return NO_LIMIT
        self._forget(now_ms)
        return max(self.limit * self._elapsed_ms(now_ms) // 1000 - self._total, 0)

    def free_at_ms(self, now_ms: int) -> int:
        """The time from which on the limit is not exceeded any more, if nothing moves meanwhile: now, or later."""
        if not self.is_exceeded(now_ms):
            return now_ms
        total = self._total
        at_ms = now_ms
        for begin, size in self._windows:
            if total * 1000 <= self.limit * self._window_ms:
                return at_ms
            if self.limit:
                enough_ms = max(at_ms, begin - (-total * 1000 // self.limit))  # rounded up
                if enough_ms < begin + self._span_ms:
                    return enough_ms
            at_ms = max(at_ms, begin + self._span_ms)
            total -= size
        return at_ms

    def rate(self, now_ms: int) -> float:
        """Bytes per second."""
        self._forget(now_ms)
        return self._total * 1000 / self._elapsed_ms(now_ms)

    def _elapsed_ms(self, now_ms: int) -> int:
        return max(now_ms - self._windows[0][0], self._window_ms) if self._windows else self._window_ms

    def _forget(self, now_ms: int) -> None:
        windows = self._windows
        while windows and now_ms - windows[0][0] >= self._span_ms:
            self._total -= windows.popleft()[1]


def throttled_partitions(text: str, node_id: int) -> Collection[int]:
    """The partitions of a topic whose replica on this broker is throttled, from a topic's list of throttled replicas:
    `partition:broker` pairs with commas between them, or `*` for all. Takes 0.4 us for each pair: 5 ms for the longest
    list that is stored.
    """
    listed = text.strip()
    if listed == "*":
        return _EVERY_PARTITION
    found = re.findall(rf"(?:^|,)\s*([0-9]+):0*{node_id}\s*(?=,|$)", listed)
    return frozenset(map(int, found)) if found else _NO_PARTITION
