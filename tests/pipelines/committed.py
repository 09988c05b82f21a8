"""What the tests of the sink need of a broker: topics, and what a careful reader finds in them."""

from __future__ import annotations

import itertools
import os

from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

_numbers = itertools.count(1)


def unique(name: str) -> str:
    return f"{name}-{os.getpid()}-{next(_numbers)}"


def make_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> str:
    """`config` has `_` for `.`."""
    topic = unique(name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
    return topic


def produce(bootstrap: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def read_committed(bootstrap: str, topic: str) -> list[Message]:
    """Every record that a read_committed consumer is shown, partition by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = list(consumer.list_topics(topic, 30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        found: list[Message] = []
        ended: set[int] = set()
        while len(ended) < len(partitions):
            message = consumer.poll(30)
            assert message is not None, f"no end of {topic} within 30 s: is a transaction open?"
            if message.error() is None:
                found.append(message)
            else:
                partition = message.partition()
                assert partition is not None
                ended.add(partition)
        return sorted(found, key=lambda each: (each.partition() or 0, each.offset() or 0))
    finally:
        consumer.close()


def committed_values(bootstrap: str, topic: str) -> list[str]:
    return sorted((message.value() or b"").decode() for message in read_committed(bootstrap, topic))
