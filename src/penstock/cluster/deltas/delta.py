"""The difference between two metadata images, and the replay of a difference on an image.

Rules:
- A delta holds whole values: all of a new topic, all of a changed partition's state, all settings of a resource. So an
  image that contains a delta already, or a later delta, ends up the same when the deltas are replayed in order. A load
  relies on that where it reads nodes: its reads are not made at one moment. From `SNAPSHOT_LEVEL` on no broker loads
  from nodes, and the added and removed ACLs of a resource are enough.
- A delta names a topic by name and id. A topic that was deleted meanwhile, or recreated, is left alone.
- Unchanged topics are the same objects in both images. `difference` costs one comparison of identity for each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from penstock.cluster.deltas.draft import MappingDraft
from penstock.cluster.deltas.security import SecurityDelta, SecurityReplay, security_difference
from penstock.cluster.image import BrokerRegistration, MetadataImage, PartitionState, Settings, TopicImage
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.core.types import TopicId

_Key = TypeVar("_Key", int, str)

NO_SETTINGS: Mapping[int, Settings] = MappingProxyType({})
NO_GROUP_SETTINGS: Mapping[str, Settings] = MappingProxyType({})


class DeletedTopic(NamedTuple):
    name: str
    topic_id: TopicId
    partition_count: int


class TopicChange(NamedTuple):
    """The changes of a topic that stays."""

    name: str
    topic_id: TopicId
    partitions_before: int
    # The whole states of the changed and the added partitions, in the order of their numbers.
    states: tuple[PartitionState, ...] = ()
    # A partition was added, or has other replicas than before.
    is_reassigned: bool = False
    # All settings of the topic, where they changed.
    configs: Settings | None = None


class Delta(NamedTuple):
    number: int
    # Distinguishes a change from another change under the same number.
    unique_id: str
    controller_id: int
    controller_epoch: int
    # All brokers, where a broker came, went or changed.
    brokers: Mapping[int, BrokerRegistration] | None = None
    deleted: tuple[DeletedTopic, ...] = ()
    created: tuple[TopicImage, ...] = ()
    changed: tuple[TopicChange, ...] = ()
    # The settings of changed resources; empty settings mean that none are left.
    broker_configs: Mapping[int, Settings] = NO_SETTINGS
    default_broker_config: Settings | None = None
    group_configs: Mapping[str, Settings] = NO_GROUP_SETTINGS
    # The groups among them that had no settings before.
    new_groups: tuple[str, ...] = ()
    # The level from here on, where it rises.
    metadata_level: int | None = None
    # The directories of all brokers, where those of a broker changed.
    directories: Mapping[int, tuple[str, ...]] | None = None
    security: SecurityDelta | None = None
    # All registered brokers that are away, where a broker came, went or was unregistered.
    away: Mapping[int, BrokerRegistration] | None = None


def difference(old: MetadataImage, new: MetadataImage, unique_id: str = "") -> Delta | None:
    """None where the images differ in nothing but their numbers. A topic of the same id never loses partitions."""
    pairs = [(old.topics.get(name), topic) for name, topic in new.topics.items() if old.topics.get(name) is not topic]
    groups = _changed_settings(old.group_configs, new.group_configs)
    changes = (_topic_change(before, after) for before, after in pairs if before and before.topic_id == after.topic_id)
    delta = Delta(
        old.number + 1,
        unique_id,
        new.controller_id,
        new.controller_epoch,
        brokers=None if old.brokers == new.brokers else new.brokers,
        deleted=tuple(
            DeletedTopic(name, topic.topic_id, len(topic.partitions))
            for name, topic in old.topics.items()
            if name not in new.topics or new.topics[name].topic_id != topic.topic_id
        ),
        created=tuple(after for before, after in pairs if not before or before.topic_id != after.topic_id),
        changed=tuple(change for change in changes if change is not None),
        broker_configs=_changed_settings(old.broker_configs, new.broker_configs),
        default_broker_config=(
            None if old.default_broker_config == new.default_broker_config else new.default_broker_config
        ),
        group_configs=groups,
        new_groups=tuple(group for group in groups if group not in old.group_configs),
        metadata_level=None if old.metadata_level == new.metadata_level else new.metadata_level,
        directories=None if old.directories == new.directories else new.directories,
        security=security_difference(old.security, new.security, has_nodes=new.metadata_level < SNAPSHOT_LEVEL),
        away=None if old.away == new.away else new.away,
    )
    is_same_controller = (old.controller_id, old.controller_epoch) == (new.controller_id, new.controller_epoch)
    return None if is_same_controller and delta[4:] == _NOTHING[4:] else delta


def replay(image: MetadataImage, delta: Delta) -> MetadataImage:
    """The image after the delta. Raises ValueError when the delta cannot follow on such an image."""
    replayed = Replay(image)
    replayed.follow(delta)
    return replayed.image


class Replay:
    """An image during the replay of many deltas. Each delta costs as much as it changes, but for the first copy of a
    changed mapping: of 100,000 resources with ACLs, or of a topic's partitions.
    """

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._fields: dict[str, Any] = {}
        self._topics = _TopicsReplay(image.topics)
        self._broker_configs = MappingDraft(image.broker_configs)
        self._group_configs = MappingDraft(image.group_configs)
        self._security: SecurityReplay | None = None

    def follow(self, delta: Delta) -> None:
        """Raises ValueError when the delta cannot follow. Then the replay is of no use any more."""
        names = ("controller_id", "controller_epoch", "number", *_REPLACED)
        self._fields |= {name: value for name in names if (value := getattr(delta, name)) is not None}
        self._topics.follow(delta)
        self._broker_configs.put(delta.broker_configs)
        self._group_configs.put(delta.group_configs)
        if delta.security is not None:
            self._security = self._security or SecurityReplay(self._image.security)
            self._security.follow(delta.security)

    @property
    def image(self) -> MetadataImage:
        return replace(
            self._image,
            **self._fields,
            topics=self._topics.topics,
            broker_configs=self._broker_configs.values,
            group_configs=self._group_configs.values,
            security=self._image.security if self._security is None else self._security.image,
        )


# Fields of the image that a delta has as a whole, where they change.
_REPLACED = ("brokers", "default_broker_config", "metadata_level", "directories", "away")
_NOTHING = Delta(0, "", 0, 0)


def _topic_change(before: TopicImage, after: TopicImage) -> TopicChange | None:
    count = len(before.partitions)
    assert len(after.partitions) >= count, "partitions never go while their topic stays"
    states = tuple(
        state
        for state in after.partitions
        if state.partition >= count
        or (before.partitions[state.partition] is not state and before.partitions[state.partition] != state)
    )
    is_reassigned = any(
        state.partition >= count or _assignment(before.partitions[state.partition]) != _assignment(state)
        for state in states
    )
    configs = None if before.configs == after.configs else after.configs
    if not states and configs is None:
        return None
    return TopicChange(after.name, after.topic_id, count, states, is_reassigned, configs)


def _assignment(state: PartitionState) -> tuple[tuple[int, ...], ...]:
    return state.replicas, state.adding, state.removing


class _TopicsReplay:
    def __init__(self, topics: Mapping[str, TopicImage]) -> None:
        self._topics = MappingDraft(topics)
        # The topics whose partitions changed since they were last put into `_topics`.
        self._states: dict[str, list[PartitionState]] = {}

    def follow(self, delta: Delta) -> None:
        for gone in delta.deleted:
            if self._find(gone.name, gone.topic_id) is not None:
                self._states.pop(gone.name, None)
                self._topics.remove(gone.name)
        for topic in delta.created:
            self._states.pop(topic.name, None)
        self._topics.put({topic.name: topic for topic in delta.created})
        for change in delta.changed:
            present = self._find(change.name, change.topic_id)
            if present is not None:
                self._change(present, change)

    def _find(self, name: str, topic_id: TopicId) -> TopicImage | None:
        topic = self._topics.values.get(name)
        return topic if topic is not None and topic.topic_id == topic_id else None

    def _change(self, topic: TopicImage, change: TopicChange) -> None:
        states = self._states.get(topic.name)
        if states is None:
            states = self._states[topic.name] = list(topic.partitions)
        for state in change.states:
            if state.partition < len(states):
                states[state.partition] = state
            elif state.partition == len(states):
                states.append(state)
            else:
                raise ValueError(f"{topic.name} has {len(states)} partitions, partition {state.partition} cannot come")
        if change.configs is not None:
            self._topics.put({topic.name: topic._replace(configs=change.configs)})

    @property
    def topics(self) -> Mapping[str, TopicImage]:
        present = self._topics.values
        self._topics.put(
            {name: present[name]._replace(partitions=tuple(states)) for name, states in self._states.items()}
        )
        self._states.clear()
        return self._topics.values


def _changed_settings(old: Mapping[_Key, Settings], new: Mapping[_Key, Settings]) -> Mapping[_Key, Settings]:
    if old is new or old == new:
        return MappingProxyType({})
    changed: dict[_Key, Settings] = {key: MappingProxyType({}) for key in old if key not in new}
    changed |= {key: settings for key, settings in new.items() if old.get(key, {}) != settings}
    return changed
