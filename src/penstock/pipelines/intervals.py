"""Durations for Spark: it reads intervals in whole words alone, `10 minutes`, so other forms are written out for it."""

from __future__ import annotations

import re

from penstock.core.time.durations import DurationError, duration_ms, duration_text

# As Spark's `fromIntervalString` wants it. Spark knows more than our grammar: microseconds, which it does not round.
_SPARKS_OWN = re.compile(
    r"\s*(?:\d+(?:\.\d+)?\s+(?:(?:micro|milli)?second|minute|hour|day|week|month|year)s?\s*)+", re.IGNORECASE
)

# A text without one of these has no meaning as an interval, whatever else Spark takes.
_UNIT = re.compile(r"second|minute|hour|day|week|month|year", re.IGNORECASE)


def is_no_interval(text: str) -> bool:
    """Whether Spark is certain to refuse it. Where that is not certain, Spark judges."""
    given = spark_interval(text)
    return not (_UNIT.search(given) and re.search(r"\d", given))


def spark_interval(text: str) -> str:
    """`10m` as `10 minutes`. A text that is no duration of ours stays as it is, and Spark accepts or refuses it."""
    if _SPARKS_OWN.fullmatch(text):
        return text
    try:
        return duration_text(duration_ms(text))
    except DurationError:
        return text
