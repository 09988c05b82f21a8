"""Fetch and ListOffsets with isolation level read_committed: what readers are given, told and woken for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.clients.raw.transactional import RawProducer
from tests.clients.raw.wire import (
    Topic,
    Wire,
    build_batch,
    create_topic,
    eventually,
    fetch,
    fetch_request,
    now_ms,
    produce_ok,
    view_batches,
)

READ_COMMITTED = 1
LATEST = -1
# Longer than any test may take: a poll that ends by its own timeout fails the test.
FOREVER_MS = 60_000


def new_producer(wire: Wire) -> RawProducer:
    return RawProducer(wire, is_new=True).init()


def end(wire: Wire, topic: Topic, producer: RawProducer, is_commit: bool) -> None:
    """Kafka answers before the marker is written."""
    before = fetch(wire, topic).high_watermark
    producer.end(is_commit=is_commit)
    eventually(lambda: fetch(wire, topic).high_watermark, before + 1)


def committed(wire: Wire, topic: Topic, offset: int = 0, **bent: Any) -> Any:
    return fetch(wire, topic, offset, isolation_level=READ_COMMITTED, **bent)


def offsets(answer: Any) -> list[int]:
    return [batch.base_offset for batch in view_batches(answer.records)]


def aborted(answer: Any) -> list[tuple[int, int]]:
    return [(each.producer_id, each.first_offset) for each in answer.aborted_transactions]


def list_offset(wire: Wire, topic: Topic, timestamp: int, isolation_level: int) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name=topic.name, partitions=[wanted])]
    )
    return int(wire(request, 7).topics[0].partitions[0].offset)


def test_the_list_is_empty_or_null_when_nothing_was_aborted(wire: Wire, topic: Topic) -> None:
    produce_ok(wire, topic, build_batch([b"plain"]))
    assert committed(wire, topic).aborted_transactions == []
    assert committed(wire, topic, 1).aborted_transactions == []
    assert fetch(wire, topic).aborted_transactions is None


def test_the_list_is_null_when_uncommitted_records_are_read(wire: Wire, topic: Topic) -> None:
    producer = new_producer(wire)
    producer.produce(topic)
    end(wire, topic, producer, is_commit=False)
    assert fetch(wire, topic).aborted_transactions is None
    assert len(committed(wire, topic).aborted_transactions) == 1


def test_nothing_is_given_past_the_oldest_open_transaction_when_later_ones_are_over(wire: Wire, topic: Topic) -> None:
    first, second = new_producer(wire), new_producer(wire)
    produce_ok(wire, topic, build_batch([b"plain"]))
    first.produce(topic)
    second.produce(topic)
    end(wire, topic, second, is_commit=True)
    answer = committed(wire, topic)
    assert offsets(answer) == [0]
    assert (answer.last_stable_offset, answer.high_watermark) == (1, 4)
    assert offsets(fetch(wire, topic)) == [0, 1, 2, 3]
    assert offsets(committed(wire, topic, 1)) == []
    end(wire, topic, first, is_commit=True)
    assert offsets(committed(wire, topic)) == [0, 1, 2, 3, 4]


def test_all_aborted_transactions_are_named_when_they_end_in_another_order(wire: Wire, topic: Topic) -> None:
    """Kafka names them in the order of their markers, we by first offset; clients take either."""
    producers = [new_producer(wire) for _ in range(3)]
    for producer in producers:
        producer.produce(topic)
    for producer in reversed(producers):
        end(wire, topic, producer, is_commit=False)
    expected = [(producer.producer_id, index) for index, producer in enumerate(producers)]
    assert sorted(aborted(committed(wire, topic)), key=lambda pair: pair[1]) == expected
    assert aborted(committed(wire, topic, 6)) == []


def test_every_aborted_batch_is_named_when_the_log_is_read_piece_by_piece(wire: Wire) -> None:
    count = 30
    topic = create_topic(wire, configs={"segment.bytes": str(1024 * 1024)})
    producer = new_producer(wire)
    for number in range(count):
        producer.produce(topic, b"x" * 100_000)
        end(wire, topic, producer, is_commit=number % 2 == 0)
    offset, named = 0, []
    while found := view_batches((answer := committed(wire, topic, offset, partition_max_bytes=150_000)).records):
        named += [first for _, first in aborted(answer) if offset <= first <= found[-1].base_offset]
        offset = found[-1].base_offset + found[-1].last_offset_delta + 1
    assert offset == 2 * count
    assert named == [2 * number for number in range(1, count, 2)]


def test_a_reader_of_committed_records_is_woken_when_the_marker_comes(
    connect: Callable[[], Wire], topic: Topic
) -> None:
    """The marker is smaller than what the reader asks for; the records before it are not."""
    reader, writer = connect(), connect()
    producer = new_producer(writer)
    request = fetch_request(topic, 0, isolation_level=READ_COMMITTED, max_wait_ms=FOREVER_MS, min_bytes=1000)
    waiting = reader.connection.send(request, 16)
    for _ in range(3):
        producer.produce(topic, b"x" * 2000)
    end(writer, topic, producer, is_commit=True)
    answer = reader.connection.receive(waiting).responses[0].partitions[0]
    assert offsets(answer) == [0, 1, 2, 3]


def test_offsets_end_at_the_open_transaction_when_committed_ones_are_listed(wire: Wire, topic: Topic) -> None:
    before = now_ms()
    produce_ok(wire, topic, build_batch([b"plain"], timestamp=before))
    producer = new_producer(wire)
    producer.produce(topic, timestamp=before + 1)
    assert [list_offset(wire, topic, LATEST, level) for level in (0, 1)] == [2, 1]
    assert [list_offset(wire, topic, before + 1, level) for level in (0, 1)] == [1, -1]
    end(wire, topic, producer, is_commit=False)
    assert [list_offset(wire, topic, LATEST, level) for level in (0, 1)] == [3, 3]
