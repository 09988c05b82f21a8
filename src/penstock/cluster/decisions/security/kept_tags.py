"""Tags outlive their topic: a user that may delete a topic and create it again must not remove its tags in that way.

Rules:
- A deleted topic leaves its tags with its name. A topic without tags leaves none.
- A new topic bears the tags of its name, unless its creator names others, which needs the right to.
- Of an existing topic its own tags count alone.
- A user that may change tags can change those of a name without a topic, as if the topic existed. The same change may
  come twice. A name that has no tags any more is as unknown as any other: `client.own_work` handles the clearing whose
  answer was lost.
- At most 10,000 names keep tags. Beyond that a topic with tags is not deleted before somebody clears some: evicting
  others' tags would be a way to remove them.
- Tags of names are stored with the settings of entities. An earlier version passes over them: while it is the
  controller, a deleted topic leaves no tags, and a new topic gets none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from penstock.cluster.image import MetadataImage, Settings, TopicImage
from penstock.cluster.levels import SECURITY_LEVEL
from penstock.cluster.security_image import TAGS, tags_key
from penstock.core.config.keys.authorization import TAGS_KEY
from penstock.protocol.errors import ApiError, ErrorCode

# As many as delegation tokens: all of them are in the memory of each broker and in every snapshot.
MOST_NAMES = 10_000


class Room:
    """For further names, in one request."""

    def __init__(self, image: MetadataImage, most: int = MOST_NAMES) -> None:
        self._image = image
        self._most = most
        self._left: int | None = None  # counted at the first use

    def take(self, topic: TopicImage) -> None:
        """Takes room for the tags of a topic that is to be deleted. Raises ApiError where there is none."""
        entities = self._image.security.entity_configs
        if not topic.configs.get(TAGS_KEY) or self._image.metadata_level < SECURITY_LEVEL:
            return
        if tags_key(topic.name) in entities:
            return
        if self._left is None:
            self._left = self._most - sum(key.startswith(f"{TAGS}/") for key in entities)
        if self._left <= 0:
            raise ApiError(ErrorCode.POLICY_VIOLATION, _NO_ROOM.format(most=self._most, key=TAGS_KEY))
        self._left -= 1


_NO_ROOM = (
    "Tags outlive their topic, and {most} names keep those of deleted topics already: clear some that nobody needs, or "
    "those of this topic, by deleting {key}."
)


def keep_tags(image: MetadataImage, deleted: Iterable[TopicImage]) -> MetadataImage:
    if image.metadata_level < SECURITY_LEVEL:  # there are no policies, and no place for the tags
        return image
    return _with_tags(image, ((topic.name, topic.configs.get(TAGS_KEY, "")) for topic in deleted))


def with_kept_tags(image: MetadataImage, name: str, tags: str) -> MetadataImage:
    """`tags` is the value of the setting; empty, where the name shall have none."""
    return _with_tags(image, [(name, tags)])


def _with_tags(image: MetadataImage, tags_by_name: Iterable[tuple[str, str]]) -> MetadataImage:
    """The entities are copied once, however many names there are."""
    entities = image.security.entity_configs
    changed = {}
    for name, tags in tags_by_name:
        key = tags_key(name)
        if entities.get(key, {}).get(TAGS_KEY, "") != tags:
            changed[key] = MappingProxyType({TAGS_KEY: tags} if tags else {})
    if not changed:
        return image
    kept = {key: settings for key, settings in {**entities, **changed}.items() if settings}
    return replace(image, security=image.security._replace(entity_configs=kept))


def with_tags_of_name(image: MetadataImage, name: str, configs: Settings) -> Settings:
    """The settings of a new topic."""
    kept = image.security.entity_configs.get(tags_key(name))
    return configs if kept is None or TAGS_KEY in configs else MappingProxyType({**configs, **kept})
