"""The picture of a cluster: one immutable value, from one look or from several.

A look asks for some parts of the picture (`Part`). `parts` says when each was read and what of it is missing: a broker
that does not answer costs what it alone knows, and never the rest. What was not asked for is empty, or is that of an
earlier picture with its own, older time.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.admin.state.brokers import BrokerState, ReplicaFiles
from penstock.admin.state.configs import ConfigPlace, ConfigSetting
from penstock.admin.state.groups import GroupState
from penstock.admin.state.partitions import PartitionState, ReplicaKey, TopicState
from penstock.admin.state.parts import Failure, Part, PartRead
from penstock.core.config.resources import ConfigResourceType
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode

MIN_IN_SYNC = "min.insync.replicas"


class LogEnd(NamedTuple):
    """Of one replica, whether it leads or not."""

    epoch: int  # of its last record
    offset: int  # where the next record comes


@dataclass(frozen=True, repr=False)
class ClusterState:
    """`at_s` is when the look began, by the reader's steady clock."""

    at_s: float = 0.0
    cluster_id: str = ""
    controller_id: int | None = None
    brokers: Mapping[int, BrokerState] = field(default_factory=dict)
    topics: Mapping[str, TopicState] = field(default_factory=dict)  # in the order of their names
    files: Mapping[ReplicaKey, ReplicaFiles] = field(default_factory=dict)
    first_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    last_offsets: Mapping[TopicPartition, int] = field(default_factory=dict)  # high watermarks
    log_ends: Mapping[ReplicaKey, LogEnd] = field(default_factory=dict)
    configs: Mapping[ConfigPlace, Mapping[str, ConfigSetting]] = field(default_factory=dict)
    groups: Mapping[str, GroupState] = field(default_factory=dict)  # in the order of their names
    parts: Mapping[Part, PartRead] = field(default_factory=dict)

    def __repr__(self) -> str:
        """asyncio writes results of tasks out, and 10,000 partitions would take it a second."""
        counts = f"{len(self.brokers)} brokers, {len(self.topics)} topics, {len(self.groups)} groups"
        return f"<ClusterState of {self.cluster_id}: {counts}>"

    # ------------------------------------------------------------------------------------ what was read

    def age_s(self, part: Part, now_s: float) -> float | None:
        """None for a part that was never read."""
        read = self.parts.get(part)
        return None if read is None else now_s - read.at_s

    def failures_of(self, part: Part) -> tuple[Failure, ...]:
        read = self.parts.get(part)
        return () if read is None else read.failures

    @property
    def failures(self) -> tuple[Failure, ...]:
        return tuple(failure for read in self.parts.values() for failure in read.failures)

    @property
    def controller_silence(self) -> str:
        """Why the broker that is named as the controller did not answer as one; empty where it did. A controller that
        refuses to tell us has answered.
        """
        refusals = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED,)
        return next((each.reason for each in self.failures_of(Part.MOVES) if each.code not in refusals), "")

    @property
    def unread_configs(self) -> tuple[Failure, ...]:
        """Without topics that we may not see, and those that went while we looked."""
        refusals = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return tuple(each for each in self.failures_of(Part.CONFIGS) if each.code not in refusals)

    # ------------------------------------------------------------------------------------ partitions

    @functools.cached_property
    def partitions(self) -> tuple[PartitionState, ...]:
        return tuple(each for topic in self.topics.values() for each in topic.partitions)

    @functools.cached_property
    def offline(self) -> tuple[PartitionState, ...]:
        return tuple(each for each in self.partitions if each.is_offline(self.brokers))

    @functools.cached_property
    def under_replicated(self) -> tuple[PartitionState, ...]:
        return tuple(each for each in self.partitions if each.is_under_replicated)

    @functools.cached_property
    def moving(self) -> tuple[PartitionState, ...]:
        return tuple(each for each in self.partitions if each.is_moving)

    def partition(self, place: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(place.topic)
        if topic is None:
            return None
        return next((each for each in topic.partitions if each.partition == place.partition), None)

    # ------------------------------------------------------------------------------------ settings

    @functools.cached_property
    def min_in_sync(self) -> Mapping[str, int]:
        """By topic, of those whose setting was read."""
        return min_in_sync_of(self.configs)

    def minimum(self, partition: PartitionState) -> int | None:
        """How many in-sync replicas acks=all needs; None where the setting was not read."""
        configured = self.min_in_sync.get(partition.topic)
        return None if configured is None else partition.minimum(configured)


def min_in_sync_of(configs: Mapping[ConfigPlace, Mapping[str, ConfigSetting]]) -> dict[str, int]:
    """By topic, where the setting is known."""
    return {
        place.name: int(settings[MIN_IN_SYNC].value or 1)
        for place, settings in configs.items()
        if place.kind == ConfigResourceType.TOPIC and MIN_IN_SYNC in settings
    }
