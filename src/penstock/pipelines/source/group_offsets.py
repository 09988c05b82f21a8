"""Reads and writes a group's committed offsets, for the driver. Its consumers are kept: see `group_consumer`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import confluent_kafka
from confluent_kafka import Consumer

from penstock.client.bounded_call import StuckCallError, call_within
from penstock.core.types import TopicPartition
from penstock.pipelines.kafka.group_consumer import open_group_consumer, raise_errors
from penstock.pipelines.kafka.offsets_json import Offsets

# A commit has no limit of its own but this: so long its coordinator is looked for.
_COORDINATOR_TIMEOUT_MS = 10_000
_STUCK_AFTER_S = 20.0


class GroupOffsets:
    """The offsets that groups have committed. Not for several threads."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = settings
        self._consumers: dict[str, Consumer] = {}  # a new one would look for its coordinator first

    def committed(self, group_id: str, partitions: Collection[TopicPartition], timeout_s: float) -> Offsets:
        """The committed offsets, without partitions that the group has not committed. Raises KafkaException."""
        asked = [confluent_kafka.TopicPartition(*partition) for partition in partitions]
        answered = self._consumer(group_id).committed(asked, timeout=timeout_s)
        raise_errors(answered)
        return {
            TopicPartition(partition.topic, partition.partition): partition.offset
            for partition in answered
            if partition.offset >= 0
        }

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """KafkaException, or StuckCallError."""
        given = [confluent_kafka.TopicPartition(*partition, offset) for partition, offset in offsets.items()]
        consumer = self._consumer(group_id)
        try:
            raise_errors(call_within(lambda: consumer.commit(offsets=given, asynchronous=False), _STUCK_AFTER_S))
        except StuckCallError:
            del self._consumers[group_id]
            raise

    def close(self) -> None:
        while self._consumers:
            self._consumers.popitem()[1].close()

    def _consumer(self, group_id: str) -> Consumer:
        if group_id not in self._consumers:
            own = {**self._settings, "session.timeout.ms": _COORDINATOR_TIMEOUT_MS}
            self._consumers[group_id] = open_group_consumer(own, group_id)
        return self._consumers[group_id]
