"""The one grammar of durations: command line, options of Spark's source, applications of streams.

| form | examples |
|---|---|
| numbers with units, in any case | `10m`, `1h30m`, `1.5h`, `500 ms`, `10 minutes`, `1 hour 30 minutes` |
| ISO 8601 | `PT1H30M`, `P1DT12H`, `P2W` |
| a bare number, where the caller takes one | `1500` is milliseconds |
| a timedelta, where the caller is Python | `timedelta(minutes=10)` |

`m` is minutes everywhere. Months and years are refused, because their length in days is not fixed. No duration is
negative. A fraction is rounded to the nearest millisecond; microseconds that make no whole millisecond are cut, as
Spark does in its own options.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

Duration: TypeAlias = str | timedelta

DURATION_FORMS = "10m, 1h30m, 1.5h, 500ms, 10 minutes, 1 hour 30 minutes or PT1H30M"

_SECOND_MS, _MINUTE_MS, _HOUR_MS, _DAY_MS, _WEEK_MS = 1000, 60_000, 3_600_000, 86_400_000, 604_800_000
_UNITS_MS: dict[str, int] = (
    dict.fromkeys(("ms", "millisecond", "milliseconds"), 1)
    | dict.fromkeys(("s", "sec", "secs", "second", "seconds"), _SECOND_MS)
    | dict.fromkeys(("m", "min", "mins", "minute", "minutes"), _MINUTE_MS)
    | dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), _HOUR_MS)
    | dict.fromkeys(("d", "day", "days"), _DAY_MS)
    | dict.fromkeys(("w", "week", "weeks"), _WEEK_MS)
)
_MICROSECONDS = frozenset(("us", "microsecond", "microseconds"))
_NO_FIXED_LENGTH = frozenset(("mo", "mon", "month", "months", "y", "yr", "yrs", "year", "years"))
# Written from the largest; weeks are written as days.
_WRITTEN = (
    ("day", _DAY_MS),
    ("hour", _HOUR_MS),
    ("minute", _MINUTE_MS),
    ("second", _SECOND_MS),
    ("millisecond", 1),
)

# Twenty digits hold every 64-bit number; more would only make the arithmetic slow.
_NUMBER = r"[0-9]{1,20}(?:\.[0-9]{1,20})?"
_PART = re.compile(rf"({_NUMBER})\s*([a-z]+)\s*")
_PARTS = re.compile(rf"(?:{_NUMBER}\s*[a-z]+\s*)+")
_BARE = re.compile(r"[0-9]{1,20}")
# Also the form that kafka-consumer-groups takes for --by-duration.
_ISO = re.compile(
    rf"p(?:({_NUMBER})y)?(?:({_NUMBER})m)?(?:({_NUMBER})w)?(?:({_NUMBER})d)?"
    rf"(?:t(?:({_NUMBER})h)?(?:({_NUMBER})m)?(?:({_NUMBER})s)?)?"
)
_ISO_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


class DurationError(ValueError):
    """The text is not a duration. `why` is the reason where it is not plain from the text; `hint` shows the forms."""

    hint = f"Write it like {DURATION_FORMS}."

    def __init__(self, duration: object, why: str = "") -> None:
        super().__init__(f"{duration!r} is not a duration" + (f": {why}" if why else ""))
        self.why = why


def duration_ms(duration: Duration, *, takes_bare_number: bool = False) -> int:
    """In milliseconds. DurationError for what is not a duration. `takes_bare_number`: `1500` is 1500 ms."""
    if isinstance(duration, timedelta):
        if duration < timedelta(0):
            raise DurationError(str(duration), "a duration cannot be negative")
        return duration // timedelta(milliseconds=1)
    if not isinstance(duration, str):
        raise DurationError(duration)
    text = duration.strip().lower()
    if _BARE.fullmatch(text):
        if takes_bare_number:
            return int(text)
        raise DurationError(duration, "the number has no unit")
    if _PARTS.fullmatch(text):
        return _sum_ms(duration, _PART.findall(text))
    iso = _ISO.fullmatch(text)
    if iso and any(iso.groups()):
        return _sum_ms(duration, [pair for pair in zip(iso.groups(), _ISO_UNITS, strict=True) if pair[0]])
    raise DurationError(duration, "a duration cannot be negative" if text.startswith("-") else "")


def _sum_ms(duration: str, parts: list[tuple[str, str]]) -> int:
    from fractions import Fraction  # only what is parsed pays for it; a float would change a large number

    milliseconds = microseconds = Fraction(0)
    for number, unit in parts:
        if unit in _NO_FIXED_LENGTH:
            raise DurationError(duration, "the length of a month or year is not fixed, so write days")
        if unit in _MICROSECONDS:
            microseconds += Fraction(number)
        elif unit in _UNITS_MS:
            milliseconds += Fraction(number) * _UNITS_MS[unit]
        else:
            raise DurationError(duration, f"there is no unit {unit!r}")
    return round(milliseconds) + microseconds // 1000


def duration_text(milliseconds: int) -> str:
    """As people, and Spark's intervals, write it: "1 hour 30 minutes". `duration_ms` reads it back."""
    parts = []
    rest = milliseconds
    for unit, size_ms in _WRITTEN:
        count, rest = divmod(rest, size_ms)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 milliseconds"
