"""Selects events of a trail, and counts them by their fields."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from penstock.security.audit.cloud_events import Kept, flatten, format_time


@dataclass(frozen=True, slots=True)
class Selection:
    """An event must match every field that is given. Patterns know `*` and `?`."""

    kinds: frozenset[str] = frozenset()
    principal: str | None = None
    address: str | None = None
    resource: str | None = None
    operation: str | None = None
    only_refused: bool = False
    since_ms: int | None = None
    until_ms: int | None = None

    def wants(self, kept: Kept) -> bool:
        event = kept.event
        if self.kinds and event.kind not in self.kinds:
            return False
        if self.only_refused and event.is_allowed:
            return False
        if self.since_ms is not None and kept.time < format_time(self.since_ms):
            return False
        if self.until_ms is not None and kept.time >= format_time(self.until_ms):
            return False
        pairs = (
            (self.principal, event.principal),
            (self.address, event.address),
            (self.resource, event.resource),
            (self.operation, event.operation),
        )
        return all(pattern is None or fnmatchcase(text, pattern) for pattern, text in pairs)


def count_by(events: Iterable[Kept], fields: tuple[str, ...]) -> list[tuple[tuple[str, ...], int]]:
    """How often each combination of these fields came, the most frequent first. A merged event counts each repeat."""
    counts: Counter[tuple[str, ...]] = Counter()
    for kept in events:
        row = flatten(kept)
        repeats = kept.event.details.get("count", 1)
        counts[tuple(str(row[name]) for name in fields)] += repeats if isinstance(repeats, int) else 1
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))
