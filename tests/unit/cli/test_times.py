from __future__ import annotations

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.times import format_time, parse_duration_ms, parse_time_ms
from penstock.core.time.durations import DURATION_FORMS

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        ("0", 0),
        ("1650000000000", 1_650_000_000_000),
        ("-1h", NOW_MS - 3_600_000),
        ("-1h30m", NOW_MS - 5_400_000),
        ("+10s", NOW_MS + 10_000),
        ("-1.5d", NOW_MS - 129_600_000),
        ("-250ms", NOW_MS - 250),
        ("-1 hour 30 minutes", NOW_MS - 5_400_000),
        ("+PT1H", NOW_MS + 3_600_000),
        ("2024-01-01", 1_704_067_200_000),
        ("2024-01-01T00:00:00", 1_704_067_200_000),
        ("2024-01-01T00:00:00.250Z", 1_704_067_200_250),
        ("2024-01-01T02:00:00+02:00", 1_704_067_200_000),
        ("2024-01-01 00:00:01", 1_704_067_201_000),
    ],
)
def test_time_is_read_when_written_in_any_accepted_form(text: str, expected: int) -> None:
    assert parse_time_ms(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "-5", "-1y", "2024-13-01", "--1h", "+", "1h"])
def test_usage_error_shows_the_forms_when_time_is_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_time_ms(text, NOW_MS)
    assert "ISO 8601" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1500", 1_500),
        ("90s", 90_000),
        ("1w2d", 777_600_000),
        ("PT1H30M", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("PT0.5S", 500),
        ("pt5m", 300_000),
        ("5 minutes", 300_000),
    ],
)
def test_duration_is_read_when_written_in_any_accepted_form(text: str, expected: int) -> None:
    assert parse_duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "P", "PT", "-1h", "5 parsecs", "h", "1 month", "P1Y"])
def test_usage_error_shows_the_forms_when_duration_is_none(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration_ms(text)
    assert DURATION_FORMS in caught.value.hint


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [(-1, "-"), (0, "1970-01-01T00:00:00.000Z"), (1_704_067_200_250, "2024-01-01T00:00:00.250Z"), (2**62, str(2**62))],
)
def test_time_is_written_with_milliseconds_when_calendar_has_it(timestamp: int, expected: str) -> None:
    assert format_time(timestamp) == expected
