"""Logs that are on the disk and not this broker's any more.

These are the logs of topics that were deleted, where a crash came before the removal of the files, and of replicas that
moved to other brokers while this one was away.

A log with another topic's id stays, offline: somebody moved its files, and only a person can say what they are. Where
other replicas have the records, a log whose id nobody knows goes, too: its topic was deleted and made anew while this
broker was away, or was never made, because the controller died over it.
"""

from __future__ import annotations

import logging
from collections import Counter

from penstock.cluster.image import MetadataImage
from penstock.core.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.log.directories.log_directories import LogDirectories

logger = logging.getLogger("penstock.broker.partitions.strays")


def remove_strays(directories: LogDirectories, node_id: int, image: MetadataImage, now_ms: int | None) -> None:
    """`image` has all topics of the cluster. Without a time the files are kept, under another name."""
    strays = [each for each, log in directories.logs.items() if _is_stray(node_id, each, log.topic_id, image)]
    what = "setting aside, as -stray," if now_ms is None else "deleting"
    for topic, count in Counter(each.topic for each in strays).items():
        logger.warning("%s the logs of %s (partitions: %d): they are not this broker's any more", what, topic, count)
    directories.delete(strays, now_ms)


def _is_stray(node_id: int, topic_partition: TopicPartition, topic_id: TopicId, image: MetadataImage) -> bool:
    state = image.partition(*topic_partition)
    if state is None:
        return True
    if topic_id in (ZERO_TOPIC_ID, image.topics[topic_partition.topic].topic_id):
        return node_id not in state.replicas
    return topic_id not in image.topics_by_id and len(state.replicas) > 1
