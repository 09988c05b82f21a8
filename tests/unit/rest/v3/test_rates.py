"""How much a caller may ask for in a second."""

from __future__ import annotations

import pytest

from penstock.rest.errors import RestError
from penstock.rest.settings import RestSettings
from penstock.rest.v3.rates import Rates
from penstock.testing.clock import ManualClock


def _count(rates: Rates, caller: str, size: int, most: int = 1000) -> int:
    """How many records pass before one is refused."""
    for passed in range(most):
        try:
            rates.spend_record(caller, size)
        except RestError:
            return passed
    return most


def _limited(**more: str) -> dict[str, str]:
    return {
        "api.v3.produce.rate.limit.enabled": "true",
        **{name.replace("_", "."): text for name, text in more.items()},
    }


def test_nothing_is_limited_unless_the_settings_say_so() -> None:
    rates = Rates(RestSettings.of({}), ManualClock())
    for _ in range(100_000):
        rates.spend_request("alice")
    assert _count(rates, "alice", 10_000_000) == 1000


def test_a_caller_has_a_seconds_worth_and_then_what_flows_in() -> None:
    clock = ManualClock()
    limits = _limited(api_v3_produce_rate_limit_max_requests_per_sec="10")
    rates = Rates(RestSettings.of(limits), clock)
    assert _count(rates, "alice", 1) == 11  # the one that overdraws is let through
    assert _count(rates, "bob", 1) == 11
    clock.advance(500)
    assert _count(rates, "alice", 1) == 5
    clock.advance(3_600_000)
    assert _count(rates, "alice", 1) == 11


def test_bytes_are_limited_as_records_are() -> None:
    limits = _limited(api_v3_produce_rate_limit_max_bytes_per_sec="1000")
    rates = Rates(RestSettings.of(limits), ManualClock())
    assert _count(rates, "alice", 400) == 3
    with pytest.raises(RestError) as refused:
        rates.spend_record("alice", 1)
    assert (refused.value.status, refused.value.code) == (429, 42901)
    rates.spend_record("bob", 1_000_000)  # one large record passes as a whole
    with pytest.raises(RestError):
        rates.spend_record("bob", 1)


def test_those_behind_wait_when_a_record_is_larger_than_its_json() -> None:
    limits = _limited(api_v3_produce_rate_limit_max_bytes_per_sec="1000")
    rates = Rates(RestSettings.of(limits), ManualClock())
    rates.spend_record("alice", 10)
    rates.add_bytes("alice", 5_000)
    assert _count(rates, "alice", 1) == 0
