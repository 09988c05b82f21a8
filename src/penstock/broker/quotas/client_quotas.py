"""The quotas of clients, kept in step with the image, and the use of the quotas.

The broker asks for nothing of this while there is no quota: see `Throttling`.
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
from penstock.security.quotas.entities import Quota, QuotaKind, stored_quotas
from penstock.security.quotas.levels import Bound, QuotaLevels
from penstock.security.quotas.rates import Windows


def listen_to_nobody() -> None:
    """The listener while there is no quota."""


class ClientQuotas:
    def __init__(self, clock: Clock, settings: QuotaSection, metrics: QuotaMetrics) -> None:
        self.clock = clock
        windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * 1000)
        mutation_windows = Windows(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * 1000
        )
        self.produce = RateLimit(QuotaKind.PRODUCE.key, windows, metrics)
        self.fetch = RateLimit(QuotaKind.FETCH.key, windows, metrics)
        # A client loses time if it is throttled for longer than a window: counts are forgotten soon. Kafka's limit.
        self.request = RateLimit(QuotaKind.REQUEST.key, windows, metrics, windows.window_ms)
        self.mutation = BucketLimit(QuotaKind.MUTATION.key, mutation_windows, metrics)
        self.limits: Mapping[QuotaKind, Limit] = {
            QuotaKind.PRODUCE: self.produce,
            QuotaKind.FETCH: self.fetch,
            QuotaKind.REQUEST: self.request,
            QuotaKind.MUTATION: self.mutation,
        }
        self.new_producers = NewProducers(clock, settings, metrics)
        self.bounds_fetches = False  # read for each fetch, so it is an attribute of its own
        # Called for a request of a broker, which no quota throttles. `Throttling` listens.
        self.exempt: Callable[[], None] = listen_to_nobody
        self._followed: list[Quota] = []

    def follow(self, entity_configs: Mapping[str, Mapping[str, str]]) -> None:
        quotas = list(stored_quotas(entity_configs))
        if quotas == self._followed:  # entities have passwords and tags, too
            return
        self._followed = quotas
        for kind, limit in self.limits.items():
            limit.follow(QuotaLevels(quotas, kind.key))
        producer_ids = self.new_producers.limit
        producer_ids.follow(QuotaLevels(quotas, producer_ids.key))
        self.bounds_fetches = bool(self.fetch)

    @property
    def is_active(self) -> bool:
        """Whether requests have to be counted, or a client has to be throttled."""
        return any(self.limits.values()) or self.new_producers.is_owed

    # ------------------------------------------------------------------------------------------- fetches

    def most_fetched(self, context: RequestContext, asked: int) -> int:
        """The size limit of one fetch of this client, beside its first batch, which is always whole."""
        most = self.fetch.most_at_once(context.principal.name, context.client_id)
        return asked if most is None else min(asked, int(most))

    def throttle_fetch(self, context: RequestContext, size: int) -> int:
        """The throttle time of the client before it gets its records; 0 where it gets them, which counts then."""
        if not size:
            return 0
        return self.fetch.ask(context.principal.name, context.client_id, size, self.clock.monotonic_ms())

    # ------------------------------------------------------------------------------------------- changes

    def charge(self, context: RequestContext, strict_since: int) -> Charge:
        """The charge for a request that creates or deletes partitions. In versions up to a limit clients do not know
        the error that refuses the request, and are throttled afterwards instead.
        """
        bound = self.mutation.levels.find(context.principal.name, context.client_id)
        if bound is None:
            return FREE_OF_CHARGE
        return BoundCharge(self, bound, is_strict=context.api_version >= strict_since)


class Charge:
    """The charge of one request. This class charges nothing."""

    def __call__(self, partition_count: int) -> None:
        """Raises ApiError(THROTTLING_QUOTA_EXCEEDED) where the client has to wait first."""

    def settle(self) -> int:
        """The throttle time of the client from now on. Call this once, when the request is done."""
        return 0


FREE_OF_CHARGE = Charge()


class BoundCharge(Charge):
    """The controller decides in a thread, one request after another, so only that thread touches the buckets. Only the
    loop touches the published values, in `settle`.
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
