"""Removes segments from a log by retention, or because the log start offset has passed them.

The log start moves first, so that no reader is sent to a segment that is being removed. The files stay for
file.delete.delay.ms under another name.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from penstock.log.state.contents import LogContents
from penstock.log.storage.segments import Segments
from penstock.log.upkeep.delayed_deletes import DelayedDeletes
from penstock.log.upkeep.retention import Deletion, DeletionReason, SegmentFacts, plan_deletions

logger = logging.getLogger(__name__)


class DeletedSegment(NamedTuple):
    base_offset: int
    size: int
    reason: DeletionReason


def apply_retention(
    contents: LogContents, delayed_deletes: DelayedDeletes, now_ms: int, most: int | None = None
) -> list[DeletedSegment]:
    deletions = plan_deletions(
        _describe(contents.segments, contents.log_end_offset),
        contents.log_start_offset,
        contents.high_watermark,
        contents.settings,
        now_ms,
    )[:most]
    return _delete(contents, deletions, delayed_deletes, now_ms) if deletions else []


def _describe(segments: Segments, log_end_offset: int) -> list[SegmentFacts]:
    return [
        SegmentFacts(
            base_offset=segment.base_offset,
            end_offset=segments.end_offset_of(index, log_end_offset),
            size=segment.size,
            is_active=segment is segments.active,
            largest_timestamp=segment.age_timestamp,
        )
        for index, segment in enumerate(segments)
    ]


def _delete(
    contents: LogContents, deletions: list[Deletion], delayed_deletes: DelayedDeletes, now_ms: int
) -> list[DeletedSegment]:
    segments = contents.segments
    if len(deletions) == len(segments):
        contents.roll(contents.log_end_offset, now_ms)
    reasons = {deletion.base_offset: deletion.reason for deletion in deletions}
    gone = [segment for segment in segments if segment.base_offset in reasons]
    segments.remove(gone)
    contents.advance_log_start(segments.first.base_offset)
    due_ms = now_ms + contents.settings.file_delete_delay_ms
    deleted = []
    for segment in gone:
        for path in segment.mark_deleted():
            delayed_deletes.add(path, due_ms)
        reason = reasons[segment.base_offset]
        logger.info("partition %s drops segment %d: %s", contents.topic_partition, segment.base_offset, reason.value)
        deleted.append(DeletedSegment(segment.base_offset, segment.size, reason))
    for path in contents.snapshots.mark_deleted_at([segment.base_offset for segment in gone]):
        delayed_deletes.add(path, due_ms)
    contents.aborted.forget([segment.base_offset for segment in gone])
    return deleted
