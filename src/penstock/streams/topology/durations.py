"""Durations of an application, in the words of `core.time.durations`: a bare number has no meaning here."""

from __future__ import annotations

from penstock.core.time.durations import Duration, DurationError
from penstock.core.time.durations import duration_ms as read_duration_ms
from penstock.streams.topology.errors import StreamsError

# Spark counts microseconds in 64 bits; a thousand years are far from that and from any use.
_LARGEST_MS = 1000 * 366 * 86_400_000


def duration_ms(duration: Duration, what: str = "the duration") -> int:
    """In milliseconds. `what` names the parameter in the error's message."""
    try:
        milliseconds = read_duration_ms(duration)
    except DurationError as error:
        raise StreamsError(f"{what}: {error}", f"{error.hint[:-1]}, or give a timedelta.") from None
    if milliseconds > _LARGEST_MS:
        raise StreamsError(f"{what} is longer than a thousand years: {duration}")
    return milliseconds


def positive_ms(duration: Duration, what: str) -> int:
    milliseconds = duration_ms(duration, what)
    if not milliseconds:
        raise StreamsError(f"{what} must be longer than nothing: {duration!r}")
    return milliseconds
