"""In which data directory a new partition goes. Decides only.

Kafka counts partitions alone, and so fills the smaller of two disks. Here a directory's share of the partitions follows
the room on its disk. Directories with nearly as much room as the roomiest, among them all on one file system, count as
equal: then the one with the fewest partitions comes first, as in Kafka. A new partition is empty, so the room does not
shrink when it is made: the number of partitions must count, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# Two disks of which one has at least this share of the other's room are alike.
_NEARLY_EQUAL = 0.9


def rank_directories(counts: Mapping[Path, int], usable_bytes: Mapping[Path, int]) -> list[Path]:
    """The directories, the best first. One without room, or whose room is not known, comes last."""
    most = max(usable_bytes.values(), default=0)

    def burden(path: Path) -> float:
        usable = usable_bytes.get(path, 0)
        if usable <= 0:
            return float("inf")
        return (counts[path] + 1) / (most if usable >= _NEARLY_EQUAL * most else usable)

    return sorted(counts, key=lambda path: (burden(path), counts[path]))
