"""Who may connect: how many at once, and how many a second. One object for all listeners of a broker. No I/O.

Rules (KIP-402, KIP-612, Kafka's `ConnectionQuotas`):
- A connection above the number of the broker, of its listener or of its address is refused.
- An address above its `connection_creation_rate` is answered by silence: the connection is held for as long as the
  address is too fast, and then closed. It does not count as made. A client that tries again at once gains nothing.
- A listener or broker above its rate lets connections wait for their turn. Kafka stops accepting; here the connection
  is accepted and not read, which a client cannot tell apart, and which costs less than to open and close the port.
  Whoever would have to wait for longer than clients do is refused.
- A listener that is for brokers alone is exempt from the bounds of the broker: clients cannot shut brokers out. It has
  a number of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.security.quotas.entities import IP, Quota, QuotaKind
from penstock.security.quotas.rates import Rate, TokenBucket, Windows
from penstock.security.quotas.sensors import Sensors

UNBOUNDED = 2**31 - 1
# Clients give a connection up after 30 s or less.
_LONGEST_WAIT_MS = 30_000


class ConnectionBounds(NamedTuple):
    max_connections: int = UNBOUNDED
    max_protected: int = UNBOUNDED  # of the protected listener, unless `listener_connections` has a number for it
    max_creation_rate: int = UNBOUNDED
    # By the listener's name: `listener.name.NAME.max.connections`.
    listener_connections: Mapping[str, int] = {}
    listener_rates: Mapping[str, int] = {}
    max_per_address: int = UNBOUNDED
    address_overrides: Mapping[str, int] = {}
    protected_listener: str | None = None
    windows: Windows = Windows()


class AdmissionVerdict(NamedTuple):
    is_refused: bool = False
    wait_ms: int = 0  # not read before
    is_closed_then: bool = False


_SERVED = AdmissionVerdict()
_REFUSED = AdmissionVerdict(is_refused=True)


class Admission:
    def __init__(self, bounds: ConnectionBounds | None = None) -> None:
        self.bounds = bounds or ConnectionBounds()
        self._count = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._buckets: dict[str | None, TokenBucket] = {}  # of listeners; None is the broker
        self._address_rates: dict[str | None, float] = {}  # None is the default
        self._rates: Sensors[str, Rate] = Sensors()

    def limit(self, bounds: ConnectionBounds) -> None:
        """For the connections to come. Those that are open stay open."""
        self.bounds = bounds

    def limit_addresses(self, quotas: Iterable[Quota]) -> None:
        """By the `connection_creation_rate` of addresses, whose names are in the one form that addresses have here."""
        key = QuotaKind.CONNECTION.key
        self._address_rates = {quota.names[IP]: quota.values[key] for quota in quotas if key in quota.values}

    def admit(self, listener: str, address: str, now_ms: int) -> AdmissionVerdict:
        """Unless it is refused the connection counts from now on, until `leave`."""
        if self._is_full(listener, address):
            return _REFUSED
        verdict = self._pace_address(address, now_ms) or self._pace_listener(listener, now_ms)
        if not verdict.is_refused:
            self._count += 1
            self._by_listener[listener] += 1
            self._by_address[address] += 1
        return verdict

    def leave(self, listener: str, address: str) -> None:
        self._count -= 1
        self._by_listener[listener] -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def _is_full(self, listener: str, address: str) -> bool:
        bounds = self.bounds
        is_protected = listener == bounds.protected_listener
        most = bounds.listener_connections.get(listener, bounds.max_protected if is_protected else UNBOUNDED)
        if self._by_listener[listener] >= most:
            return True
        if self._count >= bounds.max_connections and not is_protected:
            return True
        allowed = bounds.address_overrides.get(address, bounds.max_per_address)
        return self._by_address.get(address, 0) >= allowed

    def _pace_address(self, address: str, now_ms: int) -> AdmissionVerdict | None:
        if not self._address_rates:
            return None
        allowed = self._address_rates.get(address, self._address_rates.get(None))
        if allowed is None:
            return None
        windows = self.bounds.windows
        rate = self._rates.get(address, Rate, lambda rate: rate.is_empty(now_ms, windows))
        rate.record(1, now_ms, windows)
        throttle_ms = min(rate.throttle_ms(allowed, now_ms, windows), windows.window_ms)
        if not throttle_ms:
            return None
        rate.record(-1, now_ms, windows)
        return AdmissionVerdict(wait_ms=throttle_ms, is_closed_then=True)

    def _pace_listener(self, listener: str, now_ms: int) -> AdmissionVerdict:
        bounds = self.bounds
        rates: list[tuple[str | None, int]] = [(listener, bounds.listener_rates.get(listener, UNBOUNDED))]
        if listener != bounds.protected_listener:
            rates.append((None, bounds.max_creation_rate))
        wait_ms, taken_from = 0, []
        for key, rate in rates:
            if rate == UNBOUNDED:
                continue
            if not rate:
                return _REFUSED
            bucket = self._buckets.get(key)
            if bucket is None:
                bucket = self._buckets[key] = TokenBucket(rate, now_ms, bounds.windows)
            bucket.take(1, rate, now_ms, bounds.windows)
            wait_ms = max(wait_ms, bucket.throttle_ms(rate, now_ms, bounds.windows))
            taken_from.append((bucket, rate))
        if wait_ms > _LONGEST_WAIT_MS:
            for bucket, rate in taken_from:
                bucket.take(-1, rate, now_ms, bounds.windows)
            return _REFUSED
        return AdmissionVerdict(wait_ms=wait_ms) if wait_ms else _SERVED
