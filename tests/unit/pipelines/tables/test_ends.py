"""Where a time has passed, decided from looks at a few records."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.core.types import TopicPartition
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.tables.bounds import Bounds, Interval, Times, plan_reads
from penstock.pipelines.tables.ends import SAMPLE_RECORDS, Seen, find_ends

_ZERO = TopicPartition("t", 0)
_TIME = 1_000_000


class Log:
    """Records (offset, time) of one partition, and how often somebody looked at them."""

    def __init__(self, records: Collection[tuple[int, int]], held_end: int | None = None) -> None:
        self.records = list(records)
        self.held_end = held_end or self.records[-1][0] + 1
        self.looks = 0

    def peek(self, ranges: Collection[OffsetRange]) -> dict[TopicPartition, Seen]:
        self.looks += 1
        (part,) = ranges
        found = [each for each in self.records if part.start <= each[0] < part.end][:SAMPLE_RECORDS]
        return {part.partition: Seen([offset for offset, _ in found], [time for _, time in found])}

    def first(self, time_ms: int) -> int | None:
        return next((offset for offset, time in self.records if time >= time_ms), None)

    def end(self, time_ms: int, lateness_ms: int = 0) -> int:
        """The end of what a question reads that ends at a time."""
        times = Times(lambda asked: {each: self.first(time) for each, time in asked.items()}, self.peek)
        bounds = Bounds(timestamps_us=Interval(None, time_ms * 1000))
        reads = plan_reads(bounds, [OffsetRange(_ZERO, 0, self.held_end)], times, lateness_ms)
        return max((part.end for part in reads), default=0)


def test_records_behind_a_clock_that_is_ahead_are_read_when_a_question_ends_at_a_time() -> None:
    """`_timestamp < now()` was true of no record: the first one, an hour ahead, was taken for the end."""
    log = Log([(0, _TIME + 3_480_000), *((offset, offset) for offset in range(1, 100))])

    assert log.end(_TIME, 600_000) == 100


def test_one_look_is_enough_when_records_are_in_order() -> None:
    log = Log([(offset, offset) for offset in range(1_000_000)])

    assert log.end(500_000) == 500_000
    assert log.end(400_000, 600) == 400_600
    assert log.looks == 2


def test_what_the_sample_shows_is_read_when_the_time_passes_within_it() -> None:
    log = Log([(0, 10**9), *((offset, offset) for offset in range(1, 21)), *((each, 10**9) for each in range(21, 100))])

    assert log.end(100) == 21


def test_looks_are_few_and_the_end_is_near_when_a_clock_is_ahead() -> None:
    log = Log([(0, 10**9), *((offset, offset) for offset in range(1, 1_000_000))])

    assert 500_000 <= log.end(500_000) <= 503_000
    assert log.looks <= 12


def test_no_record_is_looked_at_when_none_is_that_late() -> None:
    log = Log([(offset, offset) for offset in range(100)])

    assert log.end(100) == 100
    assert log.looks == 0


def test_everything_is_read_when_what_is_behind_the_candidate_is_too_little_to_judge() -> None:
    log = Log([*((offset, offset) for offset in range(100)), (100, 10**6), (101, 10**6), (102, 99)])

    assert log.end(1000) == 103


@pytest.mark.parametrize("gap", [1, 70, 5_000])
def test_gaps_are_passed_over_when_a_time_is_searched_for(gap: int) -> None:
    log = Log([(0, 10**9), *((number * gap, number) for number in range(1, 20_000))], held_end=20_000 * gap + 300)

    assert 10_000 * gap <= log.end(10_000) <= (10_000 + 2 * SAMPLE_RECORDS) * gap + 3_000


def test_each_partition_has_an_end_when_several_are_searched_at_once() -> None:
    logs = {number: Log([(0, 10**9), *((each, each * number) for each in range(1, 10_000))]) for number in (1, 2, 3)}

    def peek(ranges: Collection[OffsetRange]) -> dict[TopicPartition, Seen]:
        return {key: seen for each in ranges for key, seen in logs[each.partition.partition].peek([each]).items()}

    ends = find_ends([OffsetRange(TopicPartition("t", number), 0, 10_000) for number in logs], 6_000, 0, peek)

    assert all(6_000 / each.partition <= end <= 6_000 / each.partition + 2_200 for each, end in ends.items())
