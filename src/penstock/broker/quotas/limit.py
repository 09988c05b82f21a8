"""One kind of quota at run time: the use of each client, and the throttle times of clients.

Metrics name the entity of a quota, which an operator has named, and never the names that clients give themselves: their
number has no bound.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.core.metrics.counters import QuotaMetrics
from penstock.core.metrics.samples import Labels, Number
from penstock.security.quotas.levels import Bound, QuotaLevels, SensorKey
from penstock.security.quotas.rates import Rate, TokenBucket, Windows
from penstock.security.quotas.sensors import Sensors

# The number of published entities of one kind. More would make a scrape long; the use of all entities counts even so.
MAX_PUBLISHED = 1_000
# The broker does not notice the end of a connection that it does not read, so no throttle is longer.
LONGEST_THROTTLE_MS = 3_600_000

Entity = tuple[str | None, str | None]  # user and client id: None for the default, empty where there is none


class EntityUse:
    """The joint use of the clients of one entity."""

    __slots__ = ("rate", "throttle_ms", "throttles")

    def __init__(self) -> None:
        self.rate = Rate()
        self.throttles = Rate()
        self.throttle_ms = Rate()

    def average_throttle_ms(self, now_ms: int, windows: Windows) -> float:
        """Over the requests that were throttled in the windows."""
        count = self.throttles.per_second(now_ms, windows)
        return self.throttle_ms.per_second(now_ms, windows) / count if count else 0.0


class Limit:
    """The entities with quotas of one kind, and their published values."""

    def __init__(self, key: str, windows: Windows, metrics: QuotaMetrics) -> None:
        self.key = key
        self.windows = windows
        self.levels = QuotaLevels((), key)
        self._metrics = metrics
        self._uses: dict[Entity, EntityUse] = {}

    def __bool__(self) -> bool:
        return bool(self.levels)

    def follow(self, levels: QuotaLevels) -> None:
        """Counted use stays counted."""
        self.levels = levels
        entities = list(levels.entities())[:MAX_PUBLISHED]
        self._uses = {entity: self._uses.get(entity) or EntityUse() for entity in entities}

    def note(self, bound: Bound, value: float, throttle_ms: int, now_ms: int) -> None:
        if throttle_ms:
            throttled = self._metrics.throttled
            throttled[self.key] = throttled.get(self.key, 0) + 1
        use = self._uses.get((bound.user, bound.client_id))
        if use is not None:
            use.rate.record(value, now_ms, self.windows)
            if throttle_ms:
                use.throttles.record(1, now_ms, self.windows)
                use.throttle_ms.record(throttle_ms, now_ms, self.windows)

    def rates(self, now_ms: int) -> Iterable[tuple[Labels, Number]]:
        for entity, use in self._uses.items():
            yield _labels(entity), use.rate.per_second(now_ms, self.windows)

    def throttle_times(self, now_ms: int) -> Iterable[tuple[Labels, Number]]:
        for entity, use in self._uses.items():
            yield _labels(entity), use.average_throttle_ms(now_ms, self.windows)


class RateLimit(Limit):
    """A limit of bytes, or of time."""

    def __init__(
        self, key: str, windows: Windows, metrics: QuotaMetrics, longest_throttle_ms: int = LONGEST_THROTTLE_MS
    ) -> None:
        super().__init__(key, windows, metrics)
        self._longest_throttle_ms = longest_throttle_ms
        self.sensors: Sensors[SensorKey, Rate] = Sensors()

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> int:
        """Counts a use that has happened. Returns the throttle time of the client in milliseconds."""
        bound = self.levels.find(user, client_id)
        if bound is None:
            return 0
        rate = self._rate(bound, now_ms)
        rate.record(value, now_ms, self.windows)
        throttle_ms = self._throttle_ms(bound, rate, now_ms)
        self.note(bound, value, throttle_ms, now_ms)
        return throttle_ms

    def ask(self, user: str, client_id: str | None, value: float, now_ms: int) -> int:
        """The throttle time of the client before a use. 0 where the use may happen now: then it counts.

        The use may have any size, and a client that has waited gets it: a client that may not even have the smallest
        possible use would never get on. Kafka asks whether the use would be too much, which a batch larger than the
        quota always is.
        """
        bound = self.levels.find(user, client_id)
        if bound is None:
            return 0
        rate = self._rate(bound, now_ms)
        throttle_ms = self._throttle_ms(bound, rate, now_ms)
        if not throttle_ms:
            rate.record(value, now_ms, self.windows)
        self.note(bound, 0 if throttle_ms else value, throttle_ms, now_ms)
        return throttle_ms

    def _throttle_ms(self, bound: Bound, rate: Rate, now_ms: int) -> int:
        return min(rate.throttle_ms(bound.per_second, now_ms, self.windows), self._longest_throttle_ms)

    def most_at_once(self, user: str, client_id: str | None) -> float | None:
        """The use that a client may have without a wait; None where nothing bounds the client."""
        bound = self.levels.find(user, client_id)
        return None if bound is None else bound.per_second * self.windows.burst_ms / 1000

    def _rate(self, bound: Bound, now_ms: int) -> Rate:
        return self.sensors.get(bound.counted_for, Rate, lambda rate: rate.is_empty(now_ms, self.windows))


class BucketLimit(Limit):
    """A limit of changes that the controller makes. Counts are kept for as long as a bucket takes to fill."""

    def __init__(self, key: str, windows: Windows, metrics: QuotaMetrics) -> None:
        super().__init__(key, windows, metrics)
        self.sensors: Sensors[SensorKey, TokenBucket] = Sensors()

    def bucket(self, bound: Bound, now_ms: int) -> TokenBucket:
        return self.sensors.get(
            bound.counted_for,
            lambda: TokenBucket(bound.per_second, now_ms, self.windows),
            lambda bucket: bucket.is_full(bound.per_second, now_ms, self.windows),
        )


def _labels(entity: Entity) -> Labels:
    user, client_id = ("<default>" if name is None else name for name in entity)
    return user, client_id
