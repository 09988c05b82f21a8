"""What a group has committed, read and written by a consumer that is a member of nothing.

An admin client could do the same, but a broker that goes away in the middle of a request to a group's coordinator can
make librdkafka's end the process: up to 2.16 at least (its issue 4605, pull request 5397).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

import confluent_kafka
from confluent_kafka import Consumer, KafkaException

from penstock.core.bounded_call import StuckCallError, call_within
from penstock.core.types import TopicPartition
from penstock.pipelines.source.offsets import Offsets

_log = logging.getLogger("penstock.pipelines.librdkafka")
_log.addHandler(logging.NullHandler())
# A commit has no limit of its own but this: so long its coordinator is looked for.
_COORDINATOR_TIMEOUT_MS = 10_000
_STUCK_AFTER_S = 20.0


class GroupOffsets:
    """Not for several threads."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._consumers: dict[str, Consumer] = {}  # a new one would look for its coordinator first

    def committed(self, group_id: str, partitions: Collection[TopicPartition], timeout_s: float) -> Offsets:
        """Without the partitions that the group has not committed. KafkaException."""
        asked = [confluent_kafka.TopicPartition(*one) for one in partitions]
        answered = self._consumer(group_id).committed(asked, timeout=timeout_s)
        _raise_errors(answered)
        return {TopicPartition(one.topic, one.partition): one.offset for one in answered if one.offset >= 0}

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """KafkaException, or StuckCallError."""
        given = [confluent_kafka.TopicPartition(*one, offset) for one, offset in offsets.items()]
        consumer = self._consumer(group_id)
        try:
            _raise_errors(call_within(lambda: consumer.commit(offsets=given, asynchronous=False), _STUCK_AFTER_S))
        except StuckCallError:
            del self._consumers[group_id]
            raise

    def _consumer(self, group_id: str) -> Consumer:
        if group_id not in self._consumers:
            own = {
                "group.id": group_id,
                "enable.auto.commit": False,
                "session.timeout.ms": _COORDINATOR_TIMEOUT_MS,
                "logger": _log,
            }
            self._consumers[group_id] = Consumer({**self._settings, **own})
        return self._consumers[group_id]


def _raise_errors(answered: Collection[confluent_kafka.TopicPartition] | None) -> None:
    for one in answered or ():
        if one.error is not None:
            raise KafkaException(one.error)
