"""The newest image with placeholders where the picture of the metadata is in doubt ("blurred").

The picture is drawn again where the blurred image and the newest image differ (`picture_operations`). So a controller
that does not know the drawn nodes, because a controller died or because another program has changed nodes, blurs these
and draws. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from penstock.cluster.deltas.delta import DeletedTopic, Delta, TopicChange
from penstock.cluster.deltas.security import SecurityDelta
from penstock.cluster.image import MetadataImage, PartitionState, Settings, TopicImage
from penstock.cluster.levels import FIRST_LEVEL
from penstock.security.acls.types import AclEntry, Operation, Permission

# Values that no image has.
_SETTINGS: Settings = MappingProxyType({"": "blurred"})
_RULES = (AclEntry("", "", Operation.UNKNOWN, Permission.UNKNOWN),)
_STATE = PartitionState(0, (), (), -1)


def blurred_by(image: MetadataImage, deltas: Iterable[Delta]) -> MetadataImage:
    """The image, which contains the deltas, blurred where they concern it."""
    blurred = Blurred(image)
    blurred.blur_deltas(deltas)
    return blurred.image


class Blurred:
    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._topics = dict(image.topics)
        self._settings: dict[str, dict[Any, Settings]] = {}
        self._security: dict[str, dict[Any, Any]] = {}
        self._fields: dict[str, Any] = {}

    @property
    def image(self) -> MetadataImage:
        fields: dict[str, Any] = dict(self._fields)
        for field, values in self._settings.items():
            fields[field] = {**getattr(self._image, field), **values}
        security = self._image.security
        security = security._replace(
            **{field: {**getattr(security, field), **values} for field, values in self._security.items()}
        )
        return replace(self._image, topics=self._topics, security=security, **fields)

    def blur_deltas(self, deltas: Iterable[Delta]) -> None:
        """Blurs everything that the deltas concern. The image contains the deltas."""
        for delta in deltas:
            for gone in delta.deleted:
                self._blur_deleted(gone)
            for topic in delta.created:
                self._blur_created(topic)
            for change in delta.changed:
                self._blur_changed(change)
            for node_id in delta.broker_configs:
                self.blur_settings("broker_configs", node_id)
            for group in delta.group_configs:
                self.blur_settings("group_configs", group)
            if delta.default_broker_config is not None:
                self.blur_default_config()
            if delta.metadata_level is not None:
                self.blur_level()
            if delta.security is not None:
                self._blur_security_delta(delta.security)

    def blur_topic(self, name: str) -> None:
        """Nothing of the topic may be drawn."""
        del self._topics[name]

    def blur_topic_config(self, name: str) -> None:
        if name in self._topics:
            self._topics[name] = self._topics[name]._replace(configs=_SETTINGS)

    def blur_settings(self, field: str, key: int | str) -> None:
        """Blurs the settings of a broker or a group."""
        self._settings.setdefault(field, {})[key] = _SETTINGS

    def blur_default_config(self) -> None:
        self._fields["default_broker_config"] = _SETTINGS

    def blur_level(self) -> None:
        self._fields["metadata_level"] = FIRST_LEVEL

    def blur_security(self, field: str, key: Any) -> None:
        self._security.setdefault(field, {})[key] = _RULES if field == "acls" else _SETTINGS

    def _blur_deleted(self, gone: DeletedTopic) -> None:
        """The nodes of a deleted topic may still exist, also beside those of its successor."""
        present = self._image.topics.get(gone.name)
        if present is None or present.topic_id != gone.topic_id:
            states = tuple(_STATE._replace(partition=index) for index in range(gone.partition_count))
            before = self._topics.get(gone.name)
            if before is None or len(before.partitions) < gone.partition_count or before is present:
                self._topics[gone.name] = TopicImage(gone.name, gone.topic_id, states)

    def _blur_created(self, topic: TopicImage) -> None:
        if self._is_same(topic.name, topic.topic_id):
            self.blur_topic(topic.name)

    def _blur_changed(self, change: TopicChange) -> None:
        if not self._is_same(change.name, change.topic_id):
            return
        topic = self._topics[change.name]
        states = list(topic.partitions)
        for state in change.states:
            if state.partition >= len(states):  # another program wrote the delta
                continue
            blurred = states[state.partition]._replace(leader_epoch=-1)
            states[state.partition] = blurred._replace(replicas=()) if change.is_reassigned else blurred
        self._topics[change.name] = topic._replace(
            partitions=tuple(states), configs=topic.configs if change.configs is None else _SETTINGS
        )

    def _is_same(self, name: str, topic_id: bytes) -> bool:
        """Whether the image has this topic, and is not blurred as a whole there."""
        present = self._image.topics.get(name)
        blurred = self._topics.get(name)
        return (
            present is not None
            and blurred is not None
            and present.topic_id == topic_id
            and blurred.topic_id == topic_id
        )

    def _blur_security_delta(self, delta: SecurityDelta) -> None:
        for resource in (*delta.acls, *delta.acls_added, *delta.acls_removed):
            self.blur_security("acls", resource)
        for field in ("entity_configs", "tokens", "policies"):
            for key in getattr(delta, field):
                self.blur_security(field, key)
