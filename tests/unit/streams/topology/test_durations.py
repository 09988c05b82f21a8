from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.streams.topology.durations import duration_ms, positive_ms
from penstock.streams.topology.errors import StreamsError


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10 minutes", 600_000),
        ("1 hour 30 minutes", 5_400_000),
        ("500 milliseconds", 500),
        ("500ms", 500),
        ("2 Days", 172_800_000),
        ("10m", 600_000),
        ("1.5 hours", 5_400_000),
        ("PT10M", 600_000),
        (timedelta(seconds=1.5), 1500),
        ("0 seconds", 0),
    ],
)
def test_a_duration_is_milliseconds_when_it_is_written_as_people_do(text: str | timedelta, milliseconds: int) -> None:
    assert duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "soon", "10", "10 parsecs", "-5 seconds", "1 month", timedelta(seconds=-1), 7, "9999999 days"]
)
def test_a_duration_is_refused_when_it_is_none(text: str) -> None:
    with pytest.raises(StreamsError, match="the grace"):
        duration_ms(text, "the grace")


def test_nothing_is_refused_when_a_size_is_wanted() -> None:
    with pytest.raises(StreamsError, match="longer than nothing"):
        positive_ms("0 seconds", "the size of a window")
