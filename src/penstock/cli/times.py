"""Points in time and durations as people type them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from penstock.cli.errors import UsageError

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d|w))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w)")
# The form kafka-consumer-groups takes for --by-duration.
_ISO_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_ISO_UNITS_MS = (604_800_000, 86_400_000, 3_600_000, 60_000, 1000)

TIME_FORMS = "epoch milliseconds, ISO 8601 (UTC unless it names a zone), or -1h, -30m, -2d for a time ago"


def parse_duration_ms(text: str) -> int:
    """`90s`, `1h30m`, `250ms`, `PT1H30M`; a bare number is milliseconds."""
    if text.isascii() and text.isdigit():
        return int(text)
    if _DURATION.fullmatch(text):
        return round(sum(float(number) * _UNITS_MS[unit] for number, unit in _DURATION_PART.findall(text)))
    iso = _ISO_DURATION.fullmatch(text.upper())
    if iso and any(iso.groups()):
        return round(sum(float(number or 0) * unit for number, unit in zip(iso.groups(), _ISO_UNITS_MS, strict=True)))
    raise UsageError(f"{text!r} is not a duration", "Write it like 90s, 1h30m, 7d or PT1H30M.")


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since the epoch. A text without a zone is UTC, as in Kafka's own tools."""
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit():
        return int(text)
    if text[:1] in "+-" and _DURATION.fullmatch(text[1:]):
        distance = parse_duration_ms(text[1:])
        return now_ms - distance if text[0] == "-" else now_ms + distance
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
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
