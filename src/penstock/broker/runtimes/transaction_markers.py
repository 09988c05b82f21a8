"""Writes the markers that end transactions into the partitions that took part, as far as this broker leads them.

A marker that cannot be written now is not an error: the decision stands in `__transaction_state`, and the runtime
tries again until the partition has it. A partition that is gone needs none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.partitions.partitions import Partitions
from penstock.broker.partitions.settling import Appended
from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.core.clock import Clock
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.in_sync import is_below_minimum
from penstock.transactions.outcome import Markers

logger = logging.getLogger("penstock.broker.transactions")

# The log knows a later owner of the transactional id: that one's marker has ended the transaction already.
_OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class Leaders(NamedTuple):
    """Who leads what, as the image has it."""

    node_id: int  # of this broker
    find: Callable[[TopicPartition], int | None]  # NO_LEADER for a partition without; None for one that is gone


class Marker(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class WrittenMarkers(NamedTuple):
    done: list[TopicPartition]
    left: list[TopicPartition]  # to be tried again
    to_settle: list[Appended]  # of those done: count only when they are on disk and replicated


class MarkerWriter:
    def __init__(self, partitions: Partitions, leaders: Leaders, groups: GroupRuntime, clock: Clock) -> None:
        self.leaders = leaders
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self.limited_log = RateLimitedLog(logger, Limiter(), clock.monotonic_ms)

    def write(self, markers: Markers) -> WrittenMarkers:
        """To as many of the partitions as will take it."""
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
        """One marker into one partition; where it is, if it has to be settled before it counts."""
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
            # A marker behind the part that is being loaded would be missed, and its offsets would wait for ever.
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        state, settings = partition.state, partition.log.settings
        if is_below_minimum(len(state.isr), settings.min_insync_replicas, len(state.replicas)):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)  # each attempt would leave another marker that does not count
        partition.append_end_marker(*marker[:4], self._clock.now_ms(), marker.transaction_version)
        if holds_offsets:
            self._groups.end_transaction(topic_partition.partition, marker.producer_id, marker.is_commit)
        return None if partition.log.is_settled() else Appended.now(partition)

    def is_settled(self, topic_partition: TopicPartition, error: ErrorCode, markers: Markers) -> bool:
        """Whether no marker has to be tried again there, whichever broker has said so. Every other error passes: then
        the partition's leader is looked up again.
        """
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return self.leaders.find(topic_partition) is None  # the other broker may not have heard of it yet
        if error in _OVERTAKEN:
            fields = {"partition": topic_partition, "transactional_id": markers.transactional_id, "error": error.name}
            self.limited_log.once_per(
                "overtaken", logging.WARNING, "a partition has a newer epoch than a transaction's marker", fields
            )
            return True
        return False
