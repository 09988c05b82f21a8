"""Waits for the replicas: whom a rising watermark answers, and what ends the others."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.replication.acknowledgements import Acknowledgements

MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


answered: list[Waiting] = []  # in the order of the answers


class Deadline:
    def __init__(self) -> None:
        self.is_running = True

    def cancel(self) -> None:
        self.is_running = False


class Waiting:
    """A wait and its timer."""

    def __init__(self) -> None:
        self.code: ErrorCode | None = None
        self.is_cancelled = False
        self.deadline = Deadline()

    @property
    def has_timer(self) -> bool:
        return self.deadline.is_running

    def done(self) -> bool:
        return self.is_cancelled or self.code is not None

    def set_result(self, result: ErrorCode, /) -> None:
        assert not self.done()
        self.code = result
        answered.append(self)


@pytest.fixture(autouse=True)
def forget_answers() -> None:
    answered.clear()


def add(waits: Acknowledgements, end_offset: int, *, ends_with_epoch: bool = False) -> Waiting:
    wait = Waiting()
    if ends_with_epoch:
        waits.add(end_offset, wait, wait.deadline, ends_with_epoch=True)
    else:
        waits.add(end_offset, wait, wait.deadline)
    return wait


def test_a_thousand_writers_hear_in_order_when_the_watermark_rises() -> None:
    waits = Acknowledgements()
    writers = [add(waits, offset) for offset in range(1_000, 0, -1)][::-1]
    waits.release(500, ErrorCode.NONE)
    assert answered == writers[:500]
    assert {writer.code for writer in answered} == {ErrorCode.NONE}
    assert [writer.has_timer for writer in writers] == [False] * 500 + [True] * 500
    assert len(waits) == 500


def test_all_hear_in_the_order_of_their_arrival_when_another_broker_leads() -> None:
    waits = Acknowledgements()
    writers = [add(waits, offset, ends_with_epoch=offset % 2 == 0) for offset in (3, 2, 1, 4)]
    waits.refuse_all(MOVED)
    assert answered == writers
    assert {writer.code for writer in writers} == {MOVED}
    assert not any(writer.has_timer for writer in writers)
    assert len(waits) == 0


def test_producers_wait_on_when_an_epoch_ends_and_all_other_waits_end() -> None:
    waits = Acknowledgements()
    producers = [add(waits, offset) for offset in (9, 1)]
    others = [add(waits, offset, ends_with_epoch=True) for offset in (8, 2)]
    waits.end_epoch(MOVED)
    assert answered == others
    assert {other.code for other in others} == {MOVED}
    assert not any(other.has_timer for other in others)
    assert len(waits) == 2
    waits.release(1, ErrorCode.NONE)
    assert [producer.code for producer in producers] == [None, ErrorCode.NONE]
    waits.release(9, ErrorCode.NONE)
    assert producers[0].code is ErrorCode.NONE


def test_both_kinds_are_answered_by_offset_when_the_watermark_rises() -> None:
    waits = Acknowledgements()
    writers = [add(waits, offset, ends_with_epoch=offset % 2 == 0) for offset in (4, 1, 3, 2)]
    waits.release(3, ErrorCode.NONE)
    assert [writer.code for writer in writers] == [None, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE]


def test_writers_without_patience_leave_nothing_behind() -> None:
    waits = Acknowledgements()
    writers = [add(waits, 1) for _ in range(100)]
    for writer in writers:
        waits.expire(writer)
    assert {writer.code for writer in writers} == {ErrorCode.REQUEST_TIMED_OUT}
    assert len(waits) == 0


def test_a_wait_that_is_over_stays_until_half_of_all_are_over() -> None:
    waits = Acknowledgements()
    writers = [add(waits, offset) for offset in range(1, 5)]
    for writer in writers[:2]:
        waits.expire(writer)
    assert len(waits) == 4
    waits.expire(writers[2])
    assert len(waits) == 1
    waits.release(4, ErrorCode.NONE)
    assert writers[3].code is ErrorCode.NONE


def test_the_count_of_waits_that_are_over_goes_down_when_the_watermark_passes_one() -> None:
    waits = Acknowledgements()
    early, late = [add(waits, offset) for offset in (1, 2)], [add(waits, 9) for _ in range(3)]
    for writer in early:
        waits.expire(writer)
    waits.release(1, ErrorCode.NONE)
    assert {writer.code for writer in early} == {ErrorCode.REQUEST_TIMED_OUT}
    waits.expire(late[0])
    assert len(waits) == 4
    waits.expire(late[1])
    assert len(waits) == 1


def test_the_count_of_waits_that_are_over_begins_again_when_they_have_been_dropped() -> None:
    waits = Acknowledgements()
    waits.expire(add(waits, 1))
    assert len(waits) == 0
    writers = [add(waits, 9) for _ in range(4)]
    waits.expire(writers[0])
    waits.expire(writers[1])
    assert len(waits) == 4


def test_nobody_is_answered_twice_when_a_client_has_gone() -> None:
    waits = Acknowledgements()
    gone, also_gone, here = add(waits, 1), add(waits, 2), add(waits, 3)
    gone.is_cancelled = also_gone.is_cancelled = True
    waits.release(1, ErrorCode.NONE)
    waits.expire(also_gone)
    waits.refuse_all(MOVED)
    assert answered == [here]


def test_a_client_that_has_gone_does_not_count_as_over_when_the_watermark_passes_its_wait() -> None:
    waits = Acknowledgements()
    gone, writers = add(waits, 1), [add(waits, 9) for _ in range(4)]
    gone.is_cancelled = True
    waits.release(1, ErrorCode.NONE)
    waits.expire(writers[0])
    waits.expire(writers[1])
    assert len(waits) == 4


def test_only_waits_that_are_over_are_dropped_when_an_epoch_ends() -> None:
    waits = Acknowledgements()
    gone, producer, coordinator = add(waits, 1), add(waits, 2), add(waits, 3, ends_with_epoch=True)
    gone.is_cancelled = True
    waits.end_epoch(MOVED)
    assert len(waits) == 1
    assert (producer.code, coordinator.code) == (None, MOVED)
