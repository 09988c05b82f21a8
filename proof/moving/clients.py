"""One application that writes to every partition all the time and one that reads them, each with librdkafka.

A write takes from the call that hands the record over until its acknowledgement by all in-sync replicas. A read takes
from the same call until the reader has the record. Both are noted with the moment at which the record was handed over,
so that a period of the run has its own figures.
"""

from __future__ import annotations

import bisect
import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_MOMENT_SIZE = 8
_BYTE_ORDER: Literal["big"] = "big"
_POLL_S = 0.01
_LATEST = -1
# A reader that takes many records at once does not take much time for each.
_MOST_MESSAGES = 500


class Times:
    """Latencies by the moment at which they began, in the order of these, each with its partition. One thread adds."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, float, int]] = []

    def add(self, began: float, took_s: float, partition: int) -> None:
        bisect.insort(self._rows, (began, took_s, partition))

    def between(self, start: float, end: float, counts: Callable[[int], bool] = lambda _: True) -> Figures:
        """`counts` says it of a partition."""
        first, last = (bisect.bisect_left(self._rows, (moment, -math.inf, 0)) for moment in (start, end))
        return Figures.of([took_s for _, took_s, partition in self._rows[first:last] if counts(partition)])


@dataclass(frozen=True, slots=True)
class Figures:
    count: int
    median_s: float
    p99_s: float
    worst_s: float

    @classmethod
    def of(cls, times_s: list[float]) -> Figures:
        if not times_s:
            return cls(0, math.nan, math.nan, math.nan)
        ordered = sorted(times_s)

        def percentile(fraction: float) -> float:
            return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]

        return cls(len(ordered), percentile(0.5), percentile(0.99), ordered[-1])

    def __str__(self) -> str:
        median, p99, worst = (f"{1000 * value:.1f} ms" for value in (self.median_s, self.p99_s, self.worst_s))
        return f"median {median}, p99 {p99}, worst {worst} of {self.count:,}"


class Writer(threading.Thread):
    def __init__(self, servers: str, topic: str, partitions: int, rate: float, size: int) -> None:
        """`rate` records a second over all partitions, in turn."""
        super().__init__(name="writer", daemon=True)
        self.times = Times()
        self.errors: Counter[str] = Counter()
        self._topic = topic
        self._partitions = partitions
        self._pause_s = 1 / rate
        self._padding = bytes(max(0, size - _MOMENT_SIZE))
        self._is_stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0, "linger.ms": 0})

    def fill(self, size: int) -> None:
        """So many bytes in each partition, before anything is measured."""
        piece = bytes(10_000)
        for partition in range(self._partitions):
            for _ in range(math.ceil(size / len(piece))):
                self._hand_over(piece, partition, None)
            self._producer.poll(0)
        self._producer.flush()

    def run(self) -> None:
        due = time.monotonic()
        partition = 0
        while not self._is_stopping.is_set():
            now = time.monotonic()
            if now < due:
                self._producer.poll(min(due - now, _POLL_S))
                continue
            due = max(due + self._pause_s, now - 1.0)
            moment = time.monotonic_ns().to_bytes(_MOMENT_SIZE, _BYTE_ORDER)
            self._hand_over(moment + self._padding, partition, partial(self._delivered, now))
            self._producer.poll(0)
            partition = (partition + 1) % self._partitions

    def stop(self) -> None:
        self._is_stopping.set()
        self.join()
        self._producer.flush()

    def _hand_over(
        self, value: bytes, partition: int, told: Callable[[KafkaError | None, Message], None] | None
    ) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=told or self._filled)
                return
            except BufferError:
                self._producer.poll(_POLL_S)

    def _filled(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.errors[str(error.name())] += 1

    def _delivered(self, began: float, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.times.add(began, time.monotonic() - began, _partition_of(message))
        else:
            self.errors[str(error.name())] += 1


class Reader(threading.Thread):
    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        """Begins at the end."""
        super().__init__(name="reader", daemon=True)
        self.times = Times()
        self.errors: Counter[str] = Counter()
        self._is_stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": f"{topic}-reader",
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, index, _LATEST) for index in range(partitions)])

    def run(self) -> None:
        while not self._is_stopping.is_set():
            for message in self._consumer.consume(_MOST_MESSAGES, 0.1):
                self._note(message)
        self._consumer.close()

    def stop(self) -> None:
        self._is_stopping.set()
        self.join()

    def _note(self, message: Message) -> None:
        error, value = message.error(), message.value() or b""
        if error is not None:
            self.errors[str(error.name())] += 1
            return
        began_ns = int.from_bytes(value[:_MOMENT_SIZE], _BYTE_ORDER)
        if began_ns:  # what was filled in before has none
            self.times.add(began_ns / 1e9, (time.monotonic_ns() - began_ns) / 1e9, _partition_of(message))


def _partition_of(message: Message) -> int:
    partition = message.partition()
    return -1 if partition is None else partition
