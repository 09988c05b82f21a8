"""Durations, as people write them: "10 minutes", "1 hour 30 minutes", "500 ms", or a timedelta."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TypeAlias

from penstock.streams.topology.errors import StreamsError

Duration: TypeAlias = str | timedelta

_UNITS_MS = {
    "millisecond": 1,
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_SHORT = {"ms": "millisecond", "s": "second", "sec": "second", "min": "minute", "h": "hour", "d": "day"}
# Written from the largest; weeks are written as days.
_WRITTEN = ("day", "hour", "minute", "second", "millisecond")
_PART = re.compile(r"(\d{1,15})\s*([a-z]+)")
# Spark counts microseconds in 64 bits; a thousand years are far from that and from any use.
_LARGEST_MS = 1000 * 366 * 86_400_000


def duration_ms(duration: Duration, what: str = "the duration") -> int:
    """In milliseconds. `what` names the parameter in the error's message."""
    if isinstance(duration, timedelta):
        milliseconds = duration // timedelta(milliseconds=1)
        if milliseconds < 0:
            raise StreamsError(f"{what} is negative: {duration}")
    else:
        milliseconds = _parsed_ms(duration, what)
    if milliseconds > _LARGEST_MS:
        raise StreamsError(f"{what} is longer than a thousand years: {duration}")
    return milliseconds


def _parsed_ms(text: str, what: str) -> int:
    hint = 'Write "10 minutes", "1 hour 30 minutes", "500 milliseconds", or give a timedelta.'
    if not isinstance(text, str):
        raise StreamsError(f"{what} is no duration: {text!r}", hint)
    rest = text.strip().lower()
    if not rest or _PART.sub("", rest).strip():
        raise StreamsError(f"{what} is no duration: {text!r}", hint)
    total = 0
    for count, word in _PART.findall(rest):
        unit = _SHORT.get(word) or word.removesuffix("s")
        if unit not in _UNITS_MS:
            raise StreamsError(f"{what} has an unknown unit: {word!r} in {text!r}", hint)
        total += int(count) * _UNITS_MS[unit]
    return total


def positive_ms(duration: Duration, what: str) -> int:
    milliseconds = duration_ms(duration, what)
    if not milliseconds:
        raise StreamsError(f"{what} must be longer than nothing: {duration!r}")
    return milliseconds


def duration_text(milliseconds: int) -> str:
    """As people, and Spark's intervals, write it: "1 hour 30 minutes"."""
    parts = []
    rest = milliseconds
    for unit in _WRITTEN:
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " ".join(parts) or "0 milliseconds"
