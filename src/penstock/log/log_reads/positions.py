"""Finds the position of an offset or a timestamp in the files. Changes nothing in the log."""

from __future__ import annotations

import logging
from typing import NamedTuple

from penstock.core.types import NO_TIMESTAMP
from penstock.log.log_reads.first_read import check_first_read
from penstock.log.storage.files import FileSlice
from penstock.log.storage.scan import read_batch
from penstock.log.storage.segment import Segment
from penstock.log.storage.segments import Segments
from penstock.protocol.batch import LOG_OVERHEAD, BatchHeader
from penstock.protocol.errors import ApiError
from penstock.protocol.records import iterate_records

logger = logging.getLogger(__name__)


class TimestampedOffset(NamedTuple):
    offset: int
    timestamp: int
    leader_epoch: int


def read_slice(
    segments: Segments, offset: int, max_bytes: int, limit_offset: int, log_end_offset: int, at_least_one: bool
) -> FileSlice | None:
    """A slice that begins with the batch that holds `offset` and ends before the batch that holds `limit_offset`.

    Costs as much as the search for the first batch (4 us at the tail, 25 us elsewhere when batches are small), whatever
    the size: the end needs no search when the limit is the end of the log. files.py has the reason against mmap. Shown
    by the consume rows of `make bench`.
    """
    if offset >= limit_offset:
        return None
    index = segments.index_of(offset)
    while (segment := segments.at(index)) is not None:
        batch = segment.find_batch(offset)
        if batch is not None:
            position, header = batch
            end = _end_position(segments, index, segment, limit_offset, log_end_offset)
            batch_size = header.batch_length + LOG_OVERHEAD
            if position + batch_size > end or (batch_size > max_bytes and not at_least_one):
                return None
            size = min(end - position, max(max_bytes, batch_size))
            if position < segment.unchecked_end:
                check_first_read(segment, position, size, segments.end_offset_of(index, log_end_offset))
            return FileSlice(segment.open_file(), position, size)
        # Compaction may leave a segment that ends before the next one begins.
        index += 1
    return None


def _end_position(segments: Segments, index: int, segment: Segment, limit_offset: int, log_end_offset: int) -> int:
    if limit_offset >= segments.end_offset_of(index, log_end_offset):
        return segment.size
    batch = segment.find_batch(limit_offset)
    return segment.size if batch is None else batch[0]


def find_end_offset(segments: Segments, offset: int, records: FileSlice, log_end_offset: int) -> int:
    """An offset that no record of the slice `records`, which was read from `offset` on, reaches. The index gives it, so
    the offset may lie a few batches past the end of the slice.
    """
    index = segments.index_of(offset)
    while (segment := segments.at(index)) is not None:
        if segment.log_file.path == records.file.path:
            end = segment.find_end_offset(records.position + records.size)
            return segments.end_offset_of(index, log_end_offset) if end is None else end
        index += 1
    return log_end_offset


def find_by_timestamp(segments: Segments, timestamp: int, log_start_offset: int) -> TimestampedOffset | None:
    """The first record at least as new as `timestamp`, not before the log start."""
    for segment in segments:
        if segment.size == 0 or segment.max_timestamp() < timestamp:
            continue
        start = max(segment.find_offset_before(timestamp), log_start_offset)
        for position, header in segment.scan_from(start):
            if header.max_timestamp >= timestamp:
                record = _find_in_batch(segment, position, header, timestamp, log_start_offset)
                if record is not None:
                    return record
    return None


def find_max_timestamp(segments: Segments) -> TimestampedOffset | None:
    """The newest record; the first of them when several have its timestamp."""
    newest: Segment | None = None
    for segment in segments:
        timestamp = segment.max_timestamp()
        if timestamp > (NO_TIMESTAMP if newest is None else newest.max_timestamp()):
            newest = segment
    if newest is None:
        return None
    for position, header in newest.scan_from(newest.offset_of_max_timestamp()):
        if header.max_timestamp == newest.max_timestamp():
            return _find_in_batch(newest, position, header, header.max_timestamp, 0)
    return None


def _find_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    if header.is_log_append_time:
        # Every record has the batch's time, so the batch need not be opened.
        offset = max(header.base_offset, start_offset)
        return (
            TimestampedOffset(offset, header.max_timestamp, header.leader_epoch)
            if offset <= header.last_offset
            else None
        )
    try:
        for record in iterate_records(read_batch(segment.open_file(), position, header)):
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampedOffset(record.offset, record.timestamp, header.leader_epoch)
    except ApiError as error:
        # The checksum holds, so the producer sent these bytes: nonsense that was stored unopened. Its batch is still a
        # right answer, only a coarser one.
        logger.warning("cannot look into the batch at position %d of %s: %s", position, segment.log_file.path, error)
        return TimestampedOffset(max(header.base_offset, start_offset), header.max_timestamp, header.leader_epoch)
    return None
