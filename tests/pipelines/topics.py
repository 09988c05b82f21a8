"""Topics for the tests of the Spark source: made, filled and looked at with an ordinary client."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import confluent_kafka
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT_S = 30.0


class Topics:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, partitions: int = 2, name: str | None = None, **config: str) -> str:
        topic = name or f"source-{uuid.uuid4().hex[:12]}"
        # Some timestamps lie years back: a broker's first look at retention would delete them.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(TIMEOUT_S)
        self._await_leaders(topic, partitions)
        return topic

    def _await_leaders(self, topic: str, partitions: int) -> None:
        """Apache Kafka answers before its own metadata has the topic, and a producer would give records up by then."""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            found = self.admin.list_topics(timeout=TIMEOUT_S).topics.get(topic)
            if found is not None and [each.leader >= 0 for each in found.partitions.values()] == [True] * partitions:
                return
            time.sleep(0.05)
        raise TimeoutError(f"{topic} has no leaders after {TIMEOUT_S:.0f} s")

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def add_partitions(self, topic: str, total: int) -> None:
        new = [confluent_kafka.admin.NewPartitions(topic, total)]
        self.admin.create_partitions(new)[topic].result(TIMEOUT_S)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        one = confluent_kafka.TopicPartition(topic, partition, before)
        for future in self.admin.delete_records([one]).values():
            future.result(TIMEOUT_S)

    def produce(
        self, topic: str, numbers: Iterable[int], partitions: int = 2, *, first_timestamp: int | None = None
    ) -> None:
        """Number n goes to partition n % partitions, as text, its timestamp n ms after the first."""
        failures: list[object] = []
        producer = self.producer(on_delivery=lambda error, _: failures.append(error) if error else None)
        for number in numbers:
            produce_number(producer, topic, number, number % partitions, first_timestamp)
        assert producer.flush(TIMEOUT_S) == 0
        assert failures == []

    def produce_transactions(self, topic: str, *transactions: tuple[bool, Iterable[int]]) -> None:
        """(is committed, numbers), one after the other, all to partition 0."""
        producer = self.producer(**{"transactional.id": f"tx-{uuid.uuid4().hex}"})
        producer.init_transactions(TIMEOUT_S)
        for is_committed, numbers in transactions:
            producer.begin_transaction()
            for number in numbers:
                produce_number(producer, topic, number, 0, None)
            end: Callable[[float], None] = producer.commit_transaction if is_committed else producer.abort_transaction
            assert producer.flush(TIMEOUT_S) == 0
            end(TIMEOUT_S)

    def producer(self, **settings: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 5, **settings})

    def committed(self, group: str, topic: str) -> dict[int, int]:
        request = [ConsumerGroupTopicPartitions(group)]
        answer = self.admin.list_consumer_group_offsets(request)[group].result(TIMEOUT_S)
        return {one.partition: one.offset for one in answer.topic_partitions if one.topic == topic}

    def commit(self, group: str, topic: str, offsets: dict[int, int]) -> None:
        given = [confluent_kafka.TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, given)])[group].result(TIMEOUT_S)


def produce_number(producer: Producer, topic: str, number: int, partition: int, first_timestamp: int | None) -> None:
    producer.poll(0)
    producer.produce(
        topic,
        str(number).encode(),
        None if number % 3 == 0 else f"key {number}".encode(),
        partition=partition,
        timestamp=1_700_000_000_000 + number if first_timestamp is None else first_timestamp + number,
        headers=[("number", str(number).encode()), ("nothing", None)] if number % 5 == 0 else None,
    )
