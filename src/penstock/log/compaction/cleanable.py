"""What the owner of a log does for its compaction: say how dirty it is, capture what a cleaning reads, put its results
in place.
"""

from __future__ import annotations

import contextlib
import logging
from itertools import pairwise

from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.log.compaction.batches import CleaningRules, LastRecord
from penstock.log.compaction.cleaned_segment import Replacement
from penstock.log.compaction.cleaning import CleanerLimits, Cleaning, CleaningRequest
from penstock.log.compaction.decisions import Dirt, LogBounds, SegmentDirt, SourceSegment, measure_dirt
from penstock.log.formats import names
from penstock.log.readable_log import ReadableLog
from penstock.log.recovery.loading import LoadedLog
from penstock.log.storage.files import Files
from penstock.log.storage.open_files import OpenResources
from penstock.log.storage.segment import Segment
from penstock.log.upkeep.delayed_deletes import DelayedDeletes

logger = logging.getLogger(__name__)


class CleanableLog(ReadableLog):
    """The part of a partition log that compaction talks to. `is_cleaning` keeps retention away meanwhile."""

    settings: LogSettings
    _path: str
    _files: Files
    _resources: OpenResources
    _delayed_deletes: DelayedDeletes

    def __init__(self, topic_partition: TopicPartition, loaded: LoadedLog, high_watermark: int) -> None:
        super().__init__(topic_partition, loaded, high_watermark)
        self.cleaned_end: int | None = None  # cleaner-offset-checkpoint
        self.delete_horizon_ms: int | None = None
        self.is_cleaning = False
        self._truncation_count = 0
        self._cleaning_began_at = 0

    def _note_truncation(self, end_offset: int) -> None:
        self._truncation_count += 1
        if self.cleaned_end is not None:
            self.cleaned_end = min(self.cleaned_end, end_offset)

    def measure_dirt(self, now_ms: int) -> Dirt:
        self.check_online()
        with self.storage_errors("looking for what to compact"):
            return measure_dirt(
                self._sealed_dirt(),
                LogBounds(
                    self.log_start_offset,
                    self.log_end_offset,
                    self.last_stable_offset,
                    self._segments.active.base_offset,
                    self.cleaned_end,
                    self.delete_horizon_ms,
                ),
                self.settings,
                now_ms,
            )

    def _sealed_dirt(self) -> list[SegmentDirt]:
        segments = list(self._segments)
        return [
            SegmentDirt(
                segment.base_offset, later.base_offset, segment.size, segment.age_timestamp, segment.first_timestamp
            )
            for segment, later in pairwise(segments)
        ]

    # ---- a cleaning

    def begin_cleaning(self, dirt: Dirt, now_ms: int, limits: CleanerLimits) -> Cleaning:
        """`end_cleaning` must follow, whatever becomes of it."""
        self.check_online()
        with self.storage_errors("preparing its compaction"):
            sources = self._capture_sources(dirt.first_uncleanable_offset)
            aborted = self.aborted_transactions(self._segments.first.base_offset, dirt.first_uncleanable_offset)
        last_records = {
            entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch) for entry in self.active_producers()
        }
        self.is_cleaning = True
        self._cleaning_began_at = self._truncation_count
        return Cleaning(
            CleaningRequest(
                topic_partition=self.topic_partition,
                directory=self._path,
                files=self._files,
                settings=self.settings,
                sources=sources,
                first_dirty_offset=dirt.first_dirty_offset,
                aborted=aborted,
                rules=CleaningRules(now_ms, self.settings.delete_retention_ms, last_records),
                limits=limits,
            )
        )

    def _capture_sources(self, end_offset: int) -> list[SourceSegment]:
        segments = list(self._segments)
        return [
            SourceSegment(
                segment.base_offset,
                later.base_offset,
                segment.path(names.LOG),
                segment.size,
                max(self._size_of(segment.path(suffix)) for suffix in (names.OFFSET_INDEX, names.TIME_INDEX)),
                self._files.modified_ms(segment.path(names.LOG)),
            )
            for segment, later in pairwise(segments)
            if segment.base_offset < end_offset
        ]

    def _size_of(self, path: str) -> int:
        try:
            return self._files.size(path)
        except FileNotFoundError:
            return 0  # an index that was lost is made again when somebody reads

    def can_replace(self, replacement: Replacement) -> bool:
        """Whether the log is still as it was when the cleaning began. Before `Replacement.commit`: afterwards the next
        start would complete it.
        """
        bases = [segment.base_offset for segment in self._segments if not segment.is_active]
        return (
            self.offline_reason is None
            and self._truncation_count == self._cleaning_began_at
            and all(base_offset in bases for base_offset in replacement.replaced)
        )

    def replace_segments(self, replacement: Replacement, now_ms: int) -> None:
        """A committed replacement takes its place in one turn. Slices of the old segments stay readable."""
        self.check_online()
        with self.storage_errors("replacing compacted segments"):
            gone = [segment for segment in self._segments if segment.base_offset in replacement.replaced]
            due_ms = now_ms + self.settings.file_delete_delay_ms
            for segment in gone:
                for path in segment.mark_deleted():
                    self._delayed_deletes.add(path, due_ms)
            replacement.install(self._files)
            fresh = Segment(
                self._path, replacement.base_offset, self.settings, self._resources, now_ms, replacement.size
            )
            fresh.unchecked_end = 0  # every batch of it was checked on the way
            rest = [segment for segment in self._segments if segment.base_offset not in replacement.replaced]
            self._segments.replace_all(sorted([*rest, fresh], key=lambda segment: segment.base_offset))
            self._aborted.forget(replacement.replaced)
            if names.TRANSACTION_INDEX in replacement.suffixes:
                self._aborted.adopt(replacement.base_offset)
            self._snapshots.remove_at([base for base in replacement.replaced if base != replacement.base_offset])
        logger.info(
            "partition %s: %d segments of %d bytes from offset %d on became one of %d",
            self.topic_partition,
            len(gone),
            sum(segment.size for segment in gone),
            replacement.base_offset,
            replacement.size,
        )

    def end_cleaning(self, cleaning: Cleaning | None) -> None:
        """With the cleaning when it is complete: the log is clean up to its end."""
        self.is_cleaning = False
        if cleaning is not None and self._truncation_count == self._cleaning_began_at:
            self.cleaned_end = cleaning.end_offset
            self.delete_horizon_ms = cleaning.delete_horizon_ms


def clean_log(log: CleanableLog, now_ms: int, limits: CleanerLimits | None = None) -> Cleaning:
    """A whole cleaning at once, for callers that may block; however dirty the log is."""
    cleaning = log.begin_cleaning(log.measure_dirt(now_ms), now_ms, limits or CleanerLimits())
    finished = None
    try:
        with contextlib.closing(cleaning.steps()) as steps:
            for step in steps:
                if isinstance(step, Replacement):
                    step.commit(cleaning.request.files)
                    log.replace_segments(step, now_ms)
        finished = cleaning
    finally:
        log.end_cleaning(finished)
    return cleaning
