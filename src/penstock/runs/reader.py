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

# The settings of a consumer of these topics. The group is never joined and commits nothing.
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
    """For one thread. The reader owns the consumer from now on."""

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
        ends = {number: self._find_end(number) for number in partitions}
        unread = {number for number, end in ends.items() if end > 0}
        deadline = self._monotonic() + timeout_s
        while unread and self._monotonic() < deadline:
            message = self._consumer.poll(_POLL_S)
            if message is not None and self._is_end(message, ends):
                unread.discard(message.partition())
            self._take(message)
        self.overview.is_listening = True
        return not unread

    def _find_end(self, partition: int) -> int:
        from confluent_kafka import TopicPartition

        topic_partition = TopicPartition(self._topic, partition)
        return self._consumer.get_watermark_offsets(topic_partition, timeout=_METADATA_TIMEOUT_S)[1]

    def _is_end(self, message: Message, ends: Mapping[int, int]) -> bool:
        """At the last record that was there, or at the end of the partition. The last record may be compacted away, and
        the client reports the end only after a fetch without records, which never comes while runs write all the
        time."""
        from confluent_kafka import KafkaError

        error, offset, partition = message.error(), message.offset(), message.partition()
        if error is not None:
            return error.code() == KafkaError._PARTITION_EOF
        return offset is not None and partition is not None and offset + 1 >= ends[partition]

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

    def _take(self, message: Message | None) -> None:
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException

        if message is None:
            return
        error = message.error()
        if error is None:
            kind, at_ms = message.timestamp()
            self.overview.take(message.key(), message.value(), at_ms, kind == TIMESTAMP_LOG_APPEND_TIME)
        elif error.fatal() or not error.name().startswith("_"):
            raise KafkaException(error)
        else:  # the client library tries again by itself, or is at the end
            logger.debug("%s: %s", self._topic, error)


def find_partitions(consumer: Consumer, topic: str) -> list[int]:
    """Empty: there is no such topic. Asking does not create it."""
    from confluent_kafka import KafkaError, KafkaException

    described = consumer.list_topics(topic, timeout=_METADATA_TIMEOUT_S).topics[topic]
    if described.error is not None and described.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
        raise KafkaException(described.error)
    return sorted(described.partitions)
