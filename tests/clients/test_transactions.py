"""Transactions as three client libraries use them: what is read, what is not, and who is kept out."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import ProducerFenced
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonTopicPartition
from kafka.errors import ProducerFencedError
from kafka.structs import OffsetAndMetadata

from tests.clients.confluent import consumer_of, create_topic, producer_of
from tests.clients.conftest import RunningBroker
from tests.clients.support import PATIENCE_S, eventually, new_name

END = b"end of the test"


@pytest.fixture
def servers(broker: RunningBroker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    return create_topic(servers)


def transactional(servers: str, name: str | None = None, **config: Any) -> Producer:
    producer = producer_of(servers, transactional_id=name or new_name("txn"), **config)
    producer.init_transactions(PATIENCE_S)
    return producer


def send(producer: Producer, topic: str, *values: bytes, is_commit: bool = True) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)
    producer.flush(PATIENCE_S)
    if is_commit:
        producer.commit_transaction(PATIENCE_S)
    else:
        producer.abort_transaction(PATIENCE_S)


def read(servers: str, topic: str, isolation: str, count: int) -> list[bytes]:
    """`count` values, and then no other for a moment."""
    found: list[bytes] = []
    with consumer_of(servers, isolation_level=isolation) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count and time.monotonic() < deadline:
            found += [message.value() or b"" for message in consumer.consume(100, 0.05) if message.error() is None]
        found += [message.value() or b"" for message in consumer.consume(1, 0.2) if message.error() is None]
    return found


# ------------------------------------------------------------------------------------------- confluent-kafka


def test_committed_records_alone_are_read_when_the_reader_asks_for_them(servers: str, topic: str) -> None:
    producer = transactional(servers)
    send(producer, topic, b"a", b"b")
    send(producer, topic, b"lost", is_commit=False)
    send(producer, topic, b"c")
    assert read(servers, topic, "read_committed", 3) == [b"a", b"b", b"c"]
    assert read(servers, topic, "read_uncommitted", 4) == [b"a", b"b", b"lost", b"c"]


def test_open_transaction_holds_back_what_comes_after_it(servers: str, topic: str) -> None:
    slow, quick = transactional(servers), transactional(servers)
    slow.begin_transaction()
    slow.produce(topic, b"slow")
    slow.flush(PATIENCE_S)
    send(quick, topic, b"quick")
    assert read(servers, topic, "read_committed", 0) == []
    slow.commit_transaction(PATIENCE_S)
    assert read(servers, topic, "read_committed", 2) == [b"slow", b"quick"]


def test_transaction_spans_partitions_and_topics(servers: str) -> None:
    topics = [create_topic(servers, partitions=3) for _ in range(2)]
    producer = transactional(servers)
    producer.begin_transaction()
    for number in range(30):
        producer.produce(topics[number % 2], str(number), partition=number % 3)
    producer.commit_transaction(PATIENCE_S)
    with consumer_of(servers, isolation_level="read_committed") as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for topic in topics for partition in range(3)])
        found: list[int] = []
        while len(found) < 30:
            found += [int(message.value() or 0) for message in consumer.consume(30, 1) if message.error() is None]
    assert sorted(found) == list(range(30))


@contextlib.contextmanager
def member(servers: str, topic: str, group: str) -> Iterator[Consumer]:
    with consumer_of(servers, group_id=group, isolation_level="read_committed") as consumer:
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) is None and consumer.assignment(), "the assignment")
        yield consumer


def test_offsets_are_committed_with_the_records(servers: str, topic: str) -> None:
    group = new_name("group")
    producer = transactional(servers)
    with member(servers, topic, group) as consumer:
        for is_commit, offset in ((True, 5), (False, 9)):
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_S
            )
            if is_commit:
                producer.commit_transaction(PATIENCE_S)
            else:
                producer.abort_transaction(PATIENCE_S)
        (committed,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)
        assert committed.offset == 5


def test_zombie_is_fenced_when_its_successor_has_begun(servers: str, topic: str) -> None:
    name = new_name("txn")
    zombie = transactional(servers, name)
    zombie.begin_transaction()
    zombie.produce(topic, b"zombie")
    zombie.flush(PATIENCE_S)
    successor = transactional(servers, name)
    with pytest.raises(KafkaException) as failure:
        zombie.commit_transaction(PATIENCE_S)
    assert failure.value.args[0].fatal()
    send(successor, topic, b"successor")
    assert read(servers, topic, "read_committed", 1) == [b"successor"]


def test_transaction_is_aborted_when_its_time_is_up(servers: str, topic: str) -> None:
    producer = transactional(servers, transaction_timeout_ms=1_000)
    producer.begin_transaction()
    producer.produce(topic, b"too slow")
    producer.flush(PATIENCE_S)
    send(transactional(servers), topic, b"after")
    assert read(servers, topic, "read_committed", 1) == [b"after"]
    with pytest.raises(KafkaException):
        producer.commit_transaction(PATIENCE_S)


# ------------------------------------------------------------------------------------------- aiokafka (version 0)


def test_aiokafka_commits_aborts_and_moves_offsets(servers: str, topic: str) -> None:
    group, where = new_name("group"), AioTopicPartition(topic, 0)

    async def scenario() -> tuple[list[bytes], int | None]:
        producer = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=new_name("txn"))
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a")
                await producer.send_offsets_to_transaction({where: 3}, group)
            with contextlib.suppress(ValueError):
                async with producer.transaction():
                    await producer.send_and_wait(topic, b"lost")
                    await producer.send_offsets_to_transaction({where: 7}, group)
                    raise ValueError("changed my mind")
            async with producer.transaction():
                await producer.send_and_wait(topic, END)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, group_id=group, isolation_level="read_committed", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([where])
            committed = await consumer.committed(where)
            consumer.seek(where, 0)
            values: list[bytes] = []
            async with asyncio.timeout(PATIENCE_S):
                while END not in values:
                    values.append((await consumer.getone()).value)
            return values, committed
        finally:
            await consumer.stop()

    assert asyncio.run(scenario()) == ([b"a", END], 3)


def test_aiokafka_zombie_is_fenced_when_its_successor_has_begun(servers: str, topic: str) -> None:
    async def scenario() -> None:
        name = new_name("txn")
        zombie = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
        successor = AIOKafkaProducer(bootstrap_servers=servers, transactional_id=name)
        await zombie.start()
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"zombie")
        await successor.start()
        with pytest.raises(ProducerFenced):
            await zombie.commit_transaction()
        async with successor.transaction():
            await successor.send_and_wait(topic, b"successor")
        await successor.stop()
        with contextlib.suppress(ProducerFenced):
            await zombie.stop()

    asyncio.run(scenario())
    assert read(servers, topic, "read_committed", 1) == [b"successor"]


# ------------------------------------------------------------------------------------------- kafka-python


def test_kafka_python_commits_aborts_and_moves_offsets(servers: str, topic: str) -> None:
    group, where = new_name("group"), PythonTopicPartition(topic, 0)
    producer = KafkaProducer(bootstrap_servers=servers, transactional_id=new_name("txn"))
    try:
        producer.init_transactions()
        for value, is_commit, offset in ((b"a", True, 3), (b"lost", False, 7), (END, True, 4)):
            producer.begin_transaction()
            producer.send(topic, value).get(timeout=PATIENCE_S)
            producer.send_offsets_to_transaction({where: OffsetAndMetadata(offset, "", -1)}, group)
            if is_commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(timeout=PATIENCE_S)
    consumer = KafkaConsumer(
        bootstrap_servers=servers, group_id=group, isolation_level="read_committed", enable_auto_commit=False
    )
    try:
        consumer.assign([where])
        assert consumer.committed(where) == 4
        consumer.seek(where, 0)
        values: list[bytes] = []
        deadline = time.monotonic() + PATIENCE_S
        while END not in values and time.monotonic() < deadline:
            values += [record.value for records in consumer.poll(100).values() for record in records]
        assert values == [b"a", END]
    finally:
        consumer.close()


def test_kafka_python_zombie_is_fenced_when_its_successor_has_begun(servers: str, topic: str) -> None:
    name = new_name("txn")
    zombie = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    successor = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
    try:
        zombie.init_transactions()
        zombie.begin_transaction()
        zombie.send(topic, b"zombie").get(timeout=PATIENCE_S)
        successor.init_transactions()
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
        successor.begin_transaction()
        successor.send(topic, b"successor").get(timeout=PATIENCE_S)
        successor.commit_transaction()
    finally:
        successor.close(timeout=PATIENCE_S)
        zombie.close(timeout=0)
    assert read(servers, topic, "read_committed", 1) == [b"successor"]
