"""Where in a partition a time has passed: the end of what a question about times before it reads. Pure.

Kafka finds the first record of a time or later. One record whose producer's clock is ahead is such a record, and may
lie before all others. So what Kafka finds is a candidate. A time has passed where most records of a sample are that
late; where they are not, the place is searched for behind the candidate, by halves. Whichever place is found, more than
half of a sample lies before it or at it and is late enough. It is not too early unless so many clocks are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.source.splitting import OffsetRange

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

    def look(self, seen: Seen, time_ms: int) -> None:
        if len(seen.offsets) < LEAST_RECORDS:
            self.high = self.probe
        else:
            place = passing_place(seen, time_ms)
            if place is None:
                self.low = seen.offsets[-1] + 1
            else:
                self.high, self.found = self.probe, place
        self.probe = (self.low + self.high) // 2

    @property
    def is_over(self) -> bool:
        return self.high - self.low <= _NEAR_ENOUGH


def find_ends(behind: Collection[OffsetRange], time_ms: int, peek: Peek) -> Offsets:
    """For each range, from a candidate to what is held, the offset from which on records of an earlier time are not
    expected. All partitions are looked at in one round, and in further rounds those whose candidate was an outlier."""
    searches = {part.partition: _Search(part.start, part.end, part.end, part.end, part.start) for part in behind}
    ends: dict[TopicPartition, int] = {}
    while searches:
        seen = peek([OffsetRange(each, search.probe, search.held_end) for each, search in searches.items()])
        for partition, search in list(searches.items()):
            search.look(seen[partition], time_ms)
            if search.is_over:
                ends[partition] = search.found
                del searches[partition]
    return ends


def passing_place(seen: Seen, time_ms: int) -> int | None:
    """The offset of the record with which most of the sample has been that late; None where most is not."""
    late = [offset for offset, time in zip(seen.offsets, seen.times_ms, strict=True) if time >= time_ms]
    most = len(seen.offsets) // 2
    return late[most] if len(late) > most else None
