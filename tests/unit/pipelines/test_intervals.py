from __future__ import annotations

import pytest

from penstock.pipelines.intervals import is_no_interval, spark_interval


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("10m", "10 minutes"),
        ("1h30m", "1 hour 30 minutes"),
        ("PT0.5S", "500 milliseconds"),
        ("10minutes", "10 minutes"),
        ("10 minutes", "10 minutes"),
        ("90 seconds", "90 seconds"),
        ("1500 microseconds", "1500 microseconds"),
        ("1 Day 2 Hours", "1 Day 2 Hours"),
        ("1 month", "1 month"),
        ("soon", "soon"),
        ("10", "10"),
    ],
)
def test_an_interval_is_written_out_when_spark_would_not_read_it(text: str, interval: str) -> None:
    assert spark_interval(text) == interval


@pytest.mark.parametrize("text", ["", "soon", "10", "10 parsecs", "second", "10 ms or so"])
def test_a_text_is_no_interval_when_it_has_no_unit_or_no_number(text: str) -> None:
    assert is_no_interval(text)


@pytest.mark.parametrize(
    "text", ["10m", "PT0.5S", "1500 microseconds", "INTERVAL '1' SECOND", "interval 1 day", "-1 day"]
)
def test_spark_judges_an_interval_when_it_may_be_one(text: str) -> None:
    assert not is_no_interval(text)
