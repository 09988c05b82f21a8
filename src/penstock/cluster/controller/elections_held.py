"""The number of leaders that a change of the metadata elects, for the controller's metrics. Pure."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cluster.image import NO_LEADER, MetadataImage, PartitionState


class ElectionsHeld(NamedTuple):
    total: int
    unclean: int  # of these, leaders that were not in sync


def count_elections(old: MetadataImage, new: MetadataImage) -> ElectionsHeld:
    """Counts the elections of existing partitions: the first leader of a new partition is no election. Costs one
    comparison of identity for each topic that did not change.
    """
    count = unclean = 0
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        if before is None or before is topic or before.topic_id != topic.topic_id:
            continue
        for was, now in zip(before.partitions, topic.partitions, strict=False):
            if now.leader not in (NO_LEADER, was.leader):
                count += 1
                unclean += _is_unclean(was, now, new)
    return ElectionsHeld(count, unclean)


def _is_unclean(was: PartitionState, now: PartitionState, image: MetadataImage) -> bool:
    """A leader that leaves at the end of a move, and is alive, has vouched for its successor in the same change."""
    has_vouched = was.leader in was.removing and was.leader in image.brokers
    return now.leader not in was.isr and not has_vouched
