"""Cutting the end off a log: what a follower does with records that its leader does not have.

Segments past the cut go with their files, the segment that holds it becomes the active one, and everything that was
learned from the records that are gone (producers, transactions, leader epochs) is learned anew from those that stay.
"""

from __future__ import annotations

from penstock.log.state.contents import LogContents
from penstock.log.state.replay import rebuild_producer_state


def truncate_log(contents: LogContents, offset: int, now_ms: int) -> None:
    """Forget everything at and past `offset`, which lies before the end of the log."""
    if offset < contents.segments.first.base_offset:
        start_over(contents, offset, now_ms)
    else:
        _cut(contents, offset, now_ms)


def _cut(contents: LogContents, offset: int, now_ms: int) -> None:
    segments, aborted = contents.segments, contents.aborted
    kept_count = segments.index_of(offset) + 1
    gone = list(segments)[kept_count:]
    segments.remove(gone)
    for segment in gone:
        segment.remove_files()
    aborted.forget([segment.base_offset for segment in gone])
    active = segments.active
    end_offset = active.truncate(offset, now_ms)
    if not aborted.truncate(active.base_offset, offset):
        contents.snapshots.remove_after(active.base_offset)  # so that all of the segment is replayed
    _note_new_end(contents, end_offset, now_ms)


def start_over(contents: LogContents, offset: int, now_ms: int) -> None:
    """Forget everything: the log is empty, and its next offset is `offset`, wherever it was."""
    segments = contents.segments
    for segment in segments:
        segment.remove_files()
    contents.aborted.forget([segment.base_offset for segment in segments])
    segments.replace_all([contents.create_segment(offset, now_ms)])
    contents.log_start_offset = contents.high_watermark = offset
    contents.snapshots.remove_after(-1)
    contents.epoch_file.truncate_from_end(0)
    _note_new_end(contents, offset, now_ms)


def _note_new_end(contents: LogContents, end_offset: int, now_ms: int) -> None:
    contents.truncation_count += 1
    contents.log_end_offset = end_offset
    contents.log_start_offset = min(contents.log_start_offset, end_offset)
    contents.high_watermark = min(contents.high_watermark, end_offset)
    contents.recovery_point = min(contents.recovery_point, end_offset)
    contents.snapshots.remove_after(end_offset)
    contents.epoch_file.truncate_from_end(end_offset)
    rebuild_producer_state(contents, now_ms)
    contents.producers.note_high_watermark(contents.high_watermark)
