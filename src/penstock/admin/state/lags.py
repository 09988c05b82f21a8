"""How far groups are behind, in offsets and in time. Pure.

A difference of offsets is no number of records: compaction and the markers of transactions leave offsets without one.

Time lag is how long ago the record was written that a group reads next. It follows from pictures of the cluster at
several moments: each tells where a partition ended then, and between two of them the end is taken to have moved evenly.
Where no two pictures enclose the offset, the time lag is not known.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from penstock.admin.state.cluster import ClusterState
from penstock.admin.state.groups import MemberState
from penstock.admin.state.parts import Part
from penstock.core.types import TopicPartition


class PlaceLag(NamedTuple):
    """Of one group in one partition. `offsets` is None where the end of the partition is not known."""

    place: TopicPartition
    committed: int
    end: int | None
    reader: MemberState | None
    time_s: float | None = None

    @property
    def offsets(self) -> int | None:
        return None if self.end is None else max(0, self.end - self.committed)


class EndPoint(NamedTuple):
    """Where a partition ended at one moment."""

    offset: int
    at_s: float


def find_lags(state: ClusterState, group_id: str, earlier: Sequence[ClusterState] = ()) -> list[PlaceLag]:
    """In the order of topics and partitions; nothing for a group whose commits were not read. `earlier` pictures, the
    oldest first, make the time lag known.
    """
    group = state.groups.get(group_id)
    pictures = [*earlier, state]
    found = []
    for place, commit in sorted((group.committed or {}).items()) if group is not None else ():
        assert group is not None
        end = state.last_offsets.get(place)
        points = [
            EndPoint(each.last_offsets[place], each.parts[Part.LAST_OFFSETS].at_s)
            for each in pictures
            if place in each.last_offsets and Part.LAST_OFFSETS in each.parts
        ]
        found.append(
            PlaceLag(place, commit.offset, end, group.reader_of(place), estimate_time_lag(commit.offset, points))
        )
    return found


def estimate_time_lag(committed: int, points: Sequence[EndPoint]) -> float | None:
    """In seconds before the last of the points, which come in the order of their times."""
    if not points:
        return None
    if committed >= points[-1].offset:
        return 0.0
    for earlier, later in reversed(list(itertools.pairwise(points))):
        if earlier.offset <= committed < later.offset:
            share = (later.offset - committed) / (later.offset - earlier.offset)
            return points[-1].at_s - (later.at_s - share * (later.at_s - earlier.at_s))
    return None
