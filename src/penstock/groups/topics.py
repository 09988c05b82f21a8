"""The topics that exist, as far as groups care: names, ids and how many partitions. The broker hands over a new value
whenever that changes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from penstock.core.types import TopicId


class TopicIdPartition(NamedTuple):
    topic_id: TopicId
    partition: int


class Topic(NamedTuple):
    name: str
    topic_id: TopicId
    partition_count: int


class Topics(NamedTuple):
    by_name: Mapping[str, Topic] = MappingProxyType({})
    by_id: Mapping[TopicId, Topic] = MappingProxyType({})
    version: int = 0  # larger with every change

    @classmethod
    def of(cls, topics: Iterable[Topic], version: int = 0) -> Topics:
        known = tuple(topics)
        return cls({topic.name: topic for topic in known}, {topic.topic_id: topic for topic in known}, version)

    def ids(self, names: Iterable[str]) -> frozenset[TopicId]:
        """Of those that exist."""
        return frozenset(topic.topic_id for name in names if (topic := self.by_name.get(name)) is not None)

    def partitions(self, topic_ids: Iterable[TopicId]) -> Iterator[TopicIdPartition]:
        for topic_id in topic_ids:
            for partition in range(self.by_id[topic_id].partition_count):
                yield TopicIdPartition(topic_id, partition)

    def digest(self, names: Iterable[str]) -> int:
        """Another number whenever a topic of these is created, deleted, made anew or gets partitions. Kafka records
        such a number, too, made in another way; a group that moves between the two is assigned anew, once.
        """
        existing = sorted(topic for name in names if (topic := self.by_name.get(name)) is not None)
        if not existing:
            return 0
        text = b"".join(b"%s\0%s%d\0" % (name.encode(), topic_id, count) for name, topic_id, count in existing)
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big", signed=True)


def changed_names(old: Topics, new: Topics) -> frozenset[str]:
    return frozenset(
        name for name in old.by_name.keys() | new.by_name.keys() if old.by_name.get(name) != new.by_name.get(name)
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[TopicId, list[int]]:
    """In order, so that equal sets are written alike."""
    grouped: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return grouped
