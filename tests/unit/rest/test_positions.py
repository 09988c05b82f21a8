"""Positions of a consumer instance: what was given, what is kept, and what a rebalance throws away."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.partition_fetch import FetchedRecord
from penstock.core.types import TopicPartition
from penstock.rest.consumers.positions import Positions

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def assigned(offsets: dict[TopicPartition, int]) -> Positions:
    positions = Positions()
    positions.assign(offsets)
    for partition, offset in offsets.items():
        positions.settle(partition, offset)
    return positions


def records(first: int, count: int, size: int = 1) -> list[FetchedRecord]:
    return [FetchedRecord(first + each, 0, None, b"x" * size, ()) for each in range(count)]


def test_positions_are_to_be_found_out_when_partitions_are_assigned() -> None:
    positions = Positions()
    positions.assign([FIRST, SECOND])
    assert positions.unsettled == [FIRST, SECOND]
    positions.settle(FIRST, 5)
    assert positions.next_turn() == [(FIRST, 5)]
    positions.settle(SECOND, 9)
    assert positions.all() == {FIRST: 5, SECOND: 9}
    assert positions.take_dirty() == {}


@given(st.lists(st.integers(0, 3), max_size=40), st.randoms(use_true_random=False))
def test_size_of_what_is_kept_is_that_of_its_records_when_anything_happens(steps: list[int], random: Random) -> None:
    positions = assigned({FIRST: 0, SECOND: 0})
    for step in steps:
        partition = random.choice([FIRST, SECOND])
        if step == 0:
            positions.keep(partition, records(random.randint(0, 50), 3, random.randint(0, 9)), 60)
        elif step == 1:
            positions.advance(positions.peek(random.randint(0, 40)))
        elif step == 2:
            positions.seek(partition, 5)
        else:
            positions.assign([FIRST, SECOND])
        assert positions.kept_bytes == sum(each.size for each in positions.peek(1_000_000))


def test_positions_stay_when_a_partition_is_assigned_again() -> None:
    positions = assigned({FIRST: 5})
    positions.keep(FIRST, records(5, 2), 7)
    positions.advance(positions.peek(100))
    positions.assign([FIRST, SECOND])
    assert positions.all() == {FIRST: 7}
    assert positions.unsettled == [SECOND]
    assert positions.take_dirty() == {FIRST: 7}


def test_kept_records_are_forgotten_when_a_caller_seeks() -> None:
    positions = assigned({FIRST: 0})
    positions.keep(FIRST, records(0, 10), 10)
    positions.seek(FIRST, 3)
    assert positions.peek(100) == []
    assert positions.next_turn() == [(FIRST, 3)]


def test_position_moves_past_markers_when_a_fetch_has_no_records() -> None:
    positions = assigned({FIRST: 4})
    positions.keep(FIRST, [], 6)
    assert positions.all() == {FIRST: 6}


def test_a_record_is_given_when_it_is_larger_than_the_answer_may_be() -> None:
    positions = assigned({FIRST: 0})
    positions.keep(FIRST, records(0, 2, size=100), 2)
    assert [each.record.offset for each in positions.peek(10)] == [0]


def test_every_partition_comes_first_in_turn_when_there_are_several() -> None:
    positions = assigned({FIRST: 0, SECOND: 0})
    assert {positions.next_turn()[0][0] for _ in range(2)} == {FIRST, SECOND}


@given(
    sizes=st.lists(st.tuples(st.sampled_from([FIRST, SECOND]), st.integers(0, 50)), max_size=60),
    budgets=st.lists(st.integers(1, 120), min_size=1, max_size=30),
)
def test_all_records_are_given_once_and_in_order_when_answers_are_small(
    sizes: list[tuple[TopicPartition, int]], budgets: list[int]
) -> None:
    positions = assigned({FIRST: 0, SECOND: 0})
    fetched: dict[TopicPartition, list[FetchedRecord]] = {FIRST: [], SECOND: []}
    for partition, size in sizes:
        fetched[partition].append(FetchedRecord(len(fetched[partition]), 0, None, b"x" * size, ()))
    for partition, found in fetched.items():
        positions.keep(partition, found, len(found))
    given_offsets: dict[TopicPartition, list[int]] = {FIRST: [], SECOND: []}
    turn = 0
    while found_now := positions.peek(budgets[turn % len(budgets)]):
        size = sum(each.size for each in found_now)
        assert len(found_now) == 1 or size <= budgets[turn % len(budgets)]
        for each in found_now:
            given_offsets[each.partition].append(each.record.offset)
        positions.advance(found_now)
        turn += 1
    assert given_offsets == {partition: list(range(len(found))) for partition, found in fetched.items()}
    assert positions.all() == {partition: len(found) for partition, found in fetched.items()}
