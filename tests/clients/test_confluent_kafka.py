"""confluent-kafka (librdkafka): records in and out."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from tests.clients.confluent import (
    consumer_of,
    create_topic,
    produce,
    producer_of,
    read,
    read_topic,
    values,
)
from tests.clients.conftest import RunningBroker
from tests.clients.support import CODEC_NUMBERS, CODECS, PATIENCE_S, eventually, new_name, stored_batches

LARGEST_MESSAGE = 1_048_588  # max.message.bytes by default
_BATCH_OVERHEAD = 61 + 21  # header of a batch, and the most that one record adds to its key and value


@pytest.fixture
def servers(broker: RunningBroker) -> str:
    return broker.bootstrap_servers


def refusal(caught: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = caught.value.args[0].code()
    return code


class TestRecords:
    def test_key_value_headers_and_timestamp_come_back_when_consumed(self, servers: str) -> None:
        topic = create_topic(servers)
        headers = [("trace", b"\x00\xff"), ("trace", b"again"), ("empty", b""), ("none", None)]
        produce(producer_of(servers), topic, [b"value"], key=b"key", headers=headers, timestamp=1_600_000_000_123)
        (message,) = read_topic(servers, topic, 1)
        assert (message.key(), message.value(), message.offset()) == (b"key", b"value", 0)
        assert message.headers() == headers
        assert message.timestamp() == (TIMESTAMP_CREATE_TIME, 1_600_000_000_123)

    def test_null_and_empty_stay_apart_when_consumed(self, servers: str) -> None:
        topic = create_topic(servers)
        producer = producer_of(servers)
        produce(producer, topic, [None], key=b"tombstone")
        produce(producer, topic, [b""], key=None)
        first, second = read_topic(servers, topic, 2)
        assert (first.key(), first.value()) == (b"tombstone", None)
        assert (second.key(), second.value()) == (None, b"")

    def test_records_stay_in_their_partition_when_one_is_named(self, servers: str) -> None:
        topic = create_topic(servers, partitions=3)
        producer = producer_of(servers)
        for partition in range(3):
            reports = produce(producer, topic, [b"%d" % partition] * (partition + 1), partition=partition)
            assert [report.offset() for report in reports] == list(range(partition + 1))
        for partition in range(3):
            messages = read_topic(servers, topic, partition + 1, partition)
            assert values(messages) == [b"%d" % partition] * (partition + 1)

    def test_one_key_stays_in_one_partition_when_none_is_named(self, servers: str) -> None:
        topic = create_topic(servers, partitions=4)
        producer = producer_of(servers)
        chosen: dict[bytes, set[int | None]] = {}
        for round_number in range(3):
            for key in (b"a", b"b", b"c", b"d", b"e"):
                (report,) = produce(producer, topic, [b"%d" % round_number], key=key)
                chosen.setdefault(key, set()).add(report.partition())
        assert all(len(partitions) == 1 for partitions in chosen.values())
        assert len(set.union(*chosen.values())) > 1

    @pytest.mark.parametrize("codec", CODECS)
    def test_batches_are_stored_as_sent_when_compressed(self, servers: str, codec: str) -> None:
        topic = create_topic(servers)
        sent = [b"value %d " % number * 20 for number in range(200)]
        produce(producer_of(servers, compression_type=codec, linger_ms=20), topic, sent)
        assert values(read_topic(servers, topic, 200)) == sent
        assert {batch.compression for batch in stored_batches(servers, topic)} == {CODEC_NUMBERS[codec]}

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_records_arrive_in_order_when_acknowledged_by(self, servers: str, acks: str) -> None:
        topic = create_topic(servers)
        sent = [b"%d" % number for number in range(500)]
        produce(producer_of(servers, acks=acks), topic, sent)
        assert values(read_topic(servers, topic, 500)) == sent

    def test_records_arrive_once_and_numbered_when_producer_is_idempotent(self, servers: str) -> None:
        topic = create_topic(servers)
        sent = [b"%d" % number for number in range(1_000)]
        producer = producer_of(servers, enable_idempotence=True, batch_num_messages=50)
        produce(producer, topic, sent)
        assert values(read_topic(servers, topic, 1_000)) == sent
        batches = stored_batches(servers, topic)
        assert len({(batch.producer_id, batch.producer_epoch) for batch in batches}) == 1
        assert batches[0].producer_id >= 0
        sequences = [batch.base_sequence for batch in batches]
        assert sequences == [batch.base_offset for batch in batches]

    def test_two_idempotent_producers_have_ids_of_their_own_when_writing_to_one_partition(self, servers: str) -> None:
        topic = create_topic(servers)
        for _ in range(2):
            produce(producer_of(servers, enable_idempotence=True), topic, [b"x"])
        assert len({batch.producer_id for batch in stored_batches(servers, topic)}) == 2


class TestSizes:
    def test_message_passes_when_as_large_as_the_topic_allows(self, servers: str) -> None:
        topic = create_topic(servers)
        value = b"x" * (LARGEST_MESSAGE - _BATCH_OVERHEAD)
        producer = producer_of(servers, message_max_bytes=10_000_000)
        (report,) = produce(producer, topic, [value])
        assert report.offset() == 0
        (message,) = read_topic(servers, topic, 1, fetch_max_bytes=2_000_000, max_partition_fetch_bytes=1_000)
        assert message.value() == value

    def test_message_is_refused_when_larger_than_the_topic_allows(self, servers: str) -> None:
        topic = create_topic(servers)
        producer = producer_of(servers, message_max_bytes=10_000_000)
        with pytest.raises(KafkaException) as caught:
            produce(producer, topic, [b"x" * LARGEST_MESSAGE])
        assert refusal(caught) == KafkaError.MSG_SIZE_TOO_LARGE
        assert produce(producer, topic, [b"next"])[0].offset() == 0

    def test_larger_message_passes_when_the_topic_says_so(self, servers: str) -> None:
        topic = create_topic(servers, config={"max.message.bytes": "6000000"})
        value = b"y" * 5_000_000
        produce(producer_of(servers, message_max_bytes=10_000_000), topic, [value])
        assert read_topic(servers, topic, 1)[0].value() == value


class TestReading:
    @pytest.fixture
    def topic(self, servers: str) -> str:
        """Ten records, one second of event time apart."""
        topic = create_topic(servers)
        producer = producer_of(servers)
        for number in range(10):
            produce(producer, topic, [b"%d" % number], timestamp=1_700_000_000_000 + number * 1_000)
        return topic

    def test_reading_goes_on_from_an_offset_when_sought(self, servers: str, topic: str) -> None:
        with consumer_of(servers) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert read(consumer, 1)[0].value() == b"0"
            consumer.seek(TopicPartition(topic, 0, 7))
            assert values(read(consumer, 3)) == [b"7", b"8", b"9"]
            consumer.seek(TopicPartition(topic, 0, 2))
            assert values(read(consumer, 2)) == [b"2", b"3"]
            assert consumer.position([TopicPartition(topic, 0)])[0].offset == 4

    def test_reading_begins_at_a_time_when_sought_by_time(self, servers: str, topic: str) -> None:
        with consumer_of(servers) as consumer:
            wanted = [TopicPartition(topic, 0, 1_700_000_003_500)]
            (found,) = consumer.offsets_for_times(wanted, timeout=PATIENCE_S)
            assert found.offset == 4
            consumer.assign([found])
            assert read(consumer, 1)[0].value() == b"4"

    @pytest.mark.parametrize(("timestamp", "offset"), [(0, 0), (1_700_000_000_000, 0), (1_700_000_009_000, 9)])
    def test_offset_for_a_time_is_the_first_not_older(
        self, servers: str, topic: str, timestamp: int, offset: int
    ) -> None:
        with consumer_of(servers) as consumer:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=PATIENCE_S)
            assert found.offset == offset

    def test_offset_for_a_time_is_the_end_when_nothing_is_that_new(self, servers: str, topic: str) -> None:
        with consumer_of(servers) as consumer:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, 1_800_000_000_000)], timeout=PATIENCE_S)
            assert found.offset == OFFSET_END

    def test_reading_begins_where_told_when_assigned_to_beginning_or_end(self, servers: str, topic: str) -> None:
        with consumer_of(servers) as consumer:
            consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
            assert read(consumer, 1)[0].offset() == 0
            consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
            # The end is looked up by the consumer's own thread: what comes before it has looked is not its.
            eventually(lambda: consumer.poll(0.2) is None, "the consumer is at the end")
            produce(producer_of(servers), topic, [b"new"])
            assert read(consumer, 1)[0].value() == b"new"

    def test_watermarks_follow_the_log_when_records_are_added(self, servers: str, topic: str) -> None:
        with consumer_of(servers) as consumer:
            where = TopicPartition(topic, 0)
            assert consumer.get_watermark_offsets(where, timeout=PATIENCE_S) == (0, 10)
            produce(producer_of(servers), topic, [b"more"])
            assert consumer.get_watermark_offsets(where, timeout=PATIENCE_S) == (0, 11)

    def test_nothing_arrives_while_paused_and_all_of_it_when_resumed(self, servers: str) -> None:
        topic = create_topic(servers, partitions=2)
        producer = producer_of(servers)
        for partition in range(2):
            produce(producer, topic, [b"%d" % partition] * 5, partition=partition)
        with consumer_of(servers) as consumer:
            both = [TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)]
            consumer.assign(both)
            consumer.pause([both[0]])
            assert {message.partition() for message in read(consumer, 5)} == {1}
            assert consumer.poll(0.2) is None
            consumer.resume([both[0]])
            assert {message.partition() for message in read(consumer, 5)} == {0}

    def test_consumer_starts_over_by_its_reset_policy_when_the_offset_is_gone(self, servers: str, topic: str) -> None:
        with consumer_of(servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0, 5_000)])
            assert read(consumer, 1)[0].offset() == 0
        with consumer_of(servers, auto_offset_reset="error") as consumer:
            consumer.assign([TopicPartition(topic, 0, 5_000)])
            with pytest.raises(KafkaException) as caught:
                read(consumer, 1)
            assert refusal(caught) == KafkaError._AUTO_OFFSET_RESET

    def test_record_arrives_at_once_when_the_consumer_is_already_waiting(self, servers: str) -> None:
        topic = create_topic(servers)
        producer = producer_of(servers)
        with consumer_of(servers, fetch_wait_max_ms=10_000) as consumer:
            consumer.assign([TopicPartition(topic, 0, 0)])
            assert consumer.poll(0.3) is None
            started = time.monotonic()
            produce(producer, topic, [b"now"])
            assert read(consumer, 1)[0].value() == b"now"
            assert time.monotonic() - started < 5.0


class TestTopics:
    def test_topic_comes_to_be_when_first_written_to(self, servers: str) -> None:
        topic = new_name("automatic")
        (report,) = produce(producer_of(servers), topic, [b"first"])
        assert report.offset() == 0
        assert values(read_topic(servers, topic, 1, report.partition() or 0)) == [b"first"]

    def test_topic_comes_to_be_when_subscribed_to_and_allowed(self, servers: str) -> None:
        topic = new_name("automatic")
        with consumer_of(servers, allow_auto_create_topics=True) as consumer:
            consumer.subscribe([topic])
            eventually(lambda: consumer.poll(0.1) or consumer.assignment(), "an assignment of the new topic")

    def test_consumer_learns_that_a_topic_is_unknown_when_it_may_not_create_it(self, servers: str) -> None:
        with consumer_of(servers) as consumer:
            consumer.subscribe([new_name("missing")])
            with pytest.raises(KafkaException) as caught:
                read(consumer, 1)
            assert refusal(caught) == KafkaError.UNKNOWN_TOPIC_OR_PART

    def test_producer_learns_that_a_partition_is_unknown_when_it_names_one(self, servers: str) -> None:
        topic = create_topic(servers, partitions=2)
        producer = producer_of(servers)
        with pytest.raises(KafkaException) as caught:
            produce(producer, topic, [b"x"], partition=17)
        assert refusal(caught) == KafkaError._UNKNOWN_PARTITION

    @pytest.mark.parametrize("name", ["with space", "x" * 250, ".", ".."])
    def test_name_is_refused_when_it_is_not_allowed(self, servers: str, name: str) -> None:
        with pytest.raises(KafkaException) as caught:
            create_topic(servers, name=name)
        assert refusal(caught) == KafkaError.TOPIC_EXCEPTION

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
    def test_batches_are_recompressed_when_the_topic_has_a_codec_of_its_own(self, servers: str, codec: str) -> None:
        topic = create_topic(servers, config={"compression.type": codec})
        sent = [b"value %d " % number * 20 for number in range(100)]
        client_codec = "none" if codec == "gzip" else "gzip"
        produce(producer_of(servers, compression_type=client_codec, linger_ms=20), topic, sent)
        assert values(read_topic(servers, topic, 100)) == sent
        expected = CODEC_NUMBERS["none" if codec == "uncompressed" else codec]
        assert {batch.compression for batch in stored_batches(servers, topic)} == {expected}

    @pytest.mark.parametrize("codec", ["none", "zstd"])
    def test_records_carry_the_brokers_time_when_the_topic_asks_for_it(self, servers: str, codec: str) -> None:
        topic = create_topic(servers, config={"message.timestamp.type": "LogAppendTime"})
        before = int(time.time() * 1000) - 1_000
        (report,) = produce(producer_of(servers, compression_type=codec), topic, [b"x" * 500], timestamp=1_234)
        kind, told = report.timestamp()
        (message,) = read_topic(servers, topic, 1)
        assert message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
        assert before <= message.timestamp()[1] <= int(time.time() * 1000) + 1_000
        assert (kind, told) == message.timestamp()

    def test_record_is_refused_when_its_time_is_too_far_ahead(self, servers: str) -> None:
        topic = create_topic(servers, config={"message.timestamp.after.max.ms": "60000"})
        with pytest.raises(KafkaException) as caught:
            produce(producer_of(servers), topic, [b"x"], timestamp=int(time.time() * 1000) + 3_600_000)
        assert refusal(caught) == KafkaError.INVALID_TIMESTAMP
