"""One log of a data directory, read back with what the directory's checkpoints say of it."""

from __future__ import annotations

import contextlib

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.log.directories.data_directory import DataDirectory
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog
from penstock.log.recovery.loading import LoadRequest, load_log, unreadable_log
from penstock.log.storage.open_files import OpenResources
from penstock.log.storage.scan import CorruptLogError
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.protocol.errors import ApiError


def request_log(
    directory: DataDirectory,
    topic_partition: TopicPartition,
    settings: LogSettings,
    resources: OpenResources,
    now_ms: int,
) -> LoadRequest:
    high_watermark = directory.high_watermarks.get(topic_partition, 0)
    return LoadRequest(
        topic_partition=topic_partition,
        directory=f"{directory.path}/{names.partition_directory(topic_partition)}",
        settings=settings,
        resources=resources,
        now_ms=now_ms,
        is_clean=directory.was_clean,
        # A follower's log may have been cut and written again since the checkpoint, so of what lies before the recovery
        # point only that is known to be durable which no leader can ask a follower to cut: it was replicated.
        recovery_point=min(directory.recovery_points.get(topic_partition, 0), high_watermark),
        log_start_offset=directory.log_start_offsets.get(topic_partition, 0),
        high_watermark=high_watermark,
        cleaned_end=directory.cleaned_ends.get(topic_partition, 0),
    )


def load_partition_log(directory: DataDirectory, request: LoadRequest, delayed_deletes: DelayedDeletes) -> PartitionLog:
    """Offline where it cannot be read."""
    try:
        log = PartitionLog(load_log(request), delayed_deletes, request.now_ms)
    except (OSError, CorruptLogError) as error:
        log = PartitionLog(unreadable_log(request), delayed_deletes, request.now_ms)
        log.go_offline(f"loading: {error}")
    cleaned_end = directory.cleaned_ends.get(request.topic_partition)
    if cleaned_end is not None:
        # What a power failure took off the end is written anew, and then it is dirty.
        log.compaction.cleaned_end = min(cleaned_end, log.log_end_offset)
    if log.offline_reason is None and log.log_end_offset - log.recovery_point >= log.settings.flush_messages:
        # What a process that was killed had not synced. Clients that ask again are told that it is there, and
        # coordinators act on it.
        with contextlib.suppress(ApiError):  # offline then, and logged
            log.flushing.flush()
    return log
