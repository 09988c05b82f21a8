"""The quotas of clients, kept in step with the image, and what is used of them.

Nothing of this is asked for while there is no quota: see `Throttling`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.broker.quotas.limit import LONGEST_THROTTLE_MS, BucketLimit, Limit, RateLimit
from penstock.broker.quotas.new_producers import NewProducers
from penstock.broker.session import RequestContext
from penstock.core.clock import Clock
from penstock.core.config.sections import QuotaSection
from penstock.core.metrics.counters import QuotaMetrics
from penstock.protocol.errors import ApiError, ErrorCode, describe
from penstock.security.quotas.entities import QuotaKind, stored_quotas
from penstock.security.quotas.levels import Bound, QuotaLevels
from penstock.security.quotas.rates import Windows

_NO_ENTITIES: Mapping[str, Mapping[str, str]] = {}


def listen_to_nobody() -> None:
    """While there is no quota."""


class ClientQuotas:
    def __init__(self, clock: Clock, settings: QuotaSection, metrics: QuotaMetrics) -> None:
        self.clock = clock
        windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        mutation_windows = Windows(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1000
        )
        self.produce = RateLimit(QuotaKind.PRODUCE.key, windows, metrics)
        self.fetch = RateLimit(QuotaKind.FETCH.key, windows, metrics)
        # Time is lost by holding a client back for longer than a window: what is counted is soon forgotten. Kafka's.
        self.request = RateLimit(QuotaKind.REQUEST.key, windows, metrics, windows.window_ms)
        self.mutation = BucketLimit(QuotaKind.MUTATION.key, mutation_windows, metrics)
        self.limits: Mapping[QuotaKind, Limit] = {
            QuotaKind.PRODUCE: self.produce,
            QuotaKind.FETCH: self.fetch,
            QuotaKind.REQUEST: self.request,
            QuotaKind.MUTATION: self.mutation,
        }
        self.new_producers = NewProducers(clock, settings, metrics)
        self.bounds_fetches = False  # asked for each fetch, so it is an attribute of its own
        # Called for a request of a broker, which no quota holds back. `Throttling` listens.
        self.exempt: Callable[[], None] = listen_to_nobody
        self._followed = _NO_ENTITIES

    def follow(self, entity_configs: Mapping[str, Mapping[str, str]]) -> None:
        if entity_configs is self._followed:
            return
        self._followed = entity_configs
        quotas = list(stored_quotas(entity_configs))
        for kind, limit in self.limits.items():
            limit.follow(QuotaLevels(quotas, kind.key))
        producer_ids = self.new_producers.limit
        producer_ids.follow(QuotaLevels(quotas, producer_ids.key))
        self.bounds_fetches = bool(self.fetch)

    @property
    def is_active(self) -> bool:
        """Whether requests are to be counted, or somebody is to be held back."""
        return any(self.limits.values()) or self.new_producers.is_owed

    # ------------------------------------------------------------------------------------------- fetches

    def most_fetched(self, context: RequestContext, asked: int) -> int:
        """How much one fetch of this client may bring, beside its first batch, which is always whole."""
        most = self.fetch.most_at_once(context.principal.name, context.client_id)
        return asked if most is None else min(asked, int(most))

    def throttle_fetch(self, context: RequestContext, size: int) -> int:
        """How long the client has to wait for what it would get; 0 where it gets it, which counts then."""
        if not size:
            return 0
        return self.fetch.ask(context.principal.name, context.client_id, size, self.clock.monotonic_ms())

    # ------------------------------------------------------------------------------------------- changes

    def charge(self, context: RequestContext, strict_since: int) -> Charge:
        """For a request that makes or deletes partitions. Up to a version clients do not know the error that refuses
        them, and are held back afterwards instead.
        """
        bound = self.mutation.levels.find(context.principal.name, context.client_id)
        if bound is None:
            return FREE_OF_CHARGE
        return BoundCharge(self, bound, is_strict=context.api_version >= strict_since)


class Charge:
    """What one request has to be charged for. This one costs nothing."""

    def __call__(self, partition_count: int) -> None:
        """Raises ApiError(THROTTLING_QUOTA_EXCEEDED) where the client has to wait first."""

    def settle(self) -> int:
        """How long the client has to stop, seen from now. To be asked once, when the request is done."""
        return 0


FREE_OF_CHARGE = Charge()


class BoundCharge(Charge):
    """The controller decides in a thread, one request after another, so the buckets are touched there alone. What is
    published is touched on the loop alone, in `settle`.
    """

    def __init__(self, quotas: ClientQuotas, bound: Bound, *, is_strict: bool) -> None:
        self._quotas = quotas
        self._bound = bound
        self._is_strict = is_strict
        self._charged = 0
        self._throttled_until_ms = 0

    def __call__(self, partition_count: int) -> None:
        limit, bound = self._quotas.mutation, self._bound
        now_ms = self._quotas.clock.monotonic_ms()
        bucket = limit.bucket(bound, now_ms)
        throttle_ms = bucket.throttle_ms(bound.per_second, now_ms, limit.windows)
        if self._is_strict and throttle_ms:
            self._throttled_until_ms = now_ms + throttle_ms
            code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
            raise ApiError(code, describe(code))
        bucket.take(partition_count, bound.per_second, now_ms, limit.windows)
        self._charged += partition_count
        if not self._is_strict:
            self._throttled_until_ms = now_ms + bucket.throttle_ms(bound.per_second, now_ms, limit.windows)

    def settle(self) -> int:
        now_ms = self._quotas.clock.monotonic_ms()
        throttle_ms = min(max(self._throttled_until_ms - now_ms, 0), LONGEST_THROTTLE_MS)
        self._quotas.mutation.note(self._bound, self._charged, throttle_ms, now_ms)
        return throttle_ms
