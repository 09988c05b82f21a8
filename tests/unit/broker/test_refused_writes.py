"""Batches behind one that was refused."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock.broker.partitions import refused_writes
from penstock.broker.partitions.refused_writes import KEPT_MS, MOST_KEPT, Place, RefusedWrites
from penstock.core.types import TopicPartition
from penstock.log.state.origin import Origin
from penstock.log.state.producer_state import ProducerState, is_sequence_before
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.clock import ManualClock
from tests.unit.log.support import batch, sequenced

HERE = Place("10.0.0.1:5-1", "orders", 0)
LAST = 0x7FFFFFFF
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Case(NamedTuple):
    refused: RefusedWrites
    log: ProducerState
    clock: ManualClock

    def answer(self, records: bytes, place: Place = HERE) -> ErrorCode:
        """What the batch meets. One that is taken is in the log."""
        header = read_header(records)
        try:
            self.refused.check(place, records, self.log)
            self.log.admit(header, Origin.CLIENT)
        except ApiError as error:
            return error.code
        self.log.update(header, self.log.end_offset, 0)
        self.log.end_offset += 1
        return ErrorCode.NONE

    def refuse(self, records: bytes, code: ErrorCode = NOT_LEADER, place: Place = HERE) -> None:
        self.refused.note(place, records, code)


@pytest.fixture
def case() -> Case:
    clock = ManualClock()
    return Case(RefusedWrites(clock), ProducerState(TopicPartition("orders", 0)), clock)


def test_what_follows_a_refused_batch_is_refused_with_its_error_until_it_comes(case: Case) -> None:
    assert case.answer(sequenced(0, 3)) == ErrorCode.NONE
    case.refuse(sequenced(3), ErrorCode.NOT_ENOUGH_REPLICAS)
    case.refuse(sequenced(4))
    assert [case.answer(sequenced(number)) for number in (4, 5, 6)] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
    assert [case.answer(sequenced(number)) for number in (3, 4, 5)] == [ErrorCode.NONE] * 3
    assert not case.refused.kept


def test_an_unknown_producer_does_not_begin_in_the_middle_when_its_first_batch_was_refused(case: Case) -> None:
    case.refuse(sequenced(0))
    assert case.answer(sequenced(1)) == NOT_LEADER
    assert [case.answer(sequenced(number)) for number in (0, 1)] == [ErrorCode.NONE] * 2


def test_a_batch_that_came_before_is_recognised_when_one_behind_it_was_refused(case: Case) -> None:
    assert case.answer(sequenced(0)) == case.answer(sequenced(1)) == ErrorCode.NONE
    case.refuse(sequenced(2))
    assert case.answer(sequenced(1)) == ErrorCode.NONE


def test_a_refusal_is_forgotten_when_its_batch_came_at_another_leader(case: Case) -> None:
    case.refuse(sequenced(0))
    case.log.update(read_header(sequenced(0, 10)), 0, 0)  # fetched from that leader
    assert case.answer(sequenced(10)) == ErrorCode.NONE
    assert not case.refused.kept


def test_a_gap_is_told_when_nothing_was_refused_on_this_connection(case: Case) -> None:
    assert case.answer(sequenced(0)) == ErrorCode.NONE
    case.refuse(sequenced(1), place=HERE._replace(connection_id="10.0.0.9:5-2"))
    case.refuse(sequenced(1), place=HERE._replace(partition=1))
    case.refuse(sequenced(1), place=HERE._replace(topic=bytes(16)))
    case.refuse(sequenced(1, producer_id=8))
    assert case.answer(sequenced(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_told_when_the_client_will_not_repeat_what_was_refused(case: Case) -> None:
    assert case.answer(sequenced(0)) == ErrorCode.NONE
    case.refuse(sequenced(1), ErrorCode.MESSAGE_TOO_LARGE)
    assert case.answer(sequenced(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_told_when_the_refused_batch_does_not_come_again(case: Case) -> None:
    assert case.answer(sequenced(0)) == ErrorCode.NONE
    case.refuse(sequenced(1))
    case.clock.advance(KEPT_MS - 1)
    assert case.answer(sequenced(2)) == NOT_LEADER
    case.refuse(sequenced(2))  # which does not make the first one younger
    case.clock.advance(1)
    assert case.answer(sequenced(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_begins_anew_when_the_old_one_was_refused(case: Case) -> None:
    assert case.answer(sequenced(0)) == ErrorCode.NONE
    case.refuse(sequenced(1))
    assert case.answer(sequenced(0, epoch=1)) == ErrorCode.NONE
    assert case.answer(sequenced(1, epoch=1)) == ErrorCode.NONE
    case.refuse(sequenced(0, epoch=2))
    assert case.answer(sequenced(1, epoch=2)) == NOT_LEADER


def test_sequences_go_on_at_zero_when_the_refused_one_was_the_last(case: Case) -> None:
    case.log.update(read_header(sequenced(LAST - 1)), 0, 0)
    case.refuse(sequenced(LAST))
    assert case.answer(sequenced(0)) == NOT_LEADER
    assert case.answer(sequenced(LAST)) == case.answer(sequenced(0)) == ErrorCode.NONE
    assert is_sequence_before(LAST, 0)
    assert not is_sequence_before(0, LAST)
    assert not is_sequence_before(3, 3)


@pytest.mark.parametrize("records", [None, b"", bytes(20), batch("no producer")])
def test_nothing_is_kept_of_what_has_no_sequence(case: Case, records: bytes | None) -> None:
    case.refused.note(HERE, records, NOT_LEADER)
    assert not case.refused.kept


def test_memory_is_bounded_when_a_client_is_refused_again_and_again(case: Case) -> None:
    case.refuse(sequenced(0), place=HERE._replace(topic="t" * 250))
    assert not case.refused.kept
    records = sequenced(0)
    for number in range(MOST_KEPT + 5):
        case.refuse(records, place=HERE._replace(partition=number))
    kept = [place.partition for place, _ in case.refused.kept]
    assert kept == list(range(5, MOST_KEPT + 5))
    case.clock.advance(refused_writes.KEPT_MS)
    assert case.answer(sequenced(0, producer_id=1)) == ErrorCode.NONE
    assert not case.refused.kept  # so that nobody looks there any more
