"""Loads one log of a data directory with the entries of the directory's checkpoints."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import NamedTuple

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.log.directories.data_directory import DataDirectory
from penstock.log.directories.namesakes import Mark, find_marks
from penstock.log.formats import names
from penstock.log.partition_log import PartitionLog
from penstock.log.recovery.log_loader import LoadRequest, load_log, unreadable_log
from penstock.log.storage.files import Files
from penstock.log.storage.open_files import OpenResources
from penstock.log.storage.scan import CorruptLogError
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)


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
        # A follower's log may have been truncated and written again since the checkpoint, so before the recovery point
        # only the replicated part is known to be durable, because no leader can make a follower truncate it.
        recovery_point=min(directory.recovery_points.get(topic_partition, 0), high_watermark),
        log_start_offset=directory.log_start_offsets.get(topic_partition, 0),
        high_watermark=high_watermark,
        cleaned_end=directory.cleaned_ends.get(topic_partition, 0),
    )


class Entries(NamedTuple):
    """The contents of a data directory."""

    partitions: list[TopicPartition]
    futures: dict[Path, TopicPartition]  # unfinished copies
    deleted: list[str]


def list_entries(directory: DataDirectory, files: Files) -> Entries:
    entries = Entries([], {}, [])
    for name in files.list_directories(directory.path):
        path = f"{directory.path}/{name}"
        if name.endswith(names.DELETE_DIRECTORY):
            entries.deleted.append(path)
        elif (future := names.parse_future_directory(name)) is not None:
            entries.futures[Path(path)] = future
        elif (topic_partition := names.parse_partition_directory(name)) is not None:
            entries.partitions.append(topic_partition)
        else:
            logger.warning("ignoring %s: it is not the log of a partition", path)
    return entries


class LoadedLog(NamedTuple):
    log: PartitionLog
    marks: list[Mark]


def load_partition_log(directory: DataDirectory, request: LoadRequest, delayed_deletes: DelayedDeletes) -> LoadedLog:
    """The log is offline where it is unreadable."""
    marks: list[Mark] = []
    cleaned_end = directory.cleaned_ends.get(request.topic_partition)
    try:
        listing = set(request.resources.files.list_names(request.directory))
        marks = find_marks(directory.path, request.directory, listing)
        if marks and not request.is_clean:  # a clean shutdown has written the files for this log
            request = request._replace(recovery_point=0, log_start_offset=0, high_watermark=0, cleaned_end=0)
            cleaned_end = None
        log = PartitionLog(load_log(request, listing), delayed_deletes, request.now_ms)
    except (OSError, CorruptLogError) as error:
        log = PartitionLog(unreadable_log(request), delayed_deletes, request.now_ms)
        log.go_offline(f"loading: {error}")
    if cleaned_end is not None:
        # Offsets that a power failure took off the end are written again, and then they are dirty.
        log.compaction.cleaned_end = min(cleaned_end, log.log_end_offset)
    if log.offline_reason is None and log.log_end_offset - log.recovery_point >= log.settings.flush_messages:
        # The part that a killed process had not synced. A repeated request gets the answer that the records are there,
        # and coordinators act on them.
        with contextlib.suppress(ApiError):  # then offline, and logged
            log.flushing.flush()
    return LoadedLog(log, marks)
