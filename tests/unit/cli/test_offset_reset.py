from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.errors import CliError, UsageError
from penstock.cli.plans.offset_reset import (
    PartitionState,
    PlannedOffset,
    Reset,
    ResetKind,
    TopicSelection,
    choose_reset,
    export_plan,
    parse_reset_file,
    parse_topic_selection,
    plan_reset,
    select_partitions,
)
from penstock.core.types import TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = range(100, 200)


@pytest.mark.parametrize(
    ("reset", "state", "expected"),
    [
        (Reset(ResetKind.EARLIEST), PartitionState(150, LOG), 100),
        (Reset(ResetKind.LATEST), PartitionState(150, LOG), 200),
        (Reset(ResetKind.OFFSET, 120), PartitionState(None, LOG), 120),
        (Reset(ResetKind.OFFSET, 5), PartitionState(None, LOG), 100),
        (Reset(ResetKind.OFFSET, 500), PartitionState(None, LOG), 200),
        (Reset(ResetKind.SHIFT, -20), PartitionState(150, LOG), 130),
        (Reset(ResetKind.SHIFT, -80), PartitionState(150, LOG), 100),
        (Reset(ResetKind.SHIFT, 80), PartitionState(150, LOG), 200),
        (Reset(ResetKind.CURRENT), PartitionState(150, LOG), 150),
        (Reset(ResetKind.CURRENT), PartitionState(20, LOG), 100),
        (Reset(ResetKind.CURRENT), PartitionState(None, LOG), 200),
        (Reset(ResetKind.TIME, 1), PartitionState(150, LOG, at_time=110), 110),
        (Reset(ResetKind.TIME, 1), PartitionState(150, LOG, at_time=-1), 200),
        (Reset(ResetKind.FILE), PartitionState(150, LOG, from_file=199), 199),
    ],
)
def test_new_offset_follows_the_rule_when_planned(reset: Reset, state: PartitionState, expected: int) -> None:
    (planned,) = plan_reset(reset, {P0: state})
    assert planned.new == expected
    assert planned.old == state.committed


def test_plan_says_so_when_an_offset_was_moved_into_the_log() -> None:
    inside, outside = plan_reset(
        Reset(ResetKind.OFFSET, 150), {P0: PartitionState(None, LOG), P1: PartitionState(1, range(9))}
    )
    assert inside.note == ""
    assert outside == PlannedOffset(P1, 1, 9, "150 is outside of the log")


def test_plan_fails_when_there_is_no_offset_to_shift() -> None:
    with pytest.raises(CliError, match="t-0"):
        plan_reset(Reset(ResetKind.SHIFT, 1), {P0: PartitionState(None, LOG)})


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(-(10**7), 10**7), st.integers(0, 10**7))
def test_new_offset_lies_within_the_log_whenever_planned(start: int, size: int, shift: int, committed: int) -> None:
    (planned,) = plan_reset(Reset(ResetKind.SHIFT, shift), {P0: PartitionState(committed, range(start, start + size))})
    assert start <= planned.new <= start + size


def test_topic_selection_may_name_partitions_when_parsed() -> None:
    assert parse_topic_selection("orders") == TopicSelection("orders", None)
    assert parse_topic_selection("orders:0,2-3") == TopicSelection("orders", (0, 2, 3))


@pytest.mark.parametrize("text", ["", ":1", "t:", "t:x"])
def test_usage_error_when_topic_selection_is_none(text: str) -> None:
    with pytest.raises(UsageError):
        parse_topic_selection(text)


def test_partitions_come_once_and_sorted_when_selected() -> None:
    selections = [TopicSelection("t", None), TopicSelection("t", (1,)), TopicSelection("a", (2,))]
    chosen = select_partitions(selections, {"t": [0, 1], "a": [0, 1, 2]})
    assert chosen == [TopicPartition("a", 2), P0, P1]


def test_error_names_the_partition_when_topic_does_not_have_it() -> None:
    with pytest.raises(CliError, match="no partition 7"):
        select_partitions([TopicSelection("t", (0, 7))], {"t": [0, 1]})


def test_file_lines_count_for_their_group_when_they_name_one() -> None:
    text = "t,0,5\n\ng,t,1,6\nother,t,1,7\n"
    assert parse_reset_file(text, "g") == {P0: 5, P1: 6}


@pytest.mark.parametrize("text", ["", "t,0\n", "t,x,1\n", "t,0,-1\n", "other,t,0,1\n", ",0,1\n"])
def test_usage_error_when_reset_file_makes_no_sense(text: str) -> None:
    with pytest.raises(UsageError):
        parse_reset_file(text, "g")


def test_exported_plan_is_read_again_when_given_as_file() -> None:
    plan = [PlannedOffset(P0, None, 5), PlannedOffset(TopicPartition("a,b", 1), 3, 6)]
    assert parse_reset_file(export_plan(plan), "g") == {P0: 5, TopicPartition("a,b", 1): 6}


def test_one_way_is_chosen_when_exactly_one_is_given() -> None:
    assert choose_reset(to_earliest=True) == Reset(ResetKind.EARLIEST)
    assert choose_reset(to_offset=0) == Reset(ResetKind.OFFSET, 0)
    assert choose_reset(shift_by=-5) == Reset(ResetKind.SHIFT, -5)
    assert choose_reset(to_time_ms=0) == Reset(ResetKind.TIME, 0)
    assert choose_reset(from_file=True) == Reset(ResetKind.FILE)


def test_usage_error_when_no_way_or_two_are_given() -> None:
    with pytest.raises(UsageError):
        choose_reset()
    with pytest.raises(UsageError):
        choose_reset(to_latest=True, to_offset=1)
