"""Finds where in a partition a time has passed: the end of the offsets for a query about earlier times. Pure.

Kafka finds the first record of a time or later. One record whose producer's clock is ahead is such a record, and may
lie before all others. So Kafka's answer is a candidate. A time has passed behind a sample of which most records are
that late; where they are not, a binary search looks for such a place behind the candidate. The sample itself shows its
wanted records. So no place is too early unless most clocks of a sample are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.source.offset_ranges import OffsetRange

# Enough for a handful of wrong clocks to be a minority, and few enough to come with one answer of a broker.
SAMPLE_RECORDS: Final = 64
# Of fewer records no majority is believed. They are the last ones of a partition, and are read.
LEAST_RECORDS: Final = 8
# To read so many offsets more costs no more than to look again.
_NEAR_ENOUGH = 2_048


class Seen(NamedTuple):
    """The first records of a range. Fewer than LEAST_RECORDS are all that the range has."""

    offsets: Sequence[int]  # with gaps, where records were compacted or transactions ended
    times_ms: Sequence[int]


# Looks at the beginnings of ranges, each of another partition.
Peek: TypeAlias = Callable[[Collection[OffsetRange]], Mapping[TopicPartition, Seen]]


@dataclass(slots=True)
class _Search:
    """In one partition. The place is before `high` or is `found`; what lies before `low` is to be read."""

    low: int
    high: int
    held_end: int
    found: int
    probe: int

    def look(self, seen: Seen, before_ms: int, lateness_ms: int) -> None:
        if len(seen.offsets) < LEAST_RECORDS:
            self.high = self.probe
        elif has_passed(seen, before_ms + lateness_ms):
            self.high = self.probe
            wanted = [offset for offset, time in zip(*seen, strict=True) if time < before_ms]
            self.found = max(wanted) + 1 if wanted else self.probe
        else:
            self.low = seen.offsets[-1] + 1
        self.probe = (self.low + self.high) // 2

    @property
    def is_over(self) -> bool:
        return self.high - self.low <= _NEAR_ENOUGH


def find_ends(behind: Collection[OffsetRange], before_ms: int, lateness_ms: int, peek: Peek) -> Offsets:
    """For each range, from a candidate to the partition's end, the offset from which on no records from before the time
    are expected, if each comes at most `lateness_ms` late. Looks at all partitions in one round, and in further rounds
    at those whose candidate was an outlier."""
    searches = {part.partition: _Search(part.start, part.end, part.end, part.end, part.start) for part in behind}
    ends: dict[TopicPartition, int] = {}
    while searches:
        seen = peek([OffsetRange(each, search.probe, search.held_end) for each, search in searches.items()])
        for partition, search in list(searches.items()):
            search.look(seen[partition], before_ms, lateness_ms)
            if search.is_over:
                ends[partition] = search.found
                del searches[partition]
    return ends


def has_passed(seen: Seen, time_ms: int) -> bool:
    """Whether most records of the sample are that late."""
    return 2 * sum(time >= time_ms for time in seen.times_ms) > len(seen.times_ms)
