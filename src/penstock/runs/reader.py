"""Reads `_penstock_runs` from its start to its end, and listens there."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from penstock.runs.overview import Overview

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

logger = logging.getLogger(__name__)

# What a consumer of these topics is opened with. The group is never joined and commits nothing.
CONSUMER_SETTINGS: Final[Mapping[str, str | bool | int]] = {
    "group.id": "penstock-runs",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    # A long poll costs nothing, and a record ends it at once.
    "fetch.wait.max.ms": 2000,
}
_METADATA_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.1


class RunsReader:
    """For one thread. The consumer is the reader's from now on."""

    def __init__(self, consumer: Consumer, topic: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._consumer = consumer
        self._topic = topic
        self._monotonic = monotonic
        self.overview = Overview()

    def read_to_end(self, timeout_s: float) -> bool:
        """Whether the end was reached in time. A topic that does not exist is an empty one."""
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        partitions = find_partitions(self._consumer, self._topic)
        self._consumer.assign([TopicPartition(self._topic, number, OFFSET_BEGINNING) for number in partitions])
        unread = set(partitions)
        deadline = self._monotonic() + timeout_s
        while unread and self._monotonic() < deadline:
            ended = self._take(self._consumer.poll(_POLL_S))
            unread.discard(ended)
        self.overview.is_listening = True
        return not unread

    def listen(self, for_s: float, until: Callable[[Overview], bool] = lambda _: False) -> bool:
        """Whether `until` became true before the time was up."""
        deadline = self._monotonic() + for_s
        while not until(self.overview):
            if self._monotonic() >= deadline:
                return False
            self._take(self._consumer.poll(_POLL_S))
        return True

    def close(self) -> None:
        self._consumer.close()

    def _take(self, message: Message | None) -> int | None:
        """The partition that has come to its end, where the message says so."""
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

        if message is None:
            return None
        error = message.error()
        if error is None:
            kind, at_ms = message.timestamp()
            self.overview.take(message.key(), message.value(), at_ms, kind == TIMESTAMP_LOG_APPEND_TIME)
            return None
        if error.code() == KafkaError._PARTITION_EOF:
            return message.partition()
        if error.fatal() or not error.name().startswith("_"):
            raise KafkaException(error)
        logger.debug("%s: %s", self._topic, error)
        return None


def find_partitions(consumer: Consumer, topic: str) -> list[int]:
    """Empty: there is no such topic. Asking does not create it."""
    from confluent_kafka import KafkaError, KafkaException

    described = consumer.list_topics(topic, timeout=_METADATA_TIMEOUT_S).topics[topic]
    if described.error is not None and described.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(described.error)
    return sorted(described.partitions)
