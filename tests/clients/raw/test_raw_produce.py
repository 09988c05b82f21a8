"""Produce: what is accepted, what is refused with which code, and where records land."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.client.connection import ConnectionClosedError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import ProduceRequest
from tests.clients.raw.wire import (
    Record,
    Topic,
    Wire,
    build_batch,
    create_topic,
    error_of,
    errors_of,
    fetch,
    new_name,
    now_ms,
    produce,
    produce_ok,
    produce_request,
    view_batches,
)

DAY_MS = 86_400_000
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
GZIP, ZSTD = 1, 4


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_count_up_when_batches_are_appended(wire: Wire, topic: Topic, version: int, acks: int) -> None:
    answers = [produce(wire, topic, build_batch([b"a", b"b"]), acks=acks, version=version) for _ in range(2)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 0), (0, 2)]
    assert answers[0].log_append_time_ms == -1
    assert answers[0].log_start_offset == (0 if version >= 5 else -1)


def test_nothing_is_answered_when_acks_is_0(wire: Wire, topic: Topic) -> None:
    wire.connection.send(produce_request(topic, {0: build_batch()}, acks=0), 9, is_answered=False)
    assert produce_ok(wire, topic, build_batch()) == 1


def test_connection_is_closed_when_acks_is_0_and_the_topic_unknown(wire: Wire) -> None:
    """There is no answer that could carry the error; closing makes the client refresh its metadata."""
    unknown = Topic(new_name(), bytes(16))
    wire.connection.send(produce_request(unknown, {0: build_batch()}, acks=0), 9, is_answered=False)
    with pytest.raises(ConnectionClosedError):
        wire.connection.receive_frame()


@pytest.mark.parametrize("acks", [2, -2, 32767])
def test_acks_are_refused_when_they_are_not_0_1_or_all(wire: Wire, topic: Topic, acks: int) -> None:
    answer = produce(wire, topic, build_batch(), acks=acks)
    assert error_of(answer) == ErrorCode.INVALID_REQUIRED_ACKS
    assert (answer.base_offset, answer.log_append_time_ms) == (-1, -1)


def test_topic_is_unknown_when_named_and_absent(wire: Wire) -> None:
    answer = produce(wire, Topic(new_name(), bytes(16)), build_batch(), version=12)
    assert error_of(answer) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (answer.base_offset, answer.log_start_offset) == (-1, -1)


def test_topic_id_is_unknown_when_nobody_has_it(wire: Wire) -> None:
    assert error_of(produce(wire, Topic("", b"\x01" * 16), build_batch(), version=13)) == ErrorCode.UNKNOWN_TOPIC_ID


def test_topic_id_is_unknown_when_it_is_zero(wire: Wire) -> None:
    assert error_of(produce(wire, Topic("", bytes(16)), build_batch(), version=13)) == ErrorCode.UNKNOWN_TOPIC_ID


def test_answer_names_the_topic_by_id_when_the_request_does(wire: Wire, topic: Topic) -> None:
    answer = wire(produce_request(topic, {0: build_batch()}), 13)
    assert answer.responses[0].topic_id == topic.id


@pytest.mark.parametrize("partition", [1, -1, 2**31 - 1])
def test_partition_is_unknown_when_the_topic_has_fewer(wire: Wire, topic: Topic, partition: int) -> None:
    answer = wire(produce_request(topic, {partition: build_batch()}))
    assert errors_of(answer.responses[0].partition_responses) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_other_partitions_are_written_when_one_is_refused(wire: Wire) -> None:
    topic = create_topic(wire, partitions=3)
    answer = wire(
        produce_request(topic, {0: build_batch(), 7: build_batch(), 2: build_batch(crc_error=1), 1: build_batch()})
    )
    by_partition = {one.index: error_of(one) for one in answer.responses[0].partition_responses}
    assert by_partition == {
        0: ErrorCode.NONE,
        1: ErrorCode.NONE,
        2: ErrorCode.CORRUPT_MESSAGE,
        7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_answer_is_empty_when_the_request_has_no_topics(wire: Wire) -> None:
    assert wire(ProduceRequest(acks=1, timeout_ms=1000, topic_data=[])).responses == []


def test_internal_topic_is_refused_when_a_client_writes_to_it(wire: Wire) -> None:
    answer = produce(wire, Topic("__consumer_offsets", bytes(16)), build_batch(), version=9)
    assert error_of(answer) in {ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class TestSize:
    def test_batch_is_too_large_when_above_max_message_bytes(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"max.message.bytes": "300"})
        assert error_of(produce(wire, topic, build_batch([b"x" * 300]))) == ErrorCode.MESSAGE_TOO_LARGE
        assert produce_ok(wire, topic, build_batch([b"x" * 100])) == 0

    def test_batch_is_accepted_when_exactly_max_message_bytes(self, wire: Wire) -> None:
        batch = build_batch([b"x" * 100])
        topic = create_topic(wire, configs={"max.message.bytes": str(len(batch))})
        assert produce_ok(wire, topic, batch) == 0
        assert error_of(produce(wire, topic, build_batch([b"x" * 101]))) == ErrorCode.MESSAGE_TOO_LARGE

    def test_batch_is_too_large_when_above_the_default_of_a_megabyte(self, wire: Wire, topic: Topic) -> None:
        assert error_of(produce(wire, topic, build_batch([b"x" * 1_048_588]))) == ErrorCode.MESSAGE_TOO_LARGE


class TestMalformedBatches:
    @pytest.mark.parametrize(
        ("batch", "error"),
        [
            pytest.param(build_batch(crc_error=1), ErrorCode.CORRUPT_MESSAGE, id="checksum"),
            pytest.param(build_batch(magic=1), ErrorCode.INVALID_RECORD, id="magic 1"),
            pytest.param(build_batch(magic=3), ErrorCode.CORRUPT_MESSAGE, id="magic 3"),
            pytest.param(build_batch(magic=-1), ErrorCode.CORRUPT_MESSAGE, id="magic -1"),
            pytest.param(build_batch() + build_batch(), ErrorCode.INVALID_RECORD, id="two batches"),
            pytest.param(b"", ErrorCode.INVALID_RECORD, id="no batch"),
            pytest.param(build_batch()[:-1], ErrorCode.INVALID_RECORD, id="one byte short"),
            pytest.param(build_batch()[:40], ErrorCode.INVALID_RECORD, id="half a header"),
            pytest.param(build_batch()[:12], ErrorCode.INVALID_RECORD, id="only a length"),
            pytest.param(build_batch()[:5], ErrorCode.INVALID_RECORD, id="five bytes"),
            pytest.param(build_batch(attributes=CONTROL), ErrorCode.INVALID_RECORD, id="control batch"),
            pytest.param(
                build_batch([], record_count=0, last_offset_delta=0), ErrorCode.INVALID_RECORD, id="no records"
            ),
            pytest.param(build_batch(record_count=2), ErrorCode.INVALID_RECORD, id="record count too high"),
            pytest.param(
                build_batch([b"a", b"b"], record_count=1), ErrorCode.INVALID_RECORD, id="record count too low"
            ),
            pytest.param(
                build_batch(record_count=2**31 - 1, last_offset_delta=2**31 - 2),
                ErrorCode.INVALID_RECORD,
                id="more records than bytes",
            ),
            pytest.param(build_batch(record_count=-1), ErrorCode.INVALID_RECORD, id="negative record count"),
            pytest.param(build_batch(last_offset_delta=4), ErrorCode.INVALID_RECORD, id="last offset delta too high"),
            pytest.param(build_batch(last_offset_delta=-1), ErrorCode.INVALID_RECORD, id="negative last offset delta"),
            pytest.param(build_batch(base_offset=77), ErrorCode.INVALID_RECORD, id="base offset"),
            pytest.param(
                build_batch(producer_id=5, producer_epoch=0), ErrorCode.INVALID_RECORD, id="producer without sequence"
            ),
        ],
    )
    def test_batch_is_refused_when_malformed(self, wire: Wire, topic: Topic, batch: bytes, error: ErrorCode) -> None:
        answer = produce(wire, topic, batch)
        assert error_of(answer) == error
        assert answer.base_offset == -1
        assert produce_ok(wire, topic, build_batch()) == 0

    def test_batch_of_unknown_compression_is_refused_when_sent(self, wire: Wire, topic: Topic) -> None:
        """Kafka answers UNKNOWN_SERVER_ERROR here; any refusal will do."""
        assert produce(wire, topic, build_batch(attributes=5)).error_code != 0
        assert produce_ok(wire, topic, build_batch()) == 0

    @pytest.mark.parametrize("rest", [b"\0", build_batch()[:50]], ids=["one byte", "half a batch"])
    def test_rest_is_ignored_when_a_whole_batch_comes_first(self, wire: Wire, topic: Topic, rest: bytes) -> None:
        produce_ok(wire, topic, build_batch() + rest)
        produce_ok(wire, topic, build_batch())
        assert [batch.base_offset for batch in view_batches(fetch(wire, topic).records)] == [0, 1]

    def test_batch_is_accepted_when_it_has_a_sequence_but_no_producer(self, wire: Wire, topic: Topic) -> None:
        assert produce_ok(wire, topic, build_batch(sequence=5)) == 0

    def test_zstd_is_unsupported_when_the_request_is_older_than_it(self, wire: Wire, topic: Topic) -> None:
        answer = produce(wire, topic, build_batch(attributes=ZSTD), version=6)
        assert error_of(answer) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    def test_offset_and_epoch_are_the_brokers_when_appended(self, wire: Wire, topic: Topic) -> None:
        produce_ok(wire, topic, build_batch())
        produce_ok(wire, topic, build_batch(leader_epoch=5))
        batches = view_batches(fetch(wire, topic).records)
        assert [(batch.base_offset, batch.leader_epoch) for batch in batches] == [(0, 0), (1, 0)]


class TestTimestamps:
    def test_timestamp_is_refused_when_more_than_an_hour_ahead(self, wire: Wire, topic: Topic) -> None:
        answer = produce(wire, topic, build_batch(timestamp=now_ms() + DAY_MS))
        assert error_of(answer) == ErrorCode.INVALID_TIMESTAMP
        assert [one.batch_index for one in answer.record_errors] == [0]

    def test_timestamp_is_accepted_when_old_and_no_limit_is_set(self, wire: Wire, topic: Topic) -> None:
        assert produce_ok(wire, topic, build_batch(timestamp=1)) == 0

    def test_timestamp_is_refused_when_older_than_the_topic_allows(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"message.timestamp.before.max.ms": "1000"})
        rows = [
            Record(b"new"),
            Record(b"old", timestamp=now_ms() - DAY_MS),
            Record(b"older", timestamp=now_ms() - DAY_MS),
        ]
        answer = produce(wire, topic, build_batch(rows))
        assert error_of(answer) == ErrorCode.INVALID_TIMESTAMP
        assert [one.batch_index for one in answer.record_errors] == [1, 2]
        assert answer.error_message
        assert produce_ok(wire, topic, build_batch()) == 0

    @pytest.mark.parametrize("timestamp", [-1, -5])
    def test_timestamp_is_accepted_when_negative(self, wire: Wire, topic: Topic, timestamp: int) -> None:
        assert produce_ok(wire, topic, build_batch(timestamp=timestamp)) == 0

    def test_broker_stamps_the_batch_when_the_topic_says_log_append_time(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"message.timestamp.type": "LogAppendTime"})
        before = now_ms()
        answer = produce(wire, topic, build_batch([b"a", b"b"], timestamp=1))
        assert answer.error_code == 0
        assert before - 1000 <= answer.log_append_time_ms <= now_ms() + 1000
        (batch,) = view_batches(fetch(wire, topic).records)
        assert batch.attributes & LOG_APPEND_TIME
        assert batch.max_timestamp == answer.log_append_time_ms

    def test_stamp_of_the_client_is_dropped_when_the_topic_says_create_time(self, wire: Wire, topic: Topic) -> None:
        answer = produce(wire, topic, build_batch(attributes=LOG_APPEND_TIME, timestamp=1))
        assert (answer.error_code, answer.log_append_time_ms) == (0, -1)
        (batch,) = view_batches(fetch(wire, topic).records)
        assert (batch.attributes, batch.max_timestamp) == (0, 1)

    def test_any_timestamp_is_accepted_when_the_broker_stamps(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"message.timestamp.type": "LogAppendTime"})
        assert produce_ok(wire, topic, build_batch(timestamp=now_ms() + DAY_MS)) == 0


class TestTopicRules:
    def test_records_without_key_are_named_when_the_topic_is_compacted(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"cleanup.policy": "compact"})
        answer = produce(wire, topic, build_batch([Record(key=b"k"), Record(), Record(key=b"k"), Record()]))
        assert error_of(answer) == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in answer.record_errors] == [1, 3]
        assert produce_ok(wire, topic, build_batch([Record(key=b"k", value=None)])) == 0

    def test_records_without_key_are_refused_when_the_version_has_no_record_errors(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"cleanup.policy": "compact,delete"})
        assert error_of(produce(wire, topic, build_batch(), version=7)) == ErrorCode.INVALID_RECORD

    def test_batch_is_compressed_when_the_topic_asks_for_it(self, wire: Wire) -> None:
        topic = create_topic(wire, configs={"compression.type": "gzip"})
        produce_ok(wire, topic, build_batch([b"a" * 1000, b"b" * 1000]))
        (batch,) = view_batches(fetch(wire, topic).records)
        assert batch.attributes & 7 == GZIP
        assert (batch.record_count, batch.last_offset_delta) == (2, 1)
        assert batch.size < 1000


def test_connection_serves_on_when_batches_were_refused(connect: Callable[[], Wire]) -> None:
    wire = connect()
    topic = create_topic(wire)
    for _ in range(3):
        assert produce(wire, topic, build_batch(crc_error=1)).error_code
    assert produce_ok(wire, topic, build_batch()) == 0


def test_transactional_batch_is_refused_when_the_request_names_no_transaction(wire: Wire, topic: Topic) -> None:
    batch = build_batch(attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0, sequence=0)
    assert error_of(produce(wire, topic, batch)) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
