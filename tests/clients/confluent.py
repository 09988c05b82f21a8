"""Short words for confluent-kafka: topics, producers and consumers as the tests need them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.clients.support import PATIENCE_S, new_name

# A client outlives its broker by a moment at the end of a run, and would say so at length.
QUIET: dict[str, Any] = {"log_level": 0}


_admins: dict[str, AdminClient] = {}
_admins_lock = threading.Lock()


def admin_of(servers: str) -> AdminClient:
    """One for each broker and kept: its futures die with it."""
    with _admins_lock:
        if servers not in _admins:
            _admins[servers] = AdminClient({"bootstrap.servers": servers, **QUIET})
        return _admins[servers]


def create_topic(
    servers: str, partitions: int = 1, config: Mapping[str, str] | None = None, name: str | None = None
) -> str:
    name = name or new_name("confluent")
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    admin_of(servers).create_topics([topic])[name].result(PATIENCE_S)
    return name


def producer_of(servers: str, **config: Any) -> Producer:
    """Configuration keys with underscores for dots."""
    return Producer({"bootstrap.servers": servers, **QUIET, "linger.ms": 0, **_dotted(config)})


def produce(producer: Producer, topic: str, values: Iterable[bytes | None], **options: Any) -> list[Message]:
    """Every record acknowledged, in order; KafkaException for the first that was refused."""
    reports: list[Message] = []
    failures: list[KafkaException] = []

    def report(error: Any, message: Message) -> None:
        if error is not None:
            failures.append(KafkaException(error))
        else:
            reports.append(message)

    for value in values:
        producer.produce(topic, value, on_delivery=report, **options)
    assert producer.flush(PATIENCE_S) == 0, "records are still on their way"
    if failures:
        raise failures[0]
    return reports


@contextlib.contextmanager
def consumer_of(servers: str, **config: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            **QUIET,
            "group.id": new_name("group"),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            # A fetch that finds nothing answers soon, so that pausing, seeking and closing are quick.
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
            **_dotted(config),
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def read(consumer: Consumer, count: int, patience_s: float = PATIENCE_S) -> list[Message]:
    """Exactly `count` records; KafkaException for an error in their place."""
    found: list[Message] = []
    deadline = time.monotonic() + patience_s
    while len(found) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} records arrived"
        for message in consumer.consume(count - len(found), timeout=0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            found.append(message)
    return found


def read_topic(servers: str, topic: str, count: int, partition: int = 0, **config: Any) -> list[Message]:
    with consumer_of(servers, **config) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        return read(consumer, count)


def poll_until(
    consumers: Sequence[Consumer], is_done: Callable[[], bool], what: str, patience_s: float = PATIENCE_S
) -> list[Message]:
    """Gives each consumer a turn until `is_done`: how several members of a group live in one thread."""
    found: list[Message] = []
    deadline = time.monotonic() + patience_s
    while not is_done():
        assert time.monotonic() < deadline, f"{what} did not happen: {[assigned(one) for one in consumers]}"
        for consumer in consumers:
            message = consumer.poll(0.02)
            if message is not None and message.error() is None:
                found.append(message)
    return found


def assigned(consumer: Consumer) -> set[tuple[str, int]]:
    return {(one.topic, one.partition) for one in consumer.assignment()}


def values(messages: Iterable[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def _dotted(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key if key.endswith("_cb") else key.replace("_", "."): value for key, value in config.items()}
