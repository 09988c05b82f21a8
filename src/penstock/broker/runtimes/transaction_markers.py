"""Writes the markers that end transactions into their partitions, as far as this broker leads them.

A marker that cannot be written now is not an error: `__transaction_state` has the decision, and the runtime tries again
until the partition has the marker. A deleted partition needs none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.partitions.durability_wait import Appended
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.core.clock import Clock
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.time.backoff import Chance
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.in_sync import is_below_minimum
from penstock.transactions.outcome import Markers

logger = logging.getLogger("penstock.broker.transactions")

# The log knows a later owner of the transactional id: that owner's marker has ended the transaction already.
_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class Leaders(NamedTuple):
    """The leaders of partitions, by the image."""

    node_id: int  # the id of this broker
    # NO_LEADER for a partition without a leader; None for a deleted partition.
    find: Callable[[TopicPartition], int | None]


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class WrittenMarkers(NamedTuple):
    done: list[TopicPartition]
    left: list[TopicPartition]  # to try again
    to_settle: list[Appended]  # written markers that count only when they are on disk and replicated


class MarkerWriter:
    def __init__(
        self, partitions: Partitions, leaders: Leaders, groups: GroupRuntime, clock: Clock, chance: Chance
    ) -> None:
        """`chance` is for the pauses before a marker is tried again."""
        self.leaders = leaders
        self.chance = chance
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self.limited_log = RateLimitedLog(logger, Limiter(), clock.monotonic_ms)

    def write(self, markers: Markers) -> WrittenMarkers:
        """Writes to as many of the partitions as will take the marker."""
        written = WrittenMarkers([], [], [])
        marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            markers.is_commit,
            markers.transaction_version,
        )
        for topic_partition in markers.partitions:
            try:
                to_settle = self.append(topic_partition, marker)
            except ApiError as error:
                outcome = written.done if self.is_settled(topic_partition, error.code, markers) else written.left
                outcome.append(topic_partition)
                continue
            written.done.append(topic_partition)
            if to_settle is not None:
                written.to_settle.append(to_settle)
        return written

    def append(self, topic_partition: TopicPartition, marker: Marker) -> Appended | None:
        """Writes one marker into one partition; returns the append, if it has to be settled before it counts."""
        leader = self.leaders.find(topic_partition)
        if leader is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leader != self.leaders.node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        partition = self._partitions.find(*topic_partition)
        if partition is None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        holds_offsets = topic_partition.topic == CONSUMER_OFFSETS
        if holds_offsets and self._groups.shards.refusal(topic_partition.partition):
            # A load would miss a marker behind the part that it has read, and the marker's offsets would wait for ever.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        state, settings = partition.state, partition.log.settings
        if is_below_minimum(len(state.isr), settings.min_insync_replicas, len(state.replicas)):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)  # each attempt would leave another marker that does not count
        partition.append_end_marker(*marker[:4], self._clock.now_ms(), marker.transaction_version)
        if holds_offsets:
            self._groups.end_transaction(topic_partition.partition, marker.producer_id, marker.is_commit)
        return None if partition.log.is_settled() else Appended.now(partition)

    def is_settled(self, topic_partition: TopicPartition, error: ErrorCode, markers: Markers) -> bool:
        """Whether no marker has to be tried again there, whichever broker sent the error. Every other error passes:
        then the partition's leader is looked up again.
        """
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self.leaders.find(topic_partition) is None  # the other broker may not know the partition yet
        if error in _OVERTAKEN:
            fields = {"partition": topic_partition, "transactional_id": markers.transactional_id, "error": error.name}
            self.limited_log.once_per(
                "overtaken", logging.WARNING, "a partition has a newer epoch than a transaction's marker", fields
            )
            return True
        return False
