"""The cluster's metadata as an immutable value, and what changed between two of them.

The broker serves every request from one image. The controller makes the next one; nothing is ever changed in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from penstock.cluster.levels import FIRST_LEVEL, LevelRange
from penstock.cluster.security_image import NO_SECURITY, SecurityImage
from penstock.core.internal_topics import INTERNAL_TOPICS
from penstock.core.listeners import Endpoint
from penstock.core.partition_state import NO_LEADER, PartitionState
from penstock.core.types import TopicId, TopicPartition

__all__ = [
    "NO_CONTROLLER",
    "NO_LEADER",
    "BrokerRegistration",
    "ImageDelta",
    "MetadataImage",
    "PartitionState",
    "Settings",
    "TopicImage",
    "find_colliding_names",
]

NO_CONTROLLER = -1

Settings = Mapping[str, str]
_NO_SETTINGS: Settings = MappingProxyType({})


class BrokerRegistration(NamedTuple):
    node_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    # Larger with every registration of any broker: tells a restarted broker from its former self.
    epoch: int = 0
    # The epoch that its logs were closed with: where that was its last one, nothing was lost. -1: not known.
    previous_epoch: int = -1
    # A controlled shutdown is under way: it gets no new leaderships.
    is_stopping: bool = False
    # The levels of the metadata that its version knows.
    levels: LevelRange = LevelRange(FIRST_LEVEL, FIRST_LEVEL)
    # The ids of its data directories, and whether no log was in them when it started.
    directories: tuple[str, ...] = ()
    is_empty: bool = False

    def endpoint(self, listener_name: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.name == listener_name), None)


class TopicImage(NamedTuple):
    name: str
    topic_id: TopicId
    partitions: tuple[PartitionState, ...]
    configs: Settings = _NO_SETTINGS

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0

    def partition(self, index: int) -> PartitionState | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None


@dataclass(frozen=True)
class MetadataImage:
    cluster_id: str
    controller_id: int = NO_CONTROLLER
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    broker_configs: Mapping[int, Settings] = field(default_factory=dict)
    default_broker_config: Settings = field(default_factory=lambda: _NO_SETTINGS)
    # Of groups that have settings of their own; whether such a group exists is known to its coordinator alone.
    group_configs: Mapping[str, Settings] = field(default_factory=dict)
    # The data directories of each registered broker that told them, as it last registered, also while it is away.
    directories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    # Registered brokers that are not here, as they last registered. See `registered`.
    away: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    # In which format the metadata are written.
    metadata_level: int = FIRST_LEVEL
    # ACLs, users, quotas, tokens and policies.
    security: SecurityImage = NO_SECURITY
    # The newest delta of the log that the image contains.
    number: int = 0

    @cached_property
    def topics_by_id(self) -> Mapping[TopicId, TopicImage]:
        return {topic.topic_id: topic for topic in self.topics.values()}

    @cached_property
    def colliding_names(self) -> Mapping[str, str]:
        """The result of `find_colliding_names` for the existing topics."""
        return find_colliding_names(self.topics)

    @cached_property
    def registered(self) -> Mapping[int, BrokerRegistration]:
        """The brokers that are here and those that are away, which Kafka calls fenced. A broker stays registered until
        somebody unregisters it.

        A controller of an earlier version does not write who is away. It keeps the directories, so the id is known;
        the address and the rack are not.
        """
        told = {node_id: BrokerRegistration(node_id, (), directories=ids) for node_id, ids in self.directories.items()}
        return {**told, **self.away, **self.brokers}

    def partition(self, topic: str, index: int) -> PartitionState | None:
        image = self.topics.get(topic)
        return None if image is None else image.partition(index)

    def with_topics(self, topics: Mapping[str, TopicImage]) -> MetadataImage:
        """The image with these topics added, or put in place of topics of the same name."""
        return replace(self, topics={**self.topics, **topics}) if topics else self

    def without_topics(self, names: set[str]) -> MetadataImage:
        if not names:
            return self
        return replace(self, topics={name: topic for name, topic in self.topics.items() if name not in names})


def find_colliding_names(names: Iterable[str]) -> dict[str, str]:
    """Names with a dot or an underscore, by the name with one written as the other."""
    return {name.replace(".", "_"): name for name in names if "." in name or "_" in name}


class ImageDelta(NamedTuple):
    """What a broker has to do about a new image. A topic made anew under its old name is both deleted and created."""

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    # Partitions that existing topics gained.
    added: tuple[TopicPartition, ...]
    # Partitions that were there before with another leader, epoch, in-sync set or replicas.
    changed: tuple[TopicPartition, ...]
    # Topics that were there before with other settings.
    configured: tuple[TopicImage, ...]
    broker_configs_changed: bool
    group_configs_changed: bool
    security_changed: bool = False

    @classmethod
    def between(cls, old: MetadataImage, new: MetadataImage) -> ImageDelta:
        # Unchanged topics are the same objects in both images, so this costs one comparison of identity each.
        pairs = [
            (old.topics.get(name), topic) for name, topic in new.topics.items() if old.topics.get(name) is not topic
        ]
        kept = [(before, after) for before, after in pairs if before and before.topic_id == after.topic_id]
        return cls(
            created=tuple(after for before, after in pairs if not before or before.topic_id != after.topic_id),
            deleted=tuple(topic for topic in old.topics.values() if topic.topic_id not in new.topics_by_id),
            added=tuple(
                TopicPartition(after.name, state.partition)
                for before, after in kept
                for state in after.partitions[len(before.partitions) :]
            ),
            changed=tuple(
                TopicPartition(after.name, state.partition)
                for before, after in kept
                for state, previous in zip(after.partitions, before.partitions, strict=False)
                if state is not previous and state != previous
            ),
            configured=tuple(after for before, after in kept if before.configs != after.configs),
            broker_configs_changed=(
                old.broker_configs != new.broker_configs or old.default_broker_config != new.default_broker_config
            ),
            group_configs_changed=old.group_configs != new.group_configs,
            security_changed=old.security is not new.security and old.security != new.security,
        )
