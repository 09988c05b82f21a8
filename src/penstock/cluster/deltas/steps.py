"""Splits the way from one metadata image to another into steps, each small enough for one delta.

A controller may stop after any step: it is killed, or the store refuses the next step. So the next controller must be
able to continue from each image on the way:

- Settings and security come with the first step: decisions about topics rest on them. From `SNAPSHOT_LEVEL` on ACLs may
  take several steps, in their order, before all decisions about topics.
- Topics follow. A topic is created, deleted or recreated in one step. Of a topic that stays, the states change in the
  order of their numbers, so that new partitions have no gap.
- The brokers, here or away, their directories and the level of the metadata come with the last step. A controller that
  finds the old brokers decides about them again. The other way round, a broker that came back without a clean shutdown
  would pass for a broker that was here all the time, in every partition without a decision yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.deltas.security import changed_rules
from penstock.cluster.image import MetadataImage, TopicImage
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.cluster.security_image import SecurityImage
from penstock.security.acls.types import AclEntry

# Fields of the image that change with the last step.
LAST = ("brokers", "away", "directories", "metadata_level")


class _Piece(NamedTuple):
    """A topic after a part of its change; None where it is deleted."""

    name: str
    topic: TopicImage | None
    partition_count: int  # the number of partitions in the part


def steps(old: MetadataImage, new: MetadataImage, most: int) -> list[MetadataImage]:
    """The image after each step, at least one; the last is `new`. A step concerns no more than `most` partitions or
    ACLs, except for a step in which a single topic is created or deleted.
    """
    images: list[MetadataImage] = []
    if new.metadata_level >= SNAPSHOT_LEVEL:
        images += [
            replace(_on_the_way(old, new, dict(old.topics)), security=security)
            for security in _securities(old.security, new.security, most)
        ]
    topics, count = dict(old.topics), 0
    for piece in _pieces(old, new, most):
        if count and count + piece.partition_count > most:
            images.append(_on_the_way(old, new, topics))
            topics, count = dict(topics), 0
        if piece.topic is None:
            del topics[piece.name]
        else:
            topics[piece.name] = piece.topic
        count += piece.partition_count
    return [*images, new]


def _on_the_way(old: MetadataImage, new: MetadataImage, topics: dict[str, TopicImage]) -> MetadataImage:
    return replace(new, topics=topics, **{name: getattr(old, name) for name in LAST})


def _pieces(old: MetadataImage, new: MetadataImage, most: int) -> Iterator[_Piece]:
    for name, topic in old.topics.items():
        if name not in new.topics:
            yield _Piece(name, None, len(topic.partitions))
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is topic:
            continue
        if before is None or before.topic_id != topic.topic_id:
            yield _Piece(name, topic, len(topic.partitions) + (0 if before is None else len(before.partitions)))
        else:
            yield from _pieces_of(before, topic, most)


def _pieces_of(before: TopicImage, after: TopicImage, most: int) -> Iterator[_Piece]:
    count = len(before.partitions)
    changed = [
        index for index, state in enumerate(after.partitions) if index >= count or before.partitions[index] is not state
    ]
    for first in range(0, len(changed), most):
        last = changed[first : first + most]
        end = last[-1] + 1
        partitions = after.partitions[:end] + before.partitions[end:]
        yield _Piece(after.name, after._replace(partitions=partitions), len(last))
    if not changed:
        yield _Piece(after.name, after, 1)


def _securities(old: SecurityImage, new: SecurityImage, most: int) -> Iterator[SecurityImage]:
    """The security on the way from the first to the second, without the last."""
    if old.acls is new.acls:
        return
    acls, count = dict(old.acls), 0
    for resource in {**old.acls, **new.acls}:
        before, after = old.acls.get(resource, ()), new.acls.get(resource, ())
        for entries, changed in _rules_on_the_way(before, after, most) if before != after else ():
            if count and count + changed > most:
                yield new._replace(acls=acls)
                acls, count = dict(acls), 0
            acls[resource] = entries
            if not entries:
                del acls[resource]
            count += changed


def _rules_on_the_way(
    before: tuple[AclEntry, ...], after: tuple[AclEntry, ...], most: int
) -> Iterator[tuple[tuple[AclEntry, ...], int]]:
    """The ACLs of a resource after each part of a change, and the number of ACLs in the part. The last are `after`."""
    change = changed_rules(before, after)
    if change is None or not after:  # they come and go as a whole
        yield after, max(1, len(after))
        return
    present = before
    for start in range(0, len(change.go), most):
        gone = set(change.go[start : start + most])
        present = tuple(entry for entry in present if entry not in gone)
        yield present, len(gone)
    for start in range(0, len(change.come), most):
        come = change.come[start : start + most]
        present += come
        yield present, len(come)
