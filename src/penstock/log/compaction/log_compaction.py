"""The owner's part in the compaction of a log: measures the dirt, captures the inputs of a cleaning, puts the results
in place.

The cleaning itself runs in another process or thread (`log_cleaner`) on the captured inputs. A log that was truncated
meanwhile keeps none of its results.
"""

from __future__ import annotations

import contextlib
import logging
from itertools import pairwise

from penstock.log.compaction.batches import CleaningRules, LastRecord
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.decisions import (
    Dirt,
    LogBounds,
    SegmentDirt,
    SegmentLimits,
    SourceSegment,
    measure_dirt,
)
from penstock.log.compaction.log_cleaner import CleanerLimits, Cleaning, CleaningOutcome, CleaningRequest
from penstock.log.formats import names
from penstock.log.log_reads.log_reader import LogReader
from penstock.log.state.contents import LogContents
from penstock.log.storage.files import Files
from penstock.log.storage.segment import Segment
from penstock.log.upkeep.delayed_deletes import DelayedDeletes

logger = logging.getLogger(__name__)


class LogCompaction:
    """The compaction of one log, on the owner's thread. `is_cleaning` keeps retention away meanwhile."""

    def __init__(self, contents: LogContents, reader: LogReader, delayed_deletes: DelayedDeletes) -> None:
        self.cleaned_end: int | None = None  # cleaner-offset-checkpoint
        self.delete_horizon_ms: int | None = None
        self.is_cleaning = False
        self._contents = contents
        self._reader = reader
        self._delayed_deletes = delayed_deletes
        self._cleaning_began_at = 0

    def note_truncation(self, end_offset: int) -> None:
        """Offsets past the cut are written again, and then they are dirty."""
        if self.cleaned_end is not None:
            self.cleaned_end = min(self.cleaned_end, end_offset)

    def measure_dirt(self, now_ms: int) -> Dirt:
        contents = self._contents
        contents.availability.check_online()
        bounds = LogBounds(
            contents.log_start_offset,
            contents.log_end_offset,
            contents.last_stable_offset,
            contents.segments.active.base_offset,
            self.cleaned_end,
            self.delete_horizon_ms,
        )
        with contents.availability.storage_errors("looking for what to compact", is_repeatable=True):
            return measure_dirt(_describe_sealed(contents), bounds, contents.settings, now_ms)

    # ---- a cleaning

    def begin_cleaning(self, dirt: Dirt, now_ms: int, limits: CleanerLimits) -> Cleaning:
        """`end_cleaning` must follow, whatever the outcome."""
        contents = self._contents
        contents.availability.check_online()
        with contents.availability.storage_errors("preparing its compaction"):
            sources = _capture_sources(contents, dirt.first_uncleanable_offset)
            aborted = self._reader.aborted_transactions(
                contents.segments.first.base_offset, dirt.first_uncleanable_offset
            )
        last_records = {
            entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch)
            for entry in contents.producers.entries.values()
        }
        self.is_cleaning = True
        self._cleaning_began_at = contents.truncation_count
        return Cleaning(
            CleaningRequest(
                topic_partition=contents.topic_partition,
                directory=contents.directory,
                files=contents.files,
                segment_limits=SegmentLimits.of(contents.settings),
                sources=sources,
                first_dirty_offset=dirt.first_dirty_offset,
                aborted=aborted,
                rules=CleaningRules(now_ms, contents.settings.delete_retention_ms, last_records),
                limits=limits,
            )
        )

    @property
    def was_cut(self) -> bool:
        """Whether the log was truncated since the cleaning began."""
        return self._contents.truncation_count != self._cleaning_began_at

    def can_replace(self, replacement: Replacement) -> bool:
        """Whether the log is unchanged since the cleaning began. Call this before `Replacement.commit`: afterwards the
        next start would complete the replacement.
        """
        contents = self._contents
        bases = [segment.base_offset for segment in contents.segments if not segment.is_active]
        return (
            contents.availability.offline_reason is None
            and not self.was_cut
            and all(base_offset in bases for base_offset in replacement.replaced)
        )

    def replace_segments(self, replacement: Replacement, now_ms: int) -> None:
        """Puts a committed replacement in place in one turn. Slices of the old segments stay readable."""
        contents = self._contents
        contents.availability.check_online()
        segments = contents.segments
        gone = [segment for segment in segments if segment.base_offset in replacement.replaced]
        rest = [segment for segment in segments if segment.base_offset not in replacement.replaced]
        with contents.availability.storage_errors("replacing compacted segments"):
            due_ms = now_ms + contents.settings.file_delete_delay_ms
            for segment in gone:
                for path in segment.mark_deleted():
                    self._delayed_deletes.add(path, due_ms)
            replacement.install(contents.files)
            fresh = Segment(
                contents.directory,
                replacement.base_offset,
                contents.settings,
                contents.resources,
                now_ms,
                replacement.size,
            )
            fresh.unchecked_end = 0  # the cleaning has checked every batch of it
            segments.replace_all(sorted([*rest, fresh], key=lambda segment: segment.base_offset))
            contents.aborted.forget(replacement.replaced)
            if names.TRANSACTION_INDEX in replacement.suffixes:
                contents.aborted.adopt(replacement.base_offset)
            for path in contents.snapshots.mark_deleted_at(
                [base for base in replacement.replaced if base != replacement.base_offset]
            ):
                self._delayed_deletes.add(path, due_ms)
        logger.info(
            "partition %s: %d segments of %d bytes from offset %d on became one of %d",
            contents.topic_partition,
            len(gone),
            sum(segment.size for segment in gone),
            replacement.base_offset,
            replacement.size,
        )

    def end_cleaning(self, outcome: CleaningOutcome | None) -> None:
        """Call with the outcome when the cleaning is complete: the log is clean up to its end."""
        self.is_cleaning = False
        if outcome is not None and not self.was_cut:
            self.cleaned_end = outcome.end_offset
            self.delete_horizon_ms = outcome.delete_horizon_ms


def _describe_sealed(contents: LogContents) -> list[SegmentDirt]:
    return [
        SegmentDirt(
            segment.base_offset, later.base_offset, segment.size, segment.age_timestamp, segment.first_timestamp
        )
        for segment, later in pairwise(contents.segments)
    ]


def _capture_sources(contents: LogContents, end_offset: int) -> list[SourceSegment]:
    files = contents.files
    return [
        SourceSegment(
            segment.base_offset,
            later.base_offset,
            segment.path(names.LOG),
            segment.size,
            max(_size_of(files, segment.path(suffix)) for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)),
            files.modified_ms(segment.path(names.LOG)),
        )
        for segment, later in pairwise(contents.segments)
        if segment.base_offset < end_offset
    ]


def _size_of(files: Files, path: str) -> int:
    try:
        return files.size(path)
    except FileNotFoundError:
        return 0  # the next reader rebuilds a lost index


def clean_log(compaction: LogCompaction, now_ms: int, limits: CleanerLimits | None = None) -> Cleaning:
    """Runs a whole cleaning at once, for callers that may block; however dirty the log is."""
    cleaning = compaction.begin_cleaning(compaction.measure_dirt(now_ms), now_ms, limits or CleanerLimits())
    finished = None
    try:
        with contextlib.closing(cleaning.steps()) as steps:
            for step in steps:
                if isinstance(step, Replacement):
                    step.commit(cleaning.request.files)
                    compaction.replace_segments(step, now_ms)
        finished = cleaning.outcome
    finally:
        compaction.end_cleaning(finished)
    return cleaning
