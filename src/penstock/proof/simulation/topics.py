"""The topics of every schedule."""

from __future__ import annotations

RECORDS, RECORDS_PARTITIONS = "records", 3
KEYED = "keyed"
KEYS = ("a", "b", "c", "d")
BRIEF = "brief"

# Name, partitions, settings.
TOPICS: tuple[tuple[str, int, dict[str, str]], ...] = (
    (RECORDS, RECORDS_PARTITIONS, {}),
    (KEYED, 1, {"cleanup.policy": "compact", "segment.ms": "300"}),
    (BRIEF, 1, {"retention.ms": "1000", "segment.ms": "500"}),
)
