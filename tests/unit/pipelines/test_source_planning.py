"""What a micro-batch reads: limits, splitting into tasks, lost records, starting positions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.offsets_json import Offsets
from penstock.pipelines.options import OptionError
from penstock.pipelines.source.data_loss import (
    DataLossError,
    explain_missing,
    find_backward_steps,
    find_unknown_starts,
    plan_ranges,
    report,
)
from penstock.pipelines.source.limits import TriggerLimits, count_waiting, limit_end, should_wait
from penstock.pipelines.source.offset_ranges import OffsetRange, share_tasks, split
from penstock.pipelines.source.offsets import EARLIEST, LATEST, AtTimestamp, Everywhere, OfGroup, PerPartition
from penstock.pipelines.source.positions import resolve_end, resolve_start

A, B, C = (TopicPartition("t", number) for number in range(3))


# ---- limits


def test_limit_is_shared_by_lag_when_partitions_differ() -> None:
    assert limit_end({A: 0, B: 100}, {A: 300, B: 200}, 40) == {A: 30, B: 110}


def test_small_partition_advances_when_its_share_is_less_than_one() -> None:
    assert limit_end({A: 0, B: 0}, {A: 1000, B: 1}, 10) == {A: 9, B: 1}


def test_everything_is_taken_when_less_than_the_limit_waits() -> None:
    assert limit_end({A: 5, B: 7}, {A: 6, B: 7}, 10) == {A: 6, B: 7}


OFFSETS = st.dictionaries(st.builds(TopicPartition, st.just("t"), st.integers(0, 9)), st.integers(0, 10**6), min_size=1)


@given(OFFSETS, st.data(), st.integers(1, 10**6))
def test_limited_batches_reach_the_end_when_repeated(start: Offsets, draw: st.DataObject, most: int) -> None:
    latest = {one: draw.draw(st.integers(begin, begin + 5000)) for one, begin in start.items()}
    end = limit_end(start, latest, most)
    assert all(start[one] <= end[one] <= latest[one] for one in start)
    assert count_waiting(start, end) <= most + len(start)
    assert (count_waiting(start, end) > 0) == (count_waiting(start, latest) > 0)


@pytest.mark.parametrize(
    ("limits", "waiting", "since_ms", "waits"),
    [
        (TriggerLimits(), 0, 0, False),
        (TriggerLimits(min_offsets=10), 9, 100, True),
        (TriggerLimits(min_offsets=10), 10, 100, False),
        (TriggerLimits(min_offsets=10, max_delay_ms=50), 1, 50, False),
        (TriggerLimits(min_offsets=10), 0, float("inf"), False),
    ],
)
def test_batch_waits_when_too_little_is_there(
    limits: TriggerLimits, waiting: int, since_ms: float, waits: bool
) -> None:
    assert should_wait(limits, waiting, since_ms) is waits


# ---- splitting


def test_one_task_per_partition_when_nothing_else_is_asked_for() -> None:
    ranges = [OffsetRange(B, 5, 9), OffsetRange(A, 0, 10), OffsetRange(C, 7, 7)]
    assert split(ranges) == [OffsetRange(A, 0, 10), OffsetRange(B, 5, 9)]


def test_large_ranges_are_split_when_more_tasks_are_wanted() -> None:
    parts = split([OffsetRange(A, 0, 900), OffsetRange(B, 0, 10)], min_partitions=4)
    assert parts == [OffsetRange(A, 0, 300), OffsetRange(A, 300, 600), OffsetRange(A, 600, 900), OffsetRange(B, 0, 10)]


def test_ranges_are_split_when_a_task_would_have_too_many() -> None:
    assert [part.size for part in split([OffsetRange(A, 3, 13)], max_records_per_partition=4)] == [3, 3, 4]


def test_small_ranges_share_a_task_when_a_task_would_have_too_few() -> None:
    a, b, c = OffsetRange(A, 0, 10), OffsetRange(B, 5, 9), OffsetRange(C, 7, 12)
    assert share_tasks([a, b, c], None) == [(a,), (b,), (c,)]
    assert share_tasks([a, b, c], 6) == [(a,), (b,), (c,)]
    assert share_tasks([a, b, c], 8) == [(a,), (b, c)]
    assert share_tasks([a, b, c], 1000) == [(a, b, c)]
    assert share_tasks([], 1000) == []


class Counted(int):
    """A start of a range, which counts how often sizes are asked for."""

    asked = 0

    def __rsub__(self, end: int) -> int:
        Counted.asked += 1
        return end - int(self)


def test_each_size_is_asked_for_a_few_times_when_very_many_ranges_share_tasks() -> None:
    pieces = [OffsetRange(TopicPartition("t", number), Counted(0), 1 + number * 7 % 13) for number in range(2000)]
    tasks = share_tasks(pieces, 10)
    assert sorted(piece for task in tasks for piece in task) == sorted(pieces)
    assert Counted.asked < 10 * len(pieces)


@given(st.lists(st.integers(1, 50), max_size=30), st.integers(1, 100))
def test_each_range_goes_to_the_task_that_has_least_when_small_ranges_share_tasks(
    sizes: list[int], min_records: int
) -> None:
    pieces = [OffsetRange(TopicPartition("t", number), 0, size) for number, size in enumerate(sizes)]
    tasks = share_tasks(pieces, min_records)
    if sum(sizes) >= min_records * len(sizes):
        assert tasks == [(piece,) for piece in pieces]
        return
    expected: list[list[OffsetRange]] = [[] for _ in tasks]
    for piece in sorted(pieces, key=lambda piece: (-piece.size, piece)):
        min(expected, key=lambda task: sum(each.size for each in task)).append(piece)
    assert tasks == [tuple(sorted(task)) for task in expected]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1000), st.integers(0, 1000)), unique_by=lambda one: one[0]),
    st.none() | st.integers(1, 50),
    st.none() | st.integers(1, 200),
)
def test_every_offset_has_one_task_when_split(
    given_ranges: list[tuple[int, int, int]], least: int | None, most: int | None
) -> None:
    ranges = [OffsetRange(TopicPartition("t", number), start, start + size) for number, start, size in given_ranges]
    parts = split(ranges, least, most)
    assert all(part.size > 0 and part.size <= (most or part.size) for part in parts)
    covered = sorted((part.partition, offset) for part in parts for offset in range(part.start, part.end))
    assert covered == sorted((part.partition, offset) for part in ranges for offset in range(part.start, part.end))
    if least is not None and sum(part.size for part in ranges) >= 50 * max(1, len(ranges)):
        assert len(parts) >= least / 2


# ---- losses


def test_new_partition_starts_at_its_first_record_when_found_while_running() -> None:
    planned = plan_ranges({A: 5}, {A: 9, B: 4}, {B: 0})
    assert planned.ranges == [OffsetRange(A, 5, 9), OffsetRange(B, 0, 4)]
    assert planned.losses == []
    assert find_unknown_starts({A: 5}, {A: 9, B: 4}) == {B}


def test_loss_is_told_when_a_partition_is_gone_or_new_without_its_beginning() -> None:
    planned = plan_ranges({A: 5}, {B: 9, C: 3}, {B: 2})
    assert planned.ranges == [OffsetRange(B, 2, 9)]
    assert planned.losses == [
        "topic t partition 0 is gone; it was read up to offset 5",
        "new partition t-1 begins at offset 2, not at 0",
        "topic t partition 2 is gone; it was read up to offset 0",
    ]


def test_it_is_said_what_is_gone_when_retention_has_passed_the_first_batch_since_it_was_planned() -> None:
    planned = plan_ranges({A: 50}, {A: 7}, {A: 50})
    assert planned.ranges == [OffsetRange(A, 7, 7)]
    assert planned.losses == ["topic t partition 0: all before offset 7 is no longer there, it begins at 50"]


def test_recreated_topic_is_read_from_its_beginning_when_it_ends_before_the_reader() -> None:
    planned = plan_ranges({A: 50}, {A: 7}, {A: 0})
    assert planned.ranges == [OffsetRange(A, 0, 7)]
    assert "ends at offset 7, before offset 50" in planned.losses[0]
    assert find_backward_steps({A: 50, B: 1}, {A: 7, B: 1}) == [A]


def test_loss_fails_or_warns_when_asked_to(caplog: pytest.LogCaptureFixture) -> None:
    text = explain_missing(OffsetRange(A, 3, 20), 3, 8, 30)
    with pytest.raises(DataLossError, match=r"offsets 3 to 7 are no longer there .*failOnDataLoss to false"):
        report([text], fail_on_data_loss=True)
    report([text], fail_on_data_loss=False)
    assert "topic t partition 0: offsets 3 to 7" in caplog.text
    report([], fail_on_data_loss=True)


# ---- positions


@dataclass
class FakeLookup:
    first: Offsets
    last: Offsets
    timed: Offsets = field(default_factory=dict)
    group: Offsets = field(default_factory=dict)

    def earliest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {one: self.first[one] for one in partitions}

    def latest(self, partitions: Collection[TopicPartition]) -> Offsets:
        return {one: self.last[one] for one in partitions}

    def at_timestamps(self, timestamps: Mapping[TopicPartition, int]) -> Offsets:
        return {one: self.timed[one] for one in timestamps}

    def committed(self, group_id: str, partitions: Collection[TopicPartition]) -> Offsets:
        return self.group


LOOKUP = FakeLookup({A: 1, B: 2}, {A: 10, B: 20}, {A: 5, B: LATEST}, {A: 7})


@pytest.mark.parametrize(
    ("position", "offsets"),
    [
        (Everywhere(EARLIEST), {A: 1, B: 2}),
        (Everywhere(LATEST), {A: 10, B: 20}),
        (PerPartition({A: 4, B: EARLIEST}), {A: 4, B: 2}),
        (PerPartition({A: LATEST, B: 3}), {A: 10, B: 3}),
        (AtTimestamp(9), {A: 5, B: 20}),
        (AtTimestamp(0, {A: 9, B: 9}), {A: 5, B: 20}),
        (OfGroup("g"), {A: 7, B: 2}),
    ],
)
def test_positions_become_offsets_when_looked_up(
    position: Everywhere | PerPartition | AtTimestamp | OfGroup, offsets: Offsets
) -> None:
    assert resolve_start(LOOKUP, [A, B], position, missing_is_latest=True) == offsets
    assert resolve_end(LOOKUP, [A, B], position) == offsets


def test_error_says_what_to_do_when_no_record_is_late_enough_to_start_at() -> None:
    with pytest.raises(OptionError, match=r"no record of t-1 .*startingOffsetsByTimestampStrategy to latest"):
        resolve_start(LOOKUP, [A, B], AtTimestamp(9), missing_is_latest=False)


def test_error_names_the_partitions_when_offsets_do_not_fit_them() -> None:
    with pytest.raises(OptionError, match="missing are t-1; not read are t-2"):
        resolve_start(LOOKUP, [A, B], PerPartition({A: 1, C: 1}), missing_is_latest=False)
