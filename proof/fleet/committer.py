"""A client that commits ever larger offsets, and what another client finds of them."""

from __future__ import annotations

import contextlib
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from penstock.testing.fleet.client import Client, Setting
from penstock.testing.fleet.patience import PATIENT
from penstock.testing.history import Where


class Committer(Client):
    """Commits offsets of its first target; remembers the last attempt and the last acknowledgement."""

    pause_s = 0.002

    def __init__(self, group: str, setting: Setting) -> None:
        super().__init__(group, setting)
        self.group = group
        self.target = setting.targets[0]
        self.attempted = 0
        self.acknowledged = 0
        self._consumer = Consumer({**self.base_config, "group.id": group})

    def step(self) -> None:
        self.attempted += 1
        offset = TopicPartition(*self.target, self.attempted, f"commit {self.attempted}")
        # The broker may be down, or load its groups: the next attempt is a larger offset.
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=[offset], asynchronous=False)
            self.acknowledged = offset.offset

    def close(self) -> None:
        self._consumer.close()


def read_committed(servers: str, group: str, target: Where, deadline_s: float) -> TopicPartition:
    """What a client that knows nothing of the past finds; the offset is -1 where nothing is committed."""
    consumer = Consumer({"bootstrap.servers": servers, **PATIENT, "group.id": group})
    try:
        deadline = time.monotonic() + deadline_s
        while True:
            with contextlib.suppress(KafkaException):
                (committed,) = consumer.committed([TopicPartition(*target)], timeout=2.0)
                if committed.error is not None:
                    raise KafkaException(committed.error)
                committed.offset = max(committed.offset, -1)  # librdkafka has a number of its own for none
                return committed
            if time.monotonic() > deadline:
                raise TimeoutError(f"no committed offset could be read within {deadline_s} s")
    finally:
        consumer.close()
