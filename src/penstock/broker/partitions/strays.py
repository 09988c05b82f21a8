"""Logs on disk that do not belong to this broker any more.

These are the logs of deleted topics, where a crash came before the removal of the files, and the logs of replicas that
moved to other brokers while this broker was away.

A log with another topic's id stays, offline: somebody moved its files, and only a person can identify them. Where other
replicas have the records, a log with an unknown id is removed, too: its topic was deleted and recreated while this
broker was away, or was never created, because the controller died during the creation.

After a restore of the cluster's metadata the image may be older than a topic. So the first start with the restored
image deletes nothing: it sets the logs aside, under another name, and notes the restore in every data directory. Where
a directory lacks the note, because it is new or was unreadable at that start, nothing is deleted either.
"""

from __future__ import annotations

import logging
from collections import Counter

from penstock.cluster.image import MetadataImage
from penstock.core.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.log.directories.data_directory import DataDirectory
from penstock.log.directories.log_directories import LogDirectories

logger = logging.getLogger("penstock.broker.partitions.strays")


def remove_strays(
    directories: LogDirectories, node_id: int, image: MetadataImage, now_ms: int, restoration_id: str = ""
) -> None:
    """`image` has all topics of the cluster. `restoration_id` is the id of the restore that made the image, if
    one did.
    """
    is_first = bool(restoration_id) and any(
        directory.read_restoration() != restoration_id for directory in _usable(directories)
    )
    strays = [each for each, log in directories.logs.items() if _is_stray(node_id, each, log.topic_id, image)]
    what = "setting aside, as -stray," if is_first else "deleting"
    for topic, count in Counter(each.topic for each in strays).items():
        logger.warning("%s the logs of %s (partitions: %d): they are not this broker's any more", what, topic, count)
    directories.delete(strays, None if is_first else now_ms)
    if is_first:
        # A directory that failed meanwhile may still have logs that were to be set aside.
        for directory in _usable(directories):
            try:
                directory.note_restoration(restoration_id)
            except OSError as error:
                directories.take_directory_offline(directory.path, f"noting the restore failed: {error}")


def _usable(directories: LogDirectories) -> list[DataDirectory]:
    return [directory for path, directory in directories.directories.items() if path not in directories.offline]


def _is_stray(node_id: int, topic_partition: TopicPartition, topic_id: TopicId, image: MetadataImage) -> bool:
    state = image.partition(*topic_partition)
    if state is None:
        return True
    if topic_id in (ZERO_TOPIC_ID, image.topics[topic_partition.topic].topic_id):
        return node_id not in state.replicas
    return topic_id not in image.topics_by_id and len(state.replicas) > 1
