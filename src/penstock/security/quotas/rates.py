"""The rate of something, and how long it must stop to come down to a bound. Pure: the caller hands in the time.

Rules (Kafka's `Rate`, `SampledStat` and `TokenBucket`):
- Events are summed up in windows. A window begins with the first event after the one before, and is forgotten when
  its last event is as old as all windows together.
- The rate is the sum of all windows by the time since the oldest began, or by that of one window, if that is more: so
  much a client may spend at once after a pause. In Kafka it is the time of all windows but one, ten seconds. A client
  that spends them at once does so again whenever its first window is forgotten, and its rate over half a minute is off
  by a fifth.
- Where the rate is above the bound, the client stops for as long as it takes until the same sum makes the bound:
  (rate - bound) / bound * time.
- A token bucket fills at the rate of its bound and holds as much as flows in during all windows. A client that finds
  it below zero waits until it is at zero again. One large request is let through as a whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Windows(NamedTuple):
    """`quota.window.num` and `quota.window.size.seconds`."""

    window_count: int = 11  # ten whole windows, and the one that is being filled
    window_ms: int = 1_000
    burst_count: int = 1  # windows whose worth may be spent at once

    @property
    def span_ms(self) -> int:
        return self.window_count * self.window_ms

    @property
    def burst_ms(self) -> int:
        return max(min(self.burst_count, self.window_count - 1), 1) * self.window_ms


class Rate:
    """The sum of each window. The windows themselves are the caller's, since all rates of a kind share them."""

    __slots__ = ("_windows",)

    def __init__(self) -> None:
        # [begin, last event, sum], the oldest first: at most one more than `window_count`. A deque takes 700 bytes
        # more.
        self._windows: list[list[float]] = []

    def record(self, value: float, now_ms: int, windows: Windows) -> None:
        """A negative value takes back an earlier one."""
        self._forget(now_ms, windows)
        kept = self._windows
        if kept and now_ms - kept[-1][0] < windows.window_ms:
            newest = kept[-1]
            newest[1] = now_ms
            newest[2] += value
        else:
            kept.append([now_ms, now_ms, value])

    def per_second(self, now_ms: int, windows: Windows) -> float:
        self._forget(now_ms, windows)
        return self._total() * 1000 / self._elapsed_ms(now_ms, windows)

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """How long to stop until the rate is at the bound, if nothing happens meanwhile: 0 where it is not above."""
        self._forget(now_ms, windows)
        total, elapsed_ms = self._total(), self._elapsed_ms(now_ms, windows)
        if total * 1000 <= bound * elapsed_ms:
            return 0
        return math.floor(total * 1000 / bound - elapsed_ms + 0.5)

    def is_empty(self, now_ms: int, windows: Windows) -> bool:
        """Whether no window is left: then a new rate has the same value."""
        self._forget(now_ms, windows)
        return not self._windows

    def _total(self) -> float:
        return math.fsum(window[2] for window in self._windows)

    def _elapsed_ms(self, now_ms: int, windows: Windows) -> float:
        return max(now_ms - self._windows[0][0], windows.burst_ms) if self._windows else windows.burst_ms

    def _forget(self, now_ms: int, windows: Windows) -> None:
        kept = self._windows
        while kept and now_ms - kept[0][1] >= windows.span_ms:
            del kept[0]


class TokenBucket:
    """Full when it is made. `bound` may change between calls: the tokens in the bucket stay."""

    __slots__ = ("_filled_ms", "_tokens")

    def __init__(self, bound: float, now_ms: int, windows: Windows) -> None:
        self._tokens = _burst(bound, windows)
        self._filled_ms = now_ms

    def take(self, count: float, bound: float, now_ms: int, windows: Windows) -> None:
        """Takes the tokens even if fewer are there: their number is negative then."""
        self._fill(bound, now_ms, windows)
        self._tokens -= count

    def throttle_ms(self, bound: float, now_ms: int, windows: Windows) -> int:
        """How long until the bucket is at zero: 0 where it is not below."""
        self._fill(bound, now_ms, windows)
        return 0 if self._tokens >= 0 else math.floor(-self._tokens / bound * 1000 + 0.5)

    def is_full(self, bound: float, now_ms: int, windows: Windows) -> bool:
        self._fill(bound, now_ms, windows)
        return self._tokens >= _burst(bound, windows)

    def _fill(self, bound: float, now_ms: int, windows: Windows) -> None:
        filled = self._tokens + bound * (now_ms - self._filled_ms) / 1000
        self._tokens = min(_burst(bound, windows), filled)
        self._filled_ms = now_ms


def _burst(bound: float, windows: Windows) -> float:
    return bound * windows.span_ms / 1000
