"""Conditions as bounds, and bounds as offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.core.types import TopicPartition
from penstock.pipelines.options import ANY_LATENESS_MS, LATENESS
from penstock.pipelines.source.offset_ranges import OffsetRange
from penstock.pipelines.tables.bounds import (
    UNBOUNDED,
    AnyOf,
    Bounds,
    Interval,
    Times,
    below_latest,
    bounds_of,
    decide_lateness,
    hull,
    plan_reads,
)
from penstock.pipelines.tables.ends import Seen

_OFFSET, _PARTITION, _TIMESTAMP, _KEY = ("_offset",), ("_partition",), ("_timestamp",), ("_key",)
_ZERO, _ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
_HELD = [OffsetRange(_ZERO, 10, 100), OffsetRange(_ONE, 0, 50)]


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (EqualTo(_OFFSET, 5), Bounds(offsets=Interval(5, 6))),
        (EqualNullSafe(_OFFSET, 5), Bounds(offsets=Interval(5, 6))),
        (GreaterThan(_OFFSET, 5), Bounds(offsets=Interval(6, None))),
        (Not(GreaterThan(_OFFSET, 5)), Bounds(offsets=Interval(None, 6))),
        (Not(LessThan(_OFFSET, 5)), Bounds(offsets=Interval(5, None))),
        (Not(Not(LessThanOrEqual(_OFFSET, 5))), Bounds(offsets=Interval(None, 6))),
        (In(_OFFSET, (7, 3, None)), Bounds(offsets=Interval(3, 8))),
        (In(_PARTITION, (1, 2)), Bounds(partitions=frozenset({1, 2}))),
        (LessThan(_PARTITION, 2), Bounds(partitions=frozenset({0, 1}))),
        (
            EqualTo(_TIMESTAMP, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
            Bounds(timestamps_us=Interval(10**6, 10**6 + 1)),
        ),
        (EqualTo(_KEY, "a"), Bounds(keys=frozenset({"a"}))),
        (AnyOf(((EqualTo(_OFFSET, 5),), (EqualTo(_OFFSET, 9),))), Bounds(offsets=Interval(5, 10))),
    ],
    ids=str,
)
def test_a_condition_bounds_rows_when_it_is_about_a_column_of_ours(condition: Filter, bounds: Bounds) -> None:
    assert bounds_of([condition]) == bounds


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("name",), 5), EqualTo(("address", "_offset"), 5), Not(EqualTo(_OFFSET, 5)), GreaterThan(_PARTITION, 2),
        EqualTo(_TIMESTAMP, "2026-01-01"), EqualNullSafe(_TIMESTAMP, None), IsNull(_TIMESTAMP),
        IsNotNull(_OFFSET), StringStartsWith(_KEY, "a"), In(_OFFSET, (1, "2")), EqualTo(_KEY, 1.5),
        AnyOf(((EqualTo(_OFFSET, 5),), ())), Not(AnyOf(((EqualTo(_OFFSET, 5),),))),
    ],
    ids=str,
)  # fmt: skip
def test_a_condition_bounds_nothing_when_it_is_not_understood(condition: Filter) -> None:
    assert bounds_of([condition]) == UNBOUNDED


def test_no_row_is_possible_when_conditions_contradict_each_other() -> None:
    assert bounds_of([GreaterThan(_OFFSET, 5), LessThan(_OFFSET, 3)]).is_empty
    assert bounds_of([EqualTo(_PARTITION, 1), EqualTo(_PARTITION, 2)]).is_empty
    assert bounds_of([IsNull(_OFFSET)]).is_empty


def test_the_hull_is_the_other_when_one_has_no_rows() -> None:
    nothing, some = bounds_of([IsNull(_OFFSET)]), Bounds(offsets=Interval(3, 4))

    assert hull(nothing, some) == some == hull(some, nothing)


def _no_times(_: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
    raise AssertionError("nobody asked about times")


@pytest.mark.parametrize(
    ("bounds", "reads"),
    [
        (UNBOUNDED, [(0, 10, 100), (1, 0, 50)]),
        (Bounds(partitions=frozenset({1, 7})), [(1, 0, 50)]),
        (Bounds(offsets=Interval(None, 20)), [(0, 10, 20), (1, 0, 20)]),
        (Bounds(offsets=Interval(60, 10**12)), [(0, 60, 100)]),
        (Bounds(offsets=Interval(-5, 5)), [(1, 0, 5)]),
        (Bounds(offsets=Interval(200, None)), []),
        (Bounds(offsets=Interval(5, 5)), []),
        (Bounds(timestamps_us=Interval(2**80, None)), []),
        (Bounds(timestamps_us=Interval(None, -(10**12))), []),
        (Bounds(timestamps_us=Interval(-5, 2**80)), [(0, 10, 100), (1, 0, 50)]),
    ],
)  # fmt: skip
def test_offsets_are_clipped_to_the_log_when_bounds_go_beyond_it(
    bounds: Bounds, reads: list[tuple[int, int, int]]
) -> None:
    assert [(part.partition.partition, part.start, part.end) for part in plan_reads(bounds, _HELD, _no_times)] == reads


def test_lateness_is_added_to_the_end_alone_when_times_are_bounded() -> None:
    asked: list[dict[TopicPartition, int]] = []

    def offsets_at(times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        asked.append(dict(times))
        return {_ZERO: 40 + len(asked), _ONE: None if len(asked) == 1 else 30}

    def peek(ranges: Collection[OffsetRange]) -> dict[TopicPartition, Seen]:
        return {part.partition: Seen(range(part.start, part.end), [5601] * part.size) for part in ranges}

    times = Times(offsets_at, peek)
    reads = plan_reads(Bounds(timestamps_us=Interval(1_000_001, 5_000_001)), _HELD, times, lateness_ms=600)

    # Partition 1 has no record that is late enough, so its end is not asked for.
    assert asked == [{_ZERO: 1001, _ONE: 1001}, {_ZERO: 5601}]
    assert reads == [OffsetRange(_ZERO, 41, 42)]


@pytest.mark.parametrize(
    ("config", "lateness"),
    [
        ({"message.timestamp.type": "LogAppendTime"}, (60_000, True)),  # a new leader's clock may be behind
        ({"message.timestamp.type": "CreateTime"}, (600_000, False)),
        ({}, (600_000, False)),
        ({"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "1000"}, (61_000, True)),
        ({"message.timestamp.before.max.ms": "60000", "message.timestamp.after.max.ms": "3600000"}, (600_000, False)),
        ({"message.timestamp.before.max.ms": "60000"}, (600_000, False)),
    ],
)
def test_lateness_is_sure_when_the_topic_bounds_it(config: dict[str, str], lateness: tuple[int, bool]) -> None:
    assert decide_lateness(config, 600_000) == lateness
    assert decide_lateness(config, ANY_LATENESS_MS) == (ANY_LATENESS_MS, True)


def test_no_end_is_asked_for_when_any_lateness_is_allowed() -> None:
    times = Times(_no_times, _no_peek)
    assert plan_reads(Bounds(timestamps_us=Interval(None, 5_000)), _HELD, times, ANY_LATENESS_MS) == _HELD


def _no_peek(_: Collection[OffsetRange]) -> dict[TopicPartition, Seen]:
    raise AssertionError("nothing is looked at")


def test_keys_alone_bound_what_the_latest_is_chosen_from() -> None:
    """A key that moved to another partition had its outdated row back when `_partition` was asked for."""
    bounds = Bounds(frozenset({0}), Interval(1, 5), Interval(1, 5), frozenset({"a"}))

    assert below_latest(bounds) == Bounds(keys=frozenset({"a"}))


def test_any_lateness_is_allowed_when_it_is_none() -> None:
    assert LATENESS.parse("none") == ANY_LATENESS_MS == LATENESS.parse(f"{ANY_LATENESS_MS}ms")
    assert LATENESS.parse("15m") == 900_000
