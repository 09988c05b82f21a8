from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.plans.pace import Pace
from penstock.cli.views.latency import PERCENTILES, Latencies
from penstock.cli.views.perf import Throughput, format_ms, report_document, report_fields


def measure(values: list[float]) -> Latencies:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    return latencies


def test_everything_is_zero_when_nothing_was_measured() -> None:
    assert set(Latencies().summary().values()) == {0.0}


def test_percentiles_are_within_one_percent_when_values_are_spread() -> None:
    latencies = measure([float(value) for value in range(1, 10_001)])
    for fraction in PERCENTILES.values():
        assert latencies.percentile(fraction) == pytest.approx(fraction * 10_000, rel=0.011)
    assert latencies.summary()["max"] == 10_000
    assert latencies.summary()["mean"] == pytest.approx(5_000.5)


@given(st.lists(st.floats(0, 10**6), min_size=1, max_size=50))
def test_percentiles_grow_and_never_pass_the_maximum_whatever_was_measured(values: list[float]) -> None:
    latencies = measure(values)
    numbers = [latencies.percentile(fraction) for fraction in sorted(PERCENTILES.values())]
    assert numbers == sorted(numbers)
    assert numbers[-1] <= max(values)


def test_record_waits_for_its_turn_when_rate_is_limited() -> None:
    pace = Pace(10.0, started=100.0)
    assert pace.delay(0, 100.0) == 0.0
    assert pace.delay(5, 100.2) == pytest.approx(0.3)
    assert pace.delay(5, 101.0) == 0.0
    assert Pace(None, 100.0).delay(10**9, 100.0) == 0.0


def test_rates_are_zero_when_no_time_passed() -> None:
    assert Throughput(0, 0, 0.0).records_per_second == 0.0
    assert Throughput(0, 0, 0.0).megabytes_per_second == 0.0


def test_document_and_lines_tell_the_same_when_reported() -> None:
    throughput = Throughput(1000, 2_000_000, 2.0, failed=1)
    latencies = measure([1.0] * 1000)
    document = report_document("produce", throughput, latencies)
    assert document["records_per_second"] == 500
    assert document["megabytes_per_second"] == 1
    assert document["latency_ms"]["p99.9"] == 1.0
    lines = dict(report_fields(throughput, latencies))
    assert lines["Throughput"] == "500 records/s, 1.00 MB/s"
    assert lines["Failed"] == "1"
    assert "latency_ms" not in report_document("consume", throughput, None)


def test_three_digits_are_shown_when_milliseconds_are_formatted() -> None:
    assert [format_ms(value) for value in (0.1234, 12.34, 1234.5)] == ["0.12", "12.3", "1,234"]
