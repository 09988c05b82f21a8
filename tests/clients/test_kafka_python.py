"""kafka-python: records in and out."""

from __future__ import annotations

import time

import pytest
from kafka import TopicPartition
from kafka import codec as installed
from kafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
)

from tests.clients.conftest import RunningBroker
from tests.clients.kafka_python import consumer_of, create_topic, produce, producer_of, read, read_topic, values
from tests.clients.support import CODEC_NUMBERS, CODECS, PATIENCE_S, new_name, stored_batches

# kafka-python compresses with packages of its own choice, which it does not bring with it.
_IS_INSTALLED = {
    "none": lambda: True,
    "gzip": installed.has_gzip,
    "snappy": installed.has_snappy,
    "lz4": installed.has_lz4,
    "zstd": installed.has_zstd,
}
CREATE_TIME, LOG_APPEND_TIME = 0, 1


@pytest.fixture
def servers(broker: RunningBroker) -> str:
    return broker.bootstrap_servers


class TestRecords:
    def test_key_value_headers_and_timestamp_come_back_when_consumed(self, servers: str) -> None:
        topic = create_topic(servers)
        headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b"")]
        produce(servers, topic, [b"value"], key=b"key", headers=headers, timestamp_ms=1_600_000_000_123)
        (record,) = read_topic(servers, topic, 1)
        assert (record.key, record.value, record.offset) == (b"key", b"value", 0)
        assert list(record.headers) == headers
        assert (record.timestamp_type, record.timestamp) == (CREATE_TIME, 1_600_000_000_123)

    def test_null_and_empty_stay_apart_when_consumed(self, servers: str) -> None:
        topic = create_topic(servers)
        produce(servers, topic, [None, b""], key=b"key")
        assert values(read_topic(servers, topic, 2)) == [None, b""]

    def test_records_stay_in_their_partition_when_one_is_named(self, servers: str) -> None:
        topic = create_topic(servers, partitions=3)
        for partition in range(3):
            reports = produce(servers, topic, [b"%d" % partition] * (partition + 1), partition=partition)
            assert [report.offset for report in reports] == list(range(partition + 1))
        assert values(read_topic(servers, topic, 3, partition=2)) == [b"2"] * 3

    @pytest.mark.parametrize("codec", CODECS)
    def test_batches_are_stored_as_sent_when_compressed(self, servers: str, codec: str) -> None:
        if not _IS_INSTALLED[codec]():
            pytest.skip(f"kafka-python finds no package for {codec}")
        topic = create_topic(servers)
        sent = [b"value %d " % number * 20 for number in range(200)]
        produce(servers, topic, sent, compression_type=None if codec == "none" else codec, linger_ms=20)
        assert values(read_topic(servers, topic, 200)) == sent
        assert {batch.compression for batch in stored_batches(servers, topic)} == {CODEC_NUMBERS[codec]}

    @pytest.mark.parametrize("acks", [0, 1, "all"])
    def test_records_arrive_in_order_when_acknowledged_by(self, servers: str, acks: int | str) -> None:
        topic = create_topic(servers)
        sent = [b"%d" % number for number in range(500)]
        produce(servers, topic, sent, acks=acks, enable_idempotence=False)
        assert values(read_topic(servers, topic, 500)) == sent

    def test_records_arrive_once_and_numbered_when_producer_is_idempotent(self, servers: str) -> None:
        topic = create_topic(servers)
        sent = [b"%d" % number * 50 for number in range(1_000)]
        produce(servers, topic, sent, enable_idempotence=True, batch_size=4_096)
        assert values(read_topic(servers, topic, 1_000)) == sent
        batches = stored_batches(servers, topic)
        assert len(batches) > 1
        assert {batch.producer_id >= 0 for batch in batches} == {True}
        assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]


class TestSizes:
    def test_message_passes_when_as_large_as_the_topic_allows(self, servers: str) -> None:
        topic = create_topic(servers)
        value = b"x" * (1_048_588 - 61 - 21)
        produce(servers, topic, [value], max_request_size=10_000_000)
        assert read_topic(servers, topic, 1, max_partition_fetch_bytes=1_000)[0].value == value

    def test_message_is_refused_when_larger_than_the_topic_allows(self, servers: str) -> None:
        topic = create_topic(servers)
        # Idempotent, this client takes a refusal for the end of the producer and would not send the next record.
        with producer_of(servers, max_request_size=10_000_000, enable_idempotence=False) as producer:
            with pytest.raises(MessageSizeTooLargeError):
                producer.send(topic, b"x" * 1_048_588).get(timeout=PATIENCE_S)
            assert producer.send(topic, b"next").get(timeout=PATIENCE_S).offset == 0


class TestReading:
    @pytest.fixture
    def topic(self, servers: str) -> str:
        """Ten records, one second of event time apart."""
        topic = create_topic(servers)
        with producer_of(servers) as producer:
            for number in range(10):
                producer.send(topic, b"%d" % number, timestamp_ms=1_700_000_000_000 + number * 1_000)
        return topic

    def test_reading_goes_on_from_an_offset_when_sought(self, servers: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers) as consumer:
            consumer.assign([where])
            consumer.seek(where, 7)
            assert values(read(consumer, 3)) == [b"7", b"8", b"9"]
            consumer.seek(where, 2)
            assert values(read(consumer, 2)) == [b"2", b"3"]
            assert consumer.position(where) == 4

    def test_reading_begins_where_told_when_sent_to_beginning_or_end(self, servers: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers) as consumer:
            consumer.assign([where])
            consumer.seek_to_end(where)
            assert consumer.position(where) == 10
            produce(servers, topic, [b"new"])
            assert read(consumer, 1)[0].value == b"new"
            consumer.seek_to_beginning(where)
            assert read(consumer, 1)[0].value == b"0"

    def test_offset_for_a_time_is_the_first_not_older(self, servers: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers) as consumer:
            found = consumer.offsets_for_times({where: 1_700_000_003_500})[where]
            assert (found.offset, found.timestamp) == (4, 1_700_000_004_000)
            assert consumer.offsets_for_times({where: 0})[where].offset == 0
            assert consumer.offsets_for_times({where: 1_800_000_000_000})[where] is None

    def test_first_and_last_offset_are_told_when_asked(self, servers: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers) as consumer:
            assert consumer.beginning_offsets([where]) == {where: 0}
            assert consumer.end_offsets([where]) == {where: 10}
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            read(consumer, 10)
            assert consumer.highwater(where) == 10

    def test_nothing_arrives_while_paused_and_all_of_it_when_resumed(self, servers: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers) as consumer:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            consumer.pause(where)
            assert not consumer.poll(timeout_ms=200)
            consumer.resume(where)
            assert len(read(consumer, 10)) == 10

    def test_consumer_learns_that_an_offset_is_gone_when_it_has_no_reset_policy(self, servers: str, topic: str) -> None:
        where = TopicPartition(topic, 0)
        with consumer_of(servers, auto_offset_reset="none") as consumer:
            consumer.assign([where])
            consumer.seek(where, 5_000)
            with pytest.raises(OffsetOutOfRangeError):
                read(consumer, 1)

    def test_incremental_fetch_session_finds_the_one_busy_partition_when_many_are_idle(self, servers: str) -> None:
        """kafka-python keeps a fetch session (KIP-227): after the first round only what changed is named."""
        topic = create_topic(servers, partitions=20)
        partitions = [TopicPartition(topic, number) for number in range(20)]
        with consumer_of(servers) as consumer, producer_of(servers) as producer:
            consumer.assign(partitions)
            for round_number in range(5):
                wanted = (round_number * 7) % 20
                producer.send(topic, b"%d" % round_number, partition=wanted).get(timeout=PATIENCE_S)
                (record,) = read(consumer, 1)
                assert (record.partition, record.value) == (wanted, b"%d" % round_number)


class TestTopics:
    def test_topic_comes_to_be_when_first_written_to(self, servers: str) -> None:
        topic = new_name("automatic")
        (report,) = produce(servers, topic, [b"first"])
        assert values(read_topic(servers, topic, 1, report.partition)) == [b"first"]

    def test_producer_learns_that_a_partition_is_unknown_when_it_names_one(self, servers: str) -> None:
        topic = create_topic(servers)
        with pytest.raises((ValueError, KafkaError)):
            produce(servers, topic, [b"x"], partition=17)

    def test_batches_are_recompressed_when_the_topic_has_a_codec_of_its_own(self, servers: str) -> None:
        topic = create_topic(servers, config={"compression.type": "gzip"})
        sent = [b"value %d " % number * 20 for number in range(100)]
        produce(servers, topic, sent, linger_ms=20)
        assert values(read_topic(servers, topic, 100)) == sent
        assert {batch.compression for batch in stored_batches(servers, topic)} == {CODEC_NUMBERS["gzip"]}

    def test_records_carry_the_brokers_time_when_the_topic_asks_for_it(self, servers: str) -> None:
        topic = create_topic(servers, config={"message.timestamp.type": "LogAppendTime"})
        before = int(time.time() * 1000) - 1_000
        (report,) = produce(servers, topic, [b"x"], timestamp_ms=1_234)
        (record,) = read_topic(servers, topic, 1)
        assert record.timestamp_type == LOG_APPEND_TIME
        assert record.timestamp >= before
        assert report.timestamp == record.timestamp
