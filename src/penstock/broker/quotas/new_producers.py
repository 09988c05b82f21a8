"""The rate at which a user may write with producer ids that a partition does not know yet (`producer_ids_rate`,
KIP-936).

A partition remembers each producer id for a day, and any client that may write can write with any id. If a new id could
evict another id, a stranger could erase the duplicate detection of an honest producer. So new ids are delayed, and
known ids are never checked.

Rules:
- An id counts when a partition takes its first batch: the partition itself knows whether the id is new. KIP-936 counts
  ids of a broker, by Bloom filters; here an id counts in each partition, because there it takes memory.
- Each user has a bucket that fills at the rate of its quota and holds the inflow of all windows. Users without a quota
  have the rate of `penstock.producer.ids.rate`. Clients without a login count by their addresses.
- A user whose bucket is below zero is throttled until the bucket is at zero again, as by other quotas: the written
  batches stay. A user that dodges the delay on ever new connections, and owes more than half a minute, gets an error
  for new ids that every producer repeats.
- A new transactional id counts as well: its coordinator remembers it for a week.

While no client is over its bound, the broker checks only the first batch of a producer in a partition.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.quotas.limit import BucketLimit
from penstock.broker.session import ANONYMOUS, RequestContext
from penstock.core.clock import Clock
from penstock.core.config.sections import QuotaSection
from penstock.core.metrics.counters import QuotaMetrics
from penstock.log.state.producer_state import ProducerState
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer
from penstock.security.quotas.entities import QuotaKind
from penstock.security.quotas.levels import Bound
from penstock.security.quotas.rates import Windows

# Producers give a batch up after two minutes (`delivery.timeout.ms`), so no client waits for longer than a part of
# that.
LONGEST_DELAY_MS = 30_000
_NO_LEVEL = -1
_REFUSAL = "new producer ids of this user come faster than its quota producer_ids_rate allows"


def hold_nobody_back(_throttle_ms: int) -> None:
    """The throttle while no client is over its bound."""


def tell_nobody() -> None:
    """The listener before the broker serves."""


def is_new(producers: ProducerState, records: Buffer) -> bool:
    """Whether the partition has to remember the producer of this batch, which has a whole header."""
    producer_id = read_header(records).producer_id
    return producer_id >= 0 and producer_id not in producers.entries


class NewProducers:
    def __init__(self, clock: Clock, settings: QuotaSection, metrics: QuotaMetrics) -> None:
        windows = Windows(
            settings.penstock_producer_id_quota_window_num,
            settings.penstock_producer_id_quota_window_size_seconds * 1000,
        )
        self.limit = BucketLimit(QuotaKind.PRODUCER_IDS.key, windows, metrics)
        # Some user has exceeded its rate. Read for each batch, so it is an attribute of its own.
        self.is_owed = False
        self.hold_back: Callable[[int], None] = hold_nobody_back  # throttles the client of the current request
        self.on_owed_changed: Callable[[], None] = tell_nobody
        self._clock = clock
        self._default_rate = settings.penstock_producer_ids_rate
        self._owed_until_ms = 0

    def charge(self, context: RequestContext) -> None:
        """Charges the client for a producer that some state remembers from now on."""
        bound = self._bound(context)
        if bound is None:
            return
        now_ms = self._clock.monotonic_ms()
        self.limit.bucket(bound, now_ms).take(1, bound.per_second, now_ms, self.limit.windows)
        self._hold_back(bound, 1, min(self._delay_ms(bound, now_ms), LONGEST_DELAY_MS), now_ms)

    def check_batch(self, context: RequestContext, producers: ProducerState, records: Buffer) -> None:
        """ApiError for the first batch of a producer whose user owes too much. `records` has a whole header."""
        if is_new(producers, records) and self.is_refused(context):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, _REFUSAL)

    def is_refused(self, context: RequestContext) -> bool:
        """Whether the client may not bring any new id now. Then the client is throttled."""
        bound = self._bound(context)
        if bound is None:
            return False
        now_ms = self._clock.monotonic_ms()
        if self._delay_ms(bound, now_ms) < LONGEST_DELAY_MS:
            return False
        self._hold_back(bound, 0, LONGEST_DELAY_MS, now_ms)
        return True

    def settle(self) -> None:
        """Call this now and then, while some user owes."""
        if self.is_owed and self._clock.monotonic_ms() >= self._owed_until_ms:
            self.is_owed = False
            self.on_owed_changed()

    def _hold_back(self, bound: Bound, count: int, delay_ms: int, now_ms: int) -> None:
        self.limit.note(bound, count, delay_ms, now_ms)
        if not delay_ms:
            return
        self._owed_until_ms = max(self._owed_until_ms, now_ms + delay_ms)
        if not self.is_owed:
            self.is_owed = True
            self.on_owed_changed()
        self.hold_back(delay_ms)

    def _delay_ms(self, bound: Bound, now_ms: int) -> int:
        return self.limit.bucket(bound, now_ms).throttle_ms(bound.per_second, now_ms, self.limit.windows)

    def _bound(self, context: RequestContext) -> Bound | None:
        name = context.principal.name
        bound = self.limit.levels.find(name, None)
        if bound is None and self._default_rate:
            counted_for = context.client if context.principal == ANONYMOUS else name
            return Bound(self._default_rate, (_NO_LEVEL, counted_for, ""), "", "")
        return bound
