"""Chooses the data directory of a new partition. Decides only.

Kafka counts partitions alone, and so fills the smaller of two disks. Here a directory's share of the partitions follows
the room on its disk. Directories with nearly as much room as the roomiest, among them all on one file system, count as
equal: then the directory with the fewest partitions comes first, as in Kafka. A new partition is empty, so its creation
does not shrink the room: the number of partitions must count, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# Two disks are alike where one has at least this share of the other's room.
_NEARLY_EQUAL = 0.9


def rank_directories(counts: Mapping[Path, int], usable_bytes: Mapping[Path, int]) -> list[Path]:
    """The directories, the best first. A directory without room, or with unknown room, comes last."""
    most = max(usable_bytes.values(), default=0)

    def burden(path: Path) -> float:
        usable = usable_bytes.get(path, 0)
        if usable <= 0:
            return float("inf")
        return (counts[path] + 1) / (most if usable >= _NEARLY_EQUAL * most else usable)

    return sorted(counts, key=lambda path: (burden(path), counts[path]))
