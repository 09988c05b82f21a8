"""The one grammar of durations. Every text is read here; what callers refuse beside is tested with them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock.core.time.durations import DURATION_FORMS, Duration, DurationError, duration_ms, duration_text


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [
        ("10m", 600_000),
        ("10M", 600_000),
        ("90s", 90_000),
        ("1h30m", 5_400_000),
        ("1 h 30 min", 5_400_000),
        ("1.5h", 5_400_000),
        ("250ms", 250),
        ("1500us", 1),
        ("0.5ms", 0),
        ("1.5ms", 2),
        ("1.0005s", 1000),
        ("0.7ms 0.8ms", 2),
        (" 10 minutes ", 600_000),
        ("1 Hour 30 Minutes", 5_400_000),
        ("1hour30minutes", 5_400_000),
        ("2.5 seconds", 2500),
        ("1w2d", 777_600_000),
        ("1 week", 604_800_000),
        ("PT1H30M", 5_400_000),
        ("pt0.5s", 500),
        ("PT1.5H", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("P0D", 0),
        ("0 seconds", 0),
        (f"{2**63 - 1}ms", 2**63 - 1),
        (timedelta(seconds=1.5), 1500),
        (timedelta(microseconds=999), 0),
    ],
)
def test_a_duration_is_milliseconds_when_it_has_an_accepted_form(duration: Duration, milliseconds: int) -> None:
    assert duration_ms(duration) == milliseconds


@pytest.mark.parametrize(
    ("duration", "why"),
    [
        ("", ""),
        ("soon", ""),
        ("h", ""),
        ("P", ""),
        ("PT", ""),
        ("10 minutes ago", ""),
        ("1h30", ""),
        ("1,5h", ""),
        ("9" * 21 + "s", ""),
        ("10", "no unit"),
        ("10 parsecs", "no unit 'parsecs'"),
        ("-5s", "negative"),
        (timedelta(seconds=-1), "negative"),
        ("1 month", "month or year"),
        ("2 years", "month or year"),
        ("1mo", "month or year"),
        ("P1M", "month or year"),
        ("P1Y2D", "month or year"),
    ],
)
def test_a_duration_is_refused_with_the_reason_when_it_is_none(duration: Duration, why: str) -> None:
    with pytest.raises(DurationError, match="is not a duration") as caught:
        duration_ms(duration)
    assert why in caught.value.why
    assert bool(why) == bool(caught.value.why)
    assert DURATION_FORMS in caught.value.hint


def test_a_bare_number_is_milliseconds_when_the_caller_takes_one() -> None:
    assert duration_ms("1500", takes_bare_number=True) == 1500
    with pytest.raises(DurationError):
        duration_ms("-1", takes_bare_number=True)


def test_a_form_is_accepted_when_the_error_names_it() -> None:
    forms = DURATION_FORMS.replace(" or ", ", ").split(", ")
    assert [duration_ms(form) for form in forms] == [600_000, 5_400_000, 5_400_000, 500, 600_000, 5_400_000, 5_400_000]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 milliseconds"),
        (1, "1 millisecond"),
        (5_400_000, "1 hour 30 minutes"),
        (604_800_000, "7 days"),
        (90_061_001, "1 day 1 hour 1 minute 1 second 1 millisecond"),
    ],
)
def test_a_duration_is_written_from_its_largest_unit_when_it_has_several(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text
