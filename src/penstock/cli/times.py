"""Points in time and durations as people type them."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.cli.errors import UsageError
from penstock.core.time.durations import DurationError, duration_ms

TIME_FORMS = "epoch milliseconds, ISO 8601 (UTC unless it names a zone), or -1h, -30m, -2d for a time ago"


def parse_duration_ms(text: str) -> int:
    """In the words of `core.time.durations`; a bare number is milliseconds."""
    try:
        return duration_ms(text, takes_bare_number=True)
    except DurationError as error:
        raise UsageError(str(error), error.hint) from None


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch. A text without a zone is UTC, as in Kafka's own tools."""
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        if text.startswith("-"):
            return now_ms - duration_ms(text[1:])
        if text.startswith("+"):
            return now_ms + duration_ms(text[1:])
        moment = datetime.fromisoformat(text)
    except ValueError:  # also a DurationError: this option takes more than durations
        raise UsageError(f"{text!r} is not a time", f"Write {TIME_FORMS}.") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def format_time(timestamp_ms: int) -> str:
    """ISO 8601 in UTC with milliseconds; `-` for no timestamp, the number where it is beyond the calendar."""
    if timestamp_ms < 0:
        return "-"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"
