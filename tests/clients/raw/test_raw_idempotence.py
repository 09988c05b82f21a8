"""Producer ids, sequences and epochs (KIP-98), and DescribeProducers."""

from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.clients.raw.wire import (
    Topic,
    Wire,
    build_batch,
    error_of,
    errors_of,
    fetch,
    init_producer_id,
    new_name,
    new_producer_id,
    produce,
    produce_ok,
    view_batches,
)

MAX_SEQUENCE = 2**31 - 1


class Producer:
    def __init__(self, wire: Wire, topic: Topic) -> None:
        self.wire, self.topic = wire, topic
        self.id = new_producer_id(wire)

    def send(self, sequence: int, records: int = 1, epoch: int = 0) -> tuple[ErrorCode, int]:
        batch = build_batch([b"r"] * records, producer_id=self.id, producer_epoch=epoch, sequence=sequence)
        answer = produce(self.wire, self.topic, batch)
        return error_of(answer), answer.base_offset


@pytest.fixture
def producer(wire: Wire, topic: Topic) -> Producer:
    return Producer(wire, topic)


OK = ErrorCode.NONE
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class TestInitProducerId:
    @pytest.mark.parametrize("version", range(6))
    def test_new_id_with_epoch_0_is_given_when_there_is_no_transaction(self, wire: Wire, version: int) -> None:
        first, second = init_producer_id(wire, version), init_producer_id(wire, version)
        assert (first.error_code, first.producer_epoch) == (0, 0)
        assert second.producer_id > first.producer_id >= 0

    def test_request_is_invalid_when_the_transactional_id_is_empty(self, wire: Wire) -> None:
        answer = wire(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000))
        assert error_of(answer) == ErrorCode.INVALID_REQUEST

    def test_timeout_is_not_looked_at_when_there_is_no_transaction(self, wire: Wire) -> None:
        assert wire(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)).error_code == 0

    def test_new_id_is_given_when_an_id_and_epoch_are_sent_without_transaction(self, wire: Wire) -> None:
        known = new_producer_id(wire)
        answer = wire(
            InitProducerIdRequest(
                transactional_id=None, transaction_timeout_ms=1000, producer_id=known, producer_epoch=0
            )
        )
        assert answer.error_code == 0
        assert answer.producer_id != known

    def test_request_is_invalid_when_only_one_of_id_and_epoch_is_sent(self, wire: Wire) -> None:
        for producer_id, epoch in ((5, -1), (-1, 5)):
            answer = wire(
                InitProducerIdRequest(
                    transactional_id=None, transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch
                )
            )
            assert error_of(answer) == ErrorCode.INVALID_REQUEST


class TestSequences:
    def test_batches_are_appended_when_sequences_follow_each_other(self, producer: Producer) -> None:
        assert [producer.send(0, 2), producer.send(2, 3), producer.send(5)] == [(OK, 0), (OK, 2), (OK, 5)]

    def test_original_offset_is_answered_when_the_last_batch_comes_again(self, producer: Producer) -> None:
        assert [producer.send(0, 2), producer.send(0, 2), producer.send(2)] == [(OK, 0), (OK, 0), (OK, 2)]

    def test_original_offset_is_answered_when_one_of_the_last_five_comes_again(self, producer: Producer) -> None:
        for sequence in range(6):
            producer.send(sequence)
        assert [producer.send(sequence) for sequence in range(1, 6)] == [(OK, offset) for offset in range(1, 6)]

    def test_sequence_is_a_duplicate_when_older_than_the_last_five_batches(self, producer: Producer) -> None:
        for sequence in range(6):
            producer.send(sequence)
        assert producer.send(0)[0] == OUT_OF_ORDER

    def test_batch_is_out_of_order_when_a_sequence_is_missing(self, producer: Producer) -> None:
        assert [producer.send(0), producer.send(2), producer.send(1)] == [(OK, 0), (OUT_OF_ORDER, -1), (OK, 1)]

    def test_batch_is_out_of_order_when_it_overlaps_the_last_one(self, producer: Producer) -> None:
        producer.send(0, 3)
        assert producer.send(2, 3)[0] == OUT_OF_ORDER
        assert producer.send(0, 2)[0] == OUT_OF_ORDER

    def test_any_sequence_is_accepted_when_the_producer_is_unknown(self, producer: Producer) -> None:
        assert producer.send(17) == (OK, 0)

    def test_sequence_goes_on_at_0_when_the_largest_is_used(self, producer: Producer) -> None:
        assert [producer.send(MAX_SEQUENCE), producer.send(0), producer.send(1)] == [(OK, 0), (OK, 1), (OK, 2)]

    def test_sequence_goes_on_inside_a_batch_when_the_largest_is_passed(self, producer: Producer) -> None:
        assert [producer.send(MAX_SEQUENCE - 1, 4), producer.send(2)] == [(OK, 0), (OK, 4)]

    def test_producers_do_not_disturb_each_other_when_they_share_a_partition(self, wire: Wire, topic: Topic) -> None:
        first, second = Producer(wire, topic), Producer(wire, topic)
        assert [first.send(0), second.send(0), first.send(1), second.send(1)] == [(OK, offset) for offset in range(4)]

    def test_nothing_is_written_twice_when_duplicates_were_sent(self, producer: Producer) -> None:
        for sequence in (0, 0, 1, 1, 0):
            producer.send(sequence)
        batches = view_batches(fetch(producer.wire, producer.topic).records)
        assert [(batch.base_offset, batch.sequence) for batch in batches] == [(0, 0), (1, 1)]


class TestEpochs:
    def test_sequence_starts_at_0_when_the_epoch_is_new(self, producer: Producer) -> None:
        assert [producer.send(0), producer.send(1), producer.send(0, epoch=1)] == [(OK, 0), (OK, 1), (OK, 2)]

    def test_batch_is_out_of_order_when_a_new_epoch_starts_elsewhere(self, producer: Producer) -> None:
        producer.send(0)
        assert producer.send(1, epoch=1) == (OUT_OF_ORDER, -1)

    def test_epoch_is_invalid_when_a_newer_one_was_seen(self, producer: Producer) -> None:
        producer.send(0, epoch=1)
        assert producer.send(1, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
        assert producer.send(1, epoch=1) == (OK, 1)


class TestDescribeProducers:
    def describe(self, wire: Wire, topic: str, partition: int = 0) -> object:
        wanted = TopicRequest(name=topic, partition_indexes=[partition])
        return wire(DescribeProducersRequest(topics=[wanted])).topics[0].partitions[0]

    def test_active_producers_are_listed_when_they_wrote(self, producer: Producer) -> None:
        producer.send(0, 3)
        produce_ok(producer.wire, producer.topic, build_batch())
        described = self.describe(producer.wire, producer.topic.name)
        (state,) = described.active_producers  # type: ignore[attr-defined]
        assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer.id, 0, 2)
        assert (state.coordinator_epoch, state.current_txn_start_offset) == (-1, -1)
        assert state.last_timestamp > 0

    def test_partition_is_unknown_when_it_does_not_exist(self, wire: Wire, topic: Topic) -> None:
        answers = [self.describe(wire, new_name()), self.describe(wire, topic.name, 1)]
        assert errors_of(answers) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2

    def test_list_is_empty_when_nobody_wrote(self, wire: Wire, topic: Topic) -> None:
        described = self.describe(wire, topic.name)
        assert described.error_code == 0  # type: ignore[attr-defined]
        assert described.active_producers == []  # type: ignore[attr-defined]
