"""The rules of clients with several requests in flight: which number a batch has when it is sent again."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record
from penstock.testing.history import Outcome
from proof.simulation.notebook import Attempt
from proof.simulation.pipelining.batches import BACKOFF_MS, NO_ANSWER, Answer, Batch, Listener, Rules, Sending
from proof.simulation.pipelining.java import JavaRules
from proof.simulation.pipelining.librdkafka import LibrdkafkaRules

ONE, OTHER = ("records", 0), ("records", 1)
NODE = 1
DELIVERY_MS = 5_000.0
MOVED, GAP = ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class Desk:
    """Hands over batches of one record, passes answers on, and writes down what became of each."""

    def __init__(self, kind: str) -> None:
        self.outcomes: dict[tuple[str, int, int], Outcome] = {}
        self.fatal: list[str] = []
        self.now_ms = 0.0
        listener = Listener(self._done, lambda _: None, self.fatal.append)
        self.rules: Rules = (
            LibrdkafkaRules(0, listener) if kind == "librdkafka" else JavaRules(0, listener, DELIVERY_MS)
        )
        self._count = {ONE: 0, OTHER: 0}

    def _done(self, batch: Batch, outcome: Outcome, _offset: int) -> None:
        self.outcomes[*batch.partition, batch.first] = outcome

    def add(self, *partitions: tuple[str, int]) -> None:
        for partition in partitions:
            first = self._count[partition]
            self._count[partition] += 1
            self.rules.add(Batch(partition, first, [Record(None, b"")], Attempt(1, 0), self.now_ms))

    def take(self, *partitions: tuple[str, int], room: int = 5) -> list[Sending]:
        return [sending for request in self.rules.take(NODE, partitions, room, self.now_ms) for sending in request]

    def settle(self, sendings: Sequence[Sending], *codes: int) -> None:
        for sending, code in zip(sendings, codes, strict=True):
            self.rules.settle(sending, Answer(code), self.now_ms)

    def wait(self, length_ms: float = BACKOFF_MS) -> None:
        self.now_ms += length_ms


def numbers(sendings: Sequence[Sending]) -> list[tuple[int, int, int]]:
    """Partition, epoch and sequence."""
    return [(each.batch.partition[1], each.epoch, each.sequence) for each in sendings]


@pytest.mark.parametrize("kind", ["librdkafka", "java"])
@pytest.mark.parametrize("code", [NO_ANSWER, MOVED, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_batch_has_its_number_again_when_it_is_sent_again(kind: str, code: int) -> None:
    desk = Desk(kind)
    desk.add(ONE, ONE)
    first = desk.take(ONE)
    desk.settle(first, code, code)
    assert desk.take(ONE) == []  # too early
    desk.wait()
    again = desk.take(ONE)
    assert numbers(again)[0] == (0, 0, 0)
    desk.settle(again[:1], ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    desk.settle(again[1:] or desk.take(ONE), 0)
    assert set(desk.outcomes.values()) == {Outcome.OK}
    assert len(desk.outcomes) == 2
    assert desk.rules.is_idle


@pytest.mark.parametrize("kind", ["librdkafka", "java"])
def test_no_more_than_five_requests_are_in_flight_when_a_connection_has_room_for_them(kind: str) -> None:
    desk = Desk(kind)
    desk.add(*[ONE] * 7)
    assert numbers(desk.take(ONE)) == [(0, 0, sequence) for sequence in range(5)]


def test_librdkafka_begins_an_epoch_for_all_partitions_when_a_sequence_was_skipped() -> None:
    desk = Desk("librdkafka")
    desk.add(ONE, ONE, OTHER, OTHER)
    one, other = desk.take(ONE), desk.take(OTHER, room=1)
    desk.settle(one, MOVED, GAP)
    desk.wait()
    assert desk.take(ONE, OTHER) == []  # the other partition has something in flight
    desk.settle(other, MOVED)
    desk.wait()
    assert numbers(desk.take(ONE, OTHER)) == [(0, 1, 0), (0, 1, 1), (1, 1, 0), (1, 1, 1)]
    assert not desk.fatal


def test_librdkafka_ends_when_the_next_batch_to_be_acknowledged_is_out_of_order() -> None:
    desk = Desk("librdkafka")
    desk.add(ONE, ONE)
    sendings = desk.take(ONE)
    desk.settle(sendings[:1], 0)
    desk.settle(sendings[1:], GAP)
    assert desk.fatal == ["records-0 epoch 0 sequence 1 is the next to be acknowledged and out of order for the broker"]
    assert desk.rules.is_idle


def test_librdkafka_takes_a_batch_for_written_when_a_later_one_is_acknowledged() -> None:
    desk = Desk("librdkafka")
    desk.add(ONE, ONE)
    desk.settle(desk.take(ONE), ErrorCode.REQUEST_TIMED_OUT, 0)
    assert desk.outcomes == {(*ONE, 0): Outcome.OK, (*ONE, 1): Outcome.OK}


def test_java_keeps_the_number_when_a_batch_behind_a_refused_one_is_out_of_order() -> None:
    desk = Desk("java")
    desk.add(ONE, ONE)
    desk.settle(desk.take(ONE), MOVED, GAP)
    desk.wait()
    again = desk.take(ONE)
    assert numbers(again) == [(0, 0, 0)]  # alone
    desk.settle(again, 0)
    assert numbers(desk.take(ONE)) == [(0, 0, 1)]


def test_java_begins_an_epoch_for_one_partition_when_a_delivery_time_has_ended() -> None:
    desk = Desk("java")
    desk.add(ONE)
    desk.settle(desk.take(ONE), MOVED)
    desk.wait(DELIVERY_MS - 1)
    desk.add(ONE, OTHER, OTHER)
    other = desk.take(OTHER)
    desk.wait()
    desk.take()
    assert desk.outcomes == {(*ONE, 0): Outcome.UNKNOWN}
    assert numbers(desk.take(ONE)) == [(0, 1, 0)]
    assert numbers(other) == [(1, 0, 0), (1, 0, 1)]
    desk.add(OTHER)
    assert desk.take(OTHER) == []  # two of the older epoch are in flight
    desk.settle(other, 0, 0)
    assert numbers(desk.take(OTHER)) == [(1, 1, 0)]
