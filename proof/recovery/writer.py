"""An application that writes to every partition all the time with librdkafka, and what it feels of a fault.

The client has its defaults: acks=all, and all the patience and back-off that they imply. Each record is watched from
the call that hands it over until its acknowledgement. A time to recover counts records that were handed over after the
fault alone: whatever was acknowledged by a broker that was about to die says nothing.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

# Between the client's own reports on its retries; the default is none at all.
_STATISTICS_MS = 100
_COUNTED = ("txretries", "txerrs", "rxerrs", "req_timeouts")


class Writer(threading.Thread):
    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: Sequence[int],
        interval_s: float,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """A record for each partition every `interval_s`, evenly spread over the time."""
        super().__init__(name="writer", daemon=True)
        self._topic = topic
        self._partitions = partitions
        self._pause_s = interval_s / len(partitions)
        self._is_stopping = threading.Event()
        self._is_burst_wanted = threading.Event()
        self._since = float("inf")
        self.first_acks: dict[int, float] = {}  # by partition: of the first record handed over after the fault
        self.acked_partitions: set[int] = set()
        self.longest_s = 0.0  # that a record handed over after the fault waited
        self.delivery_errors: Counter[str] = Counter()
        self.client_errors: Counter[str] = Counter()  # told to the application's error callback, which may ignore them
        self._statistics: dict[str, dict[str, int]] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "statistics.interval.ms": _STATISTICS_MS,
                "stats_cb": self._count,
                "error_cb": self._note_client_error,
                "log_level": 0,
                **(settings or {}),
            }
        )

    def begin(self) -> None:
        """From now on records count; one goes to every partition at once."""
        self._since = time.monotonic()
        self._is_burst_wanted.set()

    @property
    def is_warm(self) -> bool:
        """Whether every partition has taken a record."""
        return len(self.acked_partitions) == len(self._partitions)

    @property
    def has_recovered(self) -> bool:
        return len(self.first_acks) == len(self._partitions)

    @property
    def statistics(self) -> Counter[str]:
        """What the client counted over all its brokers."""
        totals: Counter[str] = Counter()
        for counts in self._statistics.values():
            totals.update(counts)
        return +totals

    def run(self) -> None:
        due = time.monotonic()
        position = 0
        while not self._is_stopping.is_set():
            if self._is_burst_wanted.is_set():
                self._is_burst_wanted.clear()
                for each in self._partitions:
                    self._write(each)
            now = time.monotonic()
            if now < due:
                self._producer.poll(min(due - now, 0.01))
                continue
            due = max(due + self._pause_s, now - 1.0)
            self._write(self._partitions[position])
            position = (position + 1) % len(self._partitions)
            self._producer.poll(0)

    def stop(self) -> None:
        self._is_stopping.set()
        self.join()
        self._producer.purge()
        self._producer.poll(0)

    def _write(self, partition: int) -> None:
        try:
            self._producer.produce(
                self._topic,
                b"x",
                partition=partition,
                on_delivery=partial(self._delivered, time.monotonic()),
            )
        except BufferError:
            self._producer.poll(0.01)

    def _delivered(self, written: float, error: KafkaError | None, message: Message) -> None:
        if self._is_stopping.is_set():
            return  # thrown away by `stop`
        if error is not None:
            self.delivery_errors[str(error.name())] += 1
            return
        partition = message.partition() or 0
        self.acked_partitions.add(partition)
        if written >= self._since:
            now = time.monotonic()
            self.first_acks.setdefault(partition, now)
            self.longest_s = max(self.longest_s, now - written)

    def _note_client_error(self, error: KafkaError) -> None:
        self.client_errors[str(error.name())] += 1

    def _count(self, statistics: str) -> None:
        for name, broker in json.loads(statistics)["brokers"].items():
            self._statistics[name] = {key: int(broker.get(key, 0)) for key in _COUNTED}
