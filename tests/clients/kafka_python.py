"""Short words for kafka-python: topics, producers and consumers as the tests need them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from tests.clients.support import PATIENCE_S, eventually, new_name

PATIENCE_MS = int(PATIENCE_S * 1_000)


@contextlib.contextmanager
def admin_of(servers: str) -> Iterator[KafkaAdminClient]:
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        yield admin
    finally:
        admin.close()


def create_topic(
    servers: str, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    name = name or new_name("python")
    options = {"num_partitions": partitions, "replication_factor": 1, "configs": dict(config or {})}
    with admin_of(servers) as admin:
        admin.create_topics({name: options}, wait_for_metadata=True)
    return name


@contextlib.contextmanager
def producer_of(servers: str, **config: Any) -> Iterator[KafkaProducer]:
    producer = KafkaProducer(bootstrap_servers=servers, **config)
    try:
        yield producer
    finally:
        producer.close(timeout=PATIENCE_S)


def produce(servers: str, topic: str, values: Iterable[bytes | None], **config: Any) -> list[Any]:
    """What the broker said of each record, in order."""
    options = {name: config.pop(name) for name in ("key", "headers", "partition", "timestamp_ms") if name in config}
    with producer_of(servers, **config) as producer:
        futures = [producer.send(topic, value, **options) for value in values]
        return [future.get(timeout=PATIENCE_S) for future in futures]


@contextlib.contextmanager
def consumer_of(servers: str, *topics: str, **config: Any) -> Iterator[KafkaConsumer]:
    defaults = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait_ms": 50}
    consumer = KafkaConsumer(*topics, bootstrap_servers=servers, **(defaults | config))
    if "group_id" in config:
        # kafka-python 3.0.12 joins before it knows the topic, and once more when it does. If that poll ends before the
        # second join does, the member stays "rebalancing" for good: `need_rejoin` is False from then on, so no poll
        # waits for the join any more.
        for topic in topics:
            consumer.partitions_for_topic(topic)
    try:
        yield consumer
    finally:
        consumer.close(timeout_ms=5_000)


def read(consumer: KafkaConsumer, count: int, patience_s: float = PATIENCE_S) -> list[Any]:
    """Exactly `count` records."""
    found: list[Any] = []
    deadline = time.monotonic() + patience_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records arrived"
        # Longer than a rebalance on a busy machine; records end a poll.
        for records in consumer.poll(timeout_ms=5_000, max_records=count - len(found)).values():
            found += records
    return found


def read_topic(servers: str, topic: str, count: int, partition: int = 0, **config: Any) -> list[Any]:
    with consumer_of(servers, **config) as consumer:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        return read(consumer, count)


def poll_until(
    consumers: Sequence[KafkaConsumer], is_done: Callable[[], bool], what: str, patience_s: float = PATIENCE_S
) -> None:
    """Polls each consumer until `is_done`, each in a thread of its own: a member whose poll ends while it is joining
    begins again, so polls must be longer than a rebalance.
    """
    done = threading.Event()

    def keep_polling(consumer: KafkaConsumer) -> None:
        while not done.is_set():
            consumer.poll(timeout_ms=500)

    threads = [threading.Thread(target=keep_polling, args=(consumer,)) for consumer in consumers]
    for thread in threads:
        thread.start()
    try:
        eventually(is_done, what, patience_s)
    finally:
        done.set()
        for thread in threads:
            thread.join()


def values(records: Iterable[Any]) -> list[bytes | None]:
    return [record.value for record in records]
