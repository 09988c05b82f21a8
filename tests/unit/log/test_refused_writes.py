"""Batches behind one that was refused."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from penstock.core.types import TopicPartition
from penstock.log.state.origin import Origin
from penstock.log.state.producer_state import ProducerState, is_sequence_before
from penstock.log.state.refused_writes import KEPT_MS, MOST_KEPT, RefusedWrites
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.testing.clock import ManualClock
from tests.unit.log.support import batch, sequenced

TOPIC = "orders"
LAST = 0x7FFFFFFF
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS
GAP = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Case(NamedTuple):
    refused: RefusedWrites
    log: ProducerState
    clock: ManualClock

    def answer(self, records: bytes) -> ErrorCode:
        """What the batch meets. One that is taken is in the log."""
        header = read_header(records)
        try:
            self.refused.check(TOPIC, 0, records, self.log, self.clock.monotonic_ms())
            is_copy = self.log.admit(header, Origin.CLIENT) is not None
        except ApiError as error:
            return error.code
        if not is_copy:
            self.log.update(header, self.log.end_offset, 0)
            self.log.end_offset += 1
        return ErrorCode.NONE

    def answers(self, *sequences: int) -> list[ErrorCode]:
        return [self.answer(sequenced(each)) for each in sequences]

    def refuse(self, *sequences: int, code: ErrorCode = NOT_LEADER, topic: str | bytes = TOPIC, index: int = 0) -> None:
        for each in sequences:
            self.refused.note(topic, index, sequenced(each), code, self.clock.monotonic_ms())


@pytest.fixture
def case() -> Case:
    return Case(RefusedWrites(), ProducerState(TopicPartition(TOPIC, 0)), ManualClock())


def test_what_follows_a_refused_batch_is_refused_with_its_error_until_it_comes(case: Case) -> None:
    assert case.answer(sequenced(0, 3)) == ErrorCode.NONE
    case.refuse(3, code=TOO_FEW)
    case.refuse(4)
    assert case.answers(4, 5, 6) == [TOO_FEW] * 3
    assert case.answers(3, 4, 5) == [ErrorCode.NONE] * 3
    assert not case.refused.kept


def test_an_unknown_producer_does_not_begin_in_the_middle_when_its_first_batch_was_refused(case: Case) -> None:
    case.refuse(0)
    assert case.answers(1, 0, 1) == [NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE]


def test_a_batch_that_came_before_is_recognised_when_one_behind_it_was_refused(case: Case) -> None:
    assert case.answers(0, 1) == [ErrorCode.NONE] * 2
    case.refuse(2)
    assert case.answers(1) == [ErrorCode.NONE]


def test_what_is_missing_is_not_forgotten_when_copies_of_what_is_there_are_refused_too(case: Case) -> None:
    """The first batches wait for an acknowledgement, so the client sends them again with the refused ones."""
    assert case.answers(0, 1, 2) == [ErrorCode.NONE] * 3
    case.refuse(3, 4)
    case.refuse(1, 2, 3, code=TOO_FEW)
    assert case.answers(4, 1, 2, 3, 4, 5) == [TOO_FEW, *[ErrorCode.NONE] * 5]


def test_the_next_missing_batch_counts_when_the_first_refused_one_has_come(case: Case) -> None:
    case.refuse(3)
    assert case.answers(3) == [ErrorCode.NONE]
    case.refuse(4)
    assert case.answers(5, 4, 5) == [NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE]


def test_a_refusal_is_forgotten_when_its_batch_came_at_another_leader(case: Case) -> None:
    case.refuse(0)
    case.log.update(read_header(sequenced(0, 10)), 0, 0)  # fetched from that leader
    assert case.answers(10) == [ErrorCode.NONE]
    assert not case.refused.kept


def test_a_refusal_is_forgotten_when_its_batch_has_come_and_the_topic_is_made_anew(case: Case) -> None:
    """The producer wrote nothing for two minutes: the new log does not know what had come to the old one."""
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1, 2)
    assert case.answers(1, 2) == [ErrorCode.NONE] * 2
    anew = case._replace(log=ProducerState(TopicPartition(TOPIC, 0)))
    assert anew.answers(3) == [ErrorCode.NONE]


def test_the_rest_is_still_missing_when_the_topic_is_made_anew_in_the_middle(case: Case) -> None:
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1, 2)
    assert case.answers(1) == [ErrorCode.NONE]
    anew = case._replace(log=ProducerState(TopicPartition(TOPIC, 0)))
    assert anew.answers(3, 2, 3) == [NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE]


def test_a_batch_is_missing_again_when_it_was_refused_once_more(case: Case) -> None:
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1, 2, 3)
    case.refused.check(TOPIC, 0, sequenced(1), case.log, 0)  # and the append is refused
    case.refuse(1, code=TOO_FEW)
    assert case.answers(2, 3, 4) == [TOO_FEW] * 3
    assert case.answers(1, 2, 3, 4) == [ErrorCode.NONE] * 4


def test_an_old_refusal_does_not_take_a_new_one_with_it(case: Case) -> None:
    case.refuse(0)
    case.clock.advance(KEPT_MS)
    case.refuse(5)
    assert case.answers(6, 5, 6) == [NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE]


def test_a_gap_is_told_when_another_partition_or_producer_was_refused(case: Case) -> None:
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1, index=1)
    case.refuse(1, topic=bytes(16))
    case.refused.note(TOPIC, 0, sequenced(1, producer_id=8), NOT_LEADER, 0)
    assert case.answers(2) == [GAP]


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE])
def test_a_gap_is_told_when_the_client_will_not_repeat_what_was_refused(case: Case, code: ErrorCode) -> None:
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1, code=code)
    assert case.answers(2) == [GAP]


def test_a_gap_is_told_when_the_refused_batch_does_not_come_again(case: Case) -> None:
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1)
    case.clock.advance(KEPT_MS - 1)
    assert case.answers(2) == [NOT_LEADER]
    case.refuse(2)  # which does not make the first one younger
    case.clock.advance(1)
    assert case.answers(2) == [GAP]
    assert not case.refused.kept


def test_nothing_is_kept_for_ever_when_the_client_has_gone_to_another_leader(case: Case) -> None:
    """Every later write on the connection would take the longer way."""
    case.refuse(0, index=1)
    case.refuse(0, index=2)
    case.clock.advance(KEPT_MS)
    assert case.answers(0) == [ErrorCode.NONE]
    assert not case.refused.kept


def test_a_new_epoch_begins_anew_when_the_old_one_was_refused(case: Case) -> None:
    assert case.answers(0) == [ErrorCode.NONE]
    case.refuse(1)
    assert case.answer(sequenced(0, epoch=1)) == case.answer(sequenced(1, epoch=1)) == ErrorCode.NONE
    case.refused.note(TOPIC, 0, sequenced(0, epoch=2), NOT_LEADER, 0)
    assert case.answer(sequenced(5, epoch=1)) == GAP  # which is late, and says nothing of the newer epoch
    assert case.answer(sequenced(1, epoch=2)) == NOT_LEADER


def test_sequences_go_on_at_zero_when_the_refused_one_was_the_last(case: Case) -> None:
    case.log.update(read_header(sequenced(LAST - 1)), 0, 0)
    case.refuse(LAST)
    assert case.answers(0, LAST, 0) == [NOT_LEADER, ErrorCode.NONE, ErrorCode.NONE]
    assert is_sequence_before(LAST, 0)
    assert not is_sequence_before(0, LAST)
    assert not is_sequence_before(3, 3)


@pytest.mark.parametrize("records", [None, b"", bytes(20), batch("no producer")])
def test_nothing_is_kept_of_what_has_no_sequence(case: Case, records: bytes | None) -> None:
    case.refused.note(TOPIC, 0, records, NOT_LEADER, 0)
    assert not case.refused.kept


def test_memory_is_bounded_when_a_client_is_refused_again_and_again(case: Case) -> None:
    case.refuse(0, topic="t" * 250)
    case.refuse(0, topic="\u20ac" * 249)
    assert not case.refused.kept
    for index in range(MOST_KEPT + 5):
        case.refuse(0, index=index)
    assert [index for _, index, _ in case.refused.kept] == list(range(5, MOST_KEPT + 5))
