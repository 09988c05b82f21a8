"""Windows, as Kafka Streams has them.

tumbling("1 minute", grace="10 seconds")          aligned to 1970, [start, end)
hopping("5 minutes", every="1 minute", grace=...)
sliding("10 seconds", grace=...)                  of two records at most so far apart, ends included
session("30 minutes", grace=...)                  until nothing came for the gap
within("10 minutes", before=..., after=..., grace=...)   of joins: both ends included
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.core.time.durations import Duration
from penstock.streams.topology.durations import duration_ms, positive_ms
from penstock.streams.topology.errors import StreamsError


class WindowKind(StrEnum):
    TUMBLING = "tumbling"
    HOPPING = "hopping"
    SLIDING = "sliding"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Window:
    kind: WindowKind
    size_ms: int  # of a session its gap, of a sliding window the largest difference
    every_ms: int  # of a hopping window; else the size
    grace_ms: int | None = None  # None: the source's


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """A right row joins a left one if left - before <= right <= left + after, in milliseconds."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None


def tumbling(size: Duration, grace: Duration | None = None) -> Window:
    size_ms = positive_ms(size, "the size of a window")
    return Window(WindowKind.TUMBLING, size_ms, size_ms, _grace_ms(grace))


def hopping(size: Duration, every: Duration, grace: Duration | None = None) -> Window:
    size_ms, every_ms = positive_ms(size, "the size of a window"), positive_ms(every, "the advance of a window")
    if every_ms > size_ms:
        raise StreamsError(
            f"windows of {size} every {every} leave time between them", "`every` is at most as long as the window."
        )
    return Window(WindowKind.HOPPING, size_ms, every_ms, _grace_ms(grace))


def sliding(difference: Duration, grace: Duration | None = None) -> Window:
    difference_ms = positive_ms(difference, "the difference of a sliding window")
    return Window(WindowKind.SLIDING, difference_ms, difference_ms, _grace_ms(grace))


def session(gap: Duration, grace: Duration | None = None) -> Window:
    gap_ms = positive_ms(gap, "the gap of a session")
    return Window(WindowKind.SESSION, gap_ms, gap_ms, _grace_ms(grace))


def within(
    difference: Duration | None = None,
    *,
    before: Duration | None = None,
    after: Duration | None = None,
    grace: Duration | None = None,
) -> JoinWindow:
    """`before`: how much earlier than the left row the right one may be; `after`: how much later. The default of each
    is the difference, or nothing where there is none."""
    if difference is None and before is None and after is None:
        raise StreamsError("within() got no duration", 'within("10 minutes"), or before= and after=, bound a join.')
    both_ms = 0 if difference is None else duration_ms(difference, "the difference of a join")
    before_ms = both_ms if before is None else duration_ms(before, "`before` of a join")
    after_ms = both_ms if after is None else duration_ms(after, "`after` of a join")
    return JoinWindow(before_ms, after_ms, _grace_ms(grace))


def _grace_ms(grace: Duration | None) -> int | None:
    return None if grace is None else duration_ms(grace, "the grace of a window")
