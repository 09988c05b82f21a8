"""The cluster's metadata as an immutable value, and the differences between two images.

The broker serves every request from one image. The controller makes the next image; no image ever changes in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from penstock.cluster.levels import FIRST_LEVEL, LevelRange
from penstock.cluster.security_image import NO_SECURITY, SecurityImage, tags_key
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
    # Rises with every registration of any broker: distinguishes a restarted broker from its former registration.
    epoch: int = 0
    # The epoch in which its logs were closed: where that was its last epoch, nothing was lost. -1: not known.
    previous_epoch: int = -1
    # A controlled shutdown is in progress: the broker gets no new leaderships.
    is_stopping: bool = False
    # The levels of the metadata that its version knows.
    levels: LevelRange = LevelRange(FIRST_LEVEL, FIRST_LEVEL)
    # The ids of its data directories, and whether they had no log at its start.
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
    # Groups with settings of their own; only the coordinator knows whether such a group exists.
    group_configs: Mapping[str, Settings] = field(default_factory=dict)
    # The data directories of each registered broker that named them, by its last registration, also while it is away.
    directories: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    # Registered brokers that are away, by their last registration. See `registered`.
    away: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    # The format of the metadata.
    metadata_level: int = FIRST_LEVEL
    # ACLs, users, quotas, tokens and policies.
    security: SecurityImage = NO_SECURITY
    # The newest delta of the log in the image.
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

        A controller of an earlier version does not store absent brokers. It keeps the directories, so the id is known;
        the address and the rack are not.
        """
        told = {node_id: BrokerRegistration(node_id, (), directories=ids) for node_id, ids in self.directories.items()}
        return {**told, **self.away, **self.brokers}

    def partition(self, topic: str, index: int) -> PartitionState | None:
        image = self.topics.get(topic)
        return None if image is None else image.partition(index)

    def with_topics(self, topics: Mapping[str, TopicImage]) -> MetadataImage:
        """The image with these topics added, or in the place of topics with the same name."""
        return replace(self, topics={**self.topics, **topics}) if topics else self

    def without_topics(self, names: set[str]) -> MetadataImage:
        if not names:
            return self
        return replace(self, topics={name: topic for name, topic in self.topics.items() if name not in names})


def settings_with_tags(image: MetadataImage, name: str) -> Settings:
    """The settings of a topic with its tags. For a name without a topic, the tags alone that are kept for the name."""
    topic = image.topics.get(name)
    return image.security.entity_configs.get(tags_key(name), _NO_SETTINGS) if topic is None else topic.configs


def find_colliding_names(names: Iterable[str]) -> dict[str, str]:
    """Names with a dot or an underscore, by the name with all of them as underscores."""
    return {name.replace(".", "_"): name for name in names if "." in name or "_" in name}


class ImageDelta(NamedTuple):
    """The work of a broker for a new image. A topic that was recreated under its old name is both deleted and
    created.
    """

    created: tuple[TopicImage, ...]
    deleted: tuple[TopicImage, ...]
    # Partitions that existing topics gained.
    added: tuple[TopicPartition, ...]
    # Existing partitions with another leader, epoch, in-sync set or replicas.
    changed: tuple[TopicPartition, ...]
    # Existing topics with other settings.
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
