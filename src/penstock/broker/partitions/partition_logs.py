"""Opens logs of partitions that this broker gets, and closes logs that it gives up.

Where a data directory of this broker is missing, an in-sync replica without a log was in that directory. The replica
must not return as an empty replica before others are in sync without it. `LostReplicas` tells the controller, and the
image shows when the controller has counted the replica as lost.
"""

from __future__ import annotations

import logging

from penstock.broker.partitions.partition import Partition
from penstock.cluster.image import PartitionState
from penstock.core.log_settings import LogSettings
from penstock.core.types import ZERO_TOPIC_ID, TopicId, TopicPartition
from penstock.log.directories.log_directories import LogDirectories
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ApiError, ErrorCode

logger = logging.getLogger("penstock.broker.partitions.partitions")


def open_log(
    directories: LogDirectories,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    settings: LogSettings,
    *,
    is_fresh: bool,
) -> PartitionLog | None:
    """The existing log, or a new log; None when the disk refuses it."""
    try:
        return _open_log(directories, topic_partition, topic_id, settings, is_fresh=is_fresh)
    except (ApiError, OSError) as error:
        logger.error("%s is offline: %s", topic_partition, error)
        return None


def _open_log(
    directories: LogDirectories,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    settings: LogSettings,
    *,
    is_fresh: bool,
) -> PartitionLog:
    log = directories.logs.get(topic_partition)
    if log is None:
        if directories.offline and not is_fresh:
            # A new empty log elsewhere would hide the records, and clash with them once the directory is back.
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "its log may be in a data directory that is offline")
        return directories.create(topic_partition, topic_id, settings)
    log.update_settings(settings)
    if log.topic_id == ZERO_TOPIC_ID and log.offline_reason is None:
        log.assign_topic_id(topic_id)
    elif log.topic_id not in (topic_id, ZERO_TOPIC_ID):
        # However the log came there, its records are not this topic's.
        log.go_offline(f"{log.directory} belongs to another topic of the same name; move it away")
    return log


def is_counted_on(node_id: int, state: PartitionState) -> bool:
    """Whether this replica is in sync, and others could do without it."""
    return node_id in state.isr and len(state.replicas) > 1


def retire(directories: LogDirectories, partition: Partition, now_ms: int) -> None:
    """Takes the partition out of service. Waiting requests look again, and find that it is gone."""
    try:
        directories.retire(partition.topic_partition, now_ms)
        leading = partition.leading if partition.suspension is None else partition.suspension.former
        if leading is not None:
            leading.resign()
        partition.wake_all()
    except Exception:  # the other partitions must go nevertheless
        logger.exception("taking %s out of service failed", partition.topic_partition)
