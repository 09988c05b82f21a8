"""The header Accept (RFC 9110, 12.5.1): the media types that a client accepts, with its preferences."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# The listener bounds the size of a header; this bounds the work for it.
_MOST_RANGES = 50
_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_ANYTHING = "*/*"


def accepted_ranges(headers: Iterable[str]) -> list[tuple[str, float]]:
    """`application/json`, `application/*` and the like in the order of the headers, each with its quality: 0 refuses. A
    client without the header accepts everything.
    """
    parts = [part for header in headers for part in header.split(",") if part.strip()]
    if not parts:
        return [(_ANYTHING, 1.0)]
    ranges = []
    for part in parts[:_MOST_RANGES]:
        media_type, _, parameters = part.partition(";")
        ranges.append((media_type.strip().lower(), _quality(parameters)))
    return ranges


def _quality(parameters: str) -> float:
    for each in parameters.split(";"):
        name, _, value = each.partition("=")
        if name.strip().lower() == "q" and _QUALITY.fullmatch(value.strip()):
            return float(value)
    return 1.0


def choose_type(headers: Iterable[str], offered: Sequence[str]) -> str | None:
    """The type that the client prefers, of equal ones the first offer; None where it accepts none. The most specific
    range counts for a type.
    """
    qualities = dict(reversed(accepted_ranges(headers)))

    def quality(media_type: str) -> float:
        ranges = (media_type, media_type.partition("/")[0] + "/*", _ANYTHING)
        return next((qualities[each] for each in ranges if each in qualities), 0.0)

    best = max(offered, key=quality)
    return best if quality(best) > 0 else None
