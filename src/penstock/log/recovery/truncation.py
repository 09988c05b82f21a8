"""Truncates the end of a log: a follower removes records that its leader does not have.

Segments past the cut are removed, the segment that holds the cut becomes the active segment, and the state from the
removed records (producers, transactions, leader epochs) is rebuilt from the remaining records.

The files of the removed segments get other names at once, and a thread removes them: the cut happens on the event loop,
and a gigabyte takes a file system a third of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.log.state.contents import LogContents
from penstock.log.state.replay import rebuild_producer_state
from penstock.log.storage.segment import Segment

# Called with an unused file, and the time from which on it may be removed.
Discard = Callable[[str, int], None]


def truncate_log(contents: LogContents, discard: Discard, offset: int, now_ms: int) -> None:
    """Removes everything at and past `offset`, which lies before the end of the log."""
    if offset < contents.segments.first.base_offset:
        start_over(contents, discard, offset, now_ms)
    else:
        _cut(contents, discard, offset, now_ms)


def _cut(contents: LogContents, discard: Discard, offset: int, now_ms: int) -> None:
    segments, aborted = contents.segments, contents.aborted
    kept_count = segments.index_of(offset) + 1
    gone = list(segments)[kept_count:]
    segments.remove(gone)
    _discard(gone, discard, now_ms)
    aborted.forget([segment.base_offset for segment in gone])
    active = segments.active
    end_offset = active.truncate(offset, now_ms)
    if not aborted.truncate(active.base_offset, offset):
        contents.snapshots.remove_after(active.base_offset)  # so that all of the segment is replayed
        contents.marks.cut(active.base_offset)
    _note_new_end(contents, end_offset)


def start_over(contents: LogContents, discard: Discard, offset: int, now_ms: int) -> None:
    """Removes everything: the log is empty, and its next offset is `offset`, wherever it was."""
    segments = contents.segments
    _discard(segments, discard, now_ms)
    contents.aborted.forget([segment.base_offset for segment in segments])
    segments.replace_all([contents.create_segment(offset, now_ms)])
    contents.log_start_offset = contents.high_watermark = offset
    contents.snapshots.remove_after(-1)
    contents.marks.cut(-1)
    contents.epoch_file.truncate_from_end(0)
    _note_new_end(contents, offset)


def _discard(segments: Iterable[Segment], discard: Discard, now_ms: int) -> None:
    for segment in segments:
        for path in segment.mark_deleted():
            discard(path, now_ms)


def _note_new_end(contents: LogContents, end_offset: int) -> None:
    contents.truncation_count += 1
    contents.log_end_offset = end_offset
    contents.log_start_offset = min(contents.log_start_offset, end_offset)
    contents.high_watermark = min(contents.high_watermark, end_offset)
    contents.recovery_point = min(contents.recovery_point, end_offset)
    contents.snapshots.remove_after(end_offset)
    contents.marks.cut(end_offset)
    contents.epoch_file.truncate_from_end(end_offset)
    rebuild_producer_state(contents)
    contents.producers.note_high_watermark(contents.high_watermark)
