"""The rates of one caller: requests, records and bytes each second. Off unless the settings set them.

A caller is a principal, or an address where no caller logs in. A bucket of one second's worth fills at the allowed
rate; a caller that finds its bucket overdrawn gets an error to try later (429, 42901). The number of remembered callers
is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.clock import Clock
from penstock.rest.errors import TOO_MANY_REQUESTS, RestError
from penstock.rest.settings import RestSettings
from penstock.security.quotas.rates import TokenBucket, Windows
from penstock.security.quotas.sensors import Sensors

if TYPE_CHECKING:
    from starlette.requests import Request

_ONE_SECOND = Windows(window_count=1, window_ms=1_000)


def caller_of(request: Request) -> str:
    principal = getattr(request.state, "principal", None)
    return principal or (request.client.host if request.client else "")


class _Limit:
    """The limit of one counted value; 0 is no limit."""

    def __init__(self, per_second: int, name: str) -> None:
        self._per_second = per_second
        self._name = name
        self._buckets: Sensors[str, TokenBucket] = Sensors()

    def spend(self, caller: str, count: int, now_ms: int) -> None:
        """A request that is larger than the bucket passes as a whole, and later requests wait. Raises RestError."""
        self._spend(caller, count, now_ms, may_refuse=True)

    def add(self, caller: str, count: int, now_ms: int) -> None:
        """An admitted request has turned out to be larger: later requests wait longer."""
        self._spend(caller, count, now_ms, may_refuse=False)

    def _spend(self, caller: str, count: int, now_ms: int, *, may_refuse: bool) -> None:
        bound = self._per_second
        if not bound:
            return

        def is_idle(bucket: TokenBucket) -> bool:
            return bucket.is_full(bound, now_ms, _ONE_SECOND)

        bucket = self._buckets.get(caller, lambda: TokenBucket(bound, now_ms, _ONE_SECOND), is_idle)
        if may_refuse and bucket.throttle_ms(bound, now_ms, _ONE_SECOND):
            raise RestError(TOO_MANY_REQUESTS, f"The rate limit of {bound} {self._name} a second is exceeded.")
        bucket.take(count, bound, now_ms, _ONE_SECOND)


class Rates:
    def __init__(self, settings: RestSettings, clock: Clock) -> None:
        self._clock = clock
        is_limited, is_produce_limited = settings["rate.limit.enable"], settings["api.v3.produce.rate.limit.enabled"]

        def limit(is_on: bool, name: str, what: str) -> _Limit:
            return _Limit(settings.number(name) if is_on else 0, what)

        self._requests = limit(is_limited, "rate.limit.permits.per.sec", "requests")
        self._records = limit(is_produce_limited, "api.v3.produce.rate.limit.max.requests.per.sec", "records")
        self._bytes = limit(is_produce_limited, "api.v3.produce.rate.limit.max.bytes.per.sec", "bytes")

    def spend_request(self, caller: str) -> None:
        """Raises RestError."""
        self._requests.spend(caller, 1, self._clock.monotonic_ms())

    def spend_record(self, caller: str, size: int) -> None:
        """Raises RestError."""
        now_ms = self._clock.monotonic_ms()
        self._records.spend(caller, 1, now_ms)
        self._bytes.spend(caller, size, now_ms)

    def add_bytes(self, caller: str, count: int) -> None:
        """Adds the excess of a record that is larger than its JSON, which `spend_record` has counted."""
        self._bytes.add(caller, count, self._clock.monotonic_ms())
