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
    grace_ms: int | None = None  # None: what the source says


@dataclass(frozen=True, slots=True)
class JoinWindow:
    """A right row joins a left one if left - before <= right <= left + after, in milliseconds."""

    before_ms: int
    after_ms: int
    grace_ms: int | None = None
