from __future__ import annotations

import pytest

from penstock.cli.errors import UsageError
from penstock.cli.plans.consume import (
    GroupEnds,
    Remaining,
    Start,
    StartKind,
    check_options,
    parse_start,
    plan_start,
)
from penstock.core.types import TopicPartition

NOW_MS = 1_700_000_000_000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Start(StartKind.BEGINNING)),
        ("earliest", Start(StartKind.BEGINNING)),
        ("end", Start(StartKind.END)),
        ("0", Start(StartKind.OFFSET, 0)),
        ("99999999999", Start(StartKind.OFFSET, 99_999_999_999)),
        ("100000000000", Start(StartKind.TIME, 100_000_000_000)),
        ("-10", Start(StartKind.LAST, 10)),
        ("-10s", Start(StartKind.TIME, NOW_MS - 10_000)),
        ("2024-01-01", Start(StartKind.TIME, 1_704_067_200_000)),
    ],
)
def test_place_is_understood_when_written_in_any_form(text: str, expected: Start) -> None:
    assert parse_start(text, NOW_MS) == expected


def test_usage_error_when_place_is_none() -> None:
    with pytest.raises(UsageError, match="middle"):
        parse_start("middle", NOW_MS)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Start(StartKind.BEGINNING), (10, 0)),
        (Start(StartKind.END), (20, 5)),
        (Start(StartKind.OFFSET, 15), (15, 5)),
        (Start(StartKind.OFFSET, 3), (10, 3)),
        (Start(StartKind.LAST, 4), (16, 1)),
        (Start(StartKind.LAST, 100), (10, 0)),
        (Start(StartKind.TIME, NOW_MS), (12, 5)),
    ],
)
def test_start_lies_within_the_log_when_planned(start: Start, expected: tuple[int, int]) -> None:
    ranges = {P0: range(10, 20), P1: range(5)}
    assert plan_start(start, ranges, {P0: 12, P1: -1}) == {P0: expected[0], P1: expected[1]}


def test_partition_without_records_is_done_at_once_when_end_is_planned() -> None:
    assert Remaining.plan({P0: 5}, {P0: 5}).is_done


def test_partition_is_done_when_its_last_offset_was_seen() -> None:
    remaining = Remaining.plan({P0: 0, P1: 0}, {P0: 2, P1: 1})
    assert not remaining.passed(P0, 1)
    assert remaining.passed(P0, 2)
    assert not remaining.is_done
    assert remaining.passed(P1, 1)
    assert remaining.is_done


def test_partition_is_done_when_its_end_is_reached_without_a_record_there() -> None:
    """The last offset may be a transaction marker or compacted away: only the end-of-partition event comes."""
    remaining = Remaining.plan({P0: 0}, {P0: 3})
    assert remaining.wants(P0, 2)
    assert remaining.passed(P0, 3)
    assert remaining.is_done


def test_later_records_are_not_wanted_when_they_came_after_the_start() -> None:
    remaining = Remaining.plan({P0: 0}, {P0: 2})
    assert remaining.wants(P0, 1)
    assert not remaining.wants(P0, 2)
    remaining.passed(P0, 2)
    assert not remaining.wants(P0, 1)


def test_group_is_not_done_when_nothing_is_assigned_yet() -> None:
    assert not GroupEnds().is_done


def test_group_is_done_when_every_assigned_partition_was_at_its_end() -> None:
    ends = GroupEnds()
    states = []
    for assigned, at_end in (([P0, P1], None), ([P0, P1], P0), ([P0], None), ([P0, P1], None), ([P0, P1], P1)):
        ends.assign(assigned)
        if at_end is not None:
            ends.at_end(at_end)
        states.append(ends.is_done)
    assert states == [False, False, True, False, True]


def test_group_is_done_when_it_gets_no_partition() -> None:
    ends = GroupEnds()
    ends.assign([])
    assert ends.is_done


@pytest.mark.parametrize(
    ("topics", "group", "partitions", "start", "as_json", "has_format"),
    [
        (1, "g", "0", None, False, False),
        (1, "g", None, Start(StartKind.OFFSET, 1), False, False),
        (1, "g", None, Start(StartKind.TIME, 1), False, False),
        (2, None, "0", None, False, False),
        (1, None, None, None, True, True),
    ],
)
def test_usage_error_when_options_contradict_each_other_and_none_when_a_group_starts_at_the_beginning(
    topics: int, group: str | None, partitions: str | None, start: Start | None, as_json: bool, has_format: bool
) -> None:
    check_options(2, "g", None, Start(StartKind.BEGINNING), as_json=True, has_format=False)
    with pytest.raises(UsageError):
        check_options(topics, group, partitions, start, as_json=as_json, has_format=has_format)
