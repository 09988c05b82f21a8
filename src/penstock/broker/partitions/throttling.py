"""The throttle of one direction of replication, for all partitions of a broker (KIP-73).

Rules:
- Topics name the throttled replicas; the broker's setting limits their rate, all of them together.
- A replica in sync is never throttled, and its bytes do not count: otherwise a move would starve while writers are
  faster than the throttle. (Kafka counts them, and warns of that.)
- At least one batch moves at a time, however low the rate is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from penstock.core.clock import Clock
from penstock.core.log_settings import NO_LIMIT
from penstock.core.types import TopicPartition
from penstock.replication.throttle import RateLimiter


class Holder(Protocol):
    """Holds throttled partitions back."""

    def release(self) -> None:
        """The throttle has changed: check all held partitions again."""


class Throttle:
    __slots__ = ("_clock", "granted", "holders", "limiter", "topics")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.topics: dict[str, Collection[int]] = {}  # the throttled partitions of each topic; empty without a throttle
        self.limiter = RateLimiter()
        self.granted = 0  # bytes that followers have requested and not received yet
        self.holders: dict[Holder, None] = {}

    def name(self, topic: str, partitions: Collection[int] | None) -> None:
        """The throttled partitions of a topic; None for none."""
        if partitions is None:
            self.topics.pop(topic, None)
        else:
            self.topics[topic] = partitions

    def limit(self, rate: int, window_count: int, window_ms: int) -> None:
        """Sets the limit. Counted bytes stay counted, unless the windows change, which happens at the start alone."""
        if not self.limiter.has_windows(window_count, window_ms):
            self.limiter = RateLimiter(rate, window_count, window_ms)
        self.limiter.limit = rate

    def changed(self) -> None:
        """Call after `name` and `limit`."""
        for holder in list(self.holders):
            holder.release()

    def concerns(self, topic_partition: TopicPartition) -> bool:
        topic, index = topic_partition
        partitions = self.topics.get(topic)
        return partitions is not None and index in partitions

    @property
    def is_limited(self) -> bool:
        return self.limiter.limit != NO_LIMIT

    def note(self, size: int) -> None:
        self.limiter.note(size, self._clock.monotonic_ms())

    def is_exceeded(self) -> bool:
        return self.limiter.is_exceeded(self._clock.monotonic_ms())

    def room(self) -> int:
        return self.limiter.room(self._clock.monotonic_ms())

    def free_in_ms(self) -> int:
        now_ms = self._clock.monotonic_ms()
        return self.limiter.free_at_ms(now_ms) - now_ms

    def rate(self) -> float:
        return self.limiter.rate(self._clock.monotonic_ms())


class Allowance:
    """The bytes of throttled partitions that one answer may carry."""

    __slots__ = ("_throttle", "left", "size")

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self.left = -1 if throttle.is_exceeded() else throttle.room()
        self.size = 0

    @property
    def is_open(self) -> bool:
        """Whether another partition may be read: the first partition in any case, unless the limit is exceeded."""
        return self.left > 0 or (self.left == 0 and not self.size)

    def take(self, size: int) -> None:
        self.size += size
        self.left = max(self.left - size, 0)

    def settle(self) -> None:
        """The answer is sent."""
        self._throttle.note(self.size)
