"""Selects the logs that are worth a cleaning, the end of the cleaning, and the segments to merge. Decides only.

The dirty part of a log begins where the last cleaning ended. It ends at the segment that holds the first of: the last
stable offset, the beginning of the active segment, a record younger than min.compaction.lag.ms. Whole segments only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.core.log_settings import NO_LIMIT, LogSettings
from penstock.log.storage.indexes import MAX_RELATIVE_OFFSET


class SegmentDirt(NamedTuple):
    """A sealed segment, as the decision sees it."""

    base_offset: int
    end_offset: int
    size: int
    largest_timestamp: Callable[[], int]
    first_timestamp: Callable[[], int]


class LogBounds(NamedTuple):
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    active_base_offset: int
    cleaned_end: int | None  # the value in the checkpoint
    delete_horizon_ms: int | None  # when the first tombstone or marker left by the last cleaning may be removed


class Dirt(NamedTuple):
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int  # the excess over max.compaction.lag.ms
    is_horizon_due: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_worth_cleaning(self, min_ratio: float) -> bool:
        if self.dirty_bytes and (self.delay_ms > 0 or self.ratio > min_ratio):
            return True
        return self.is_horizon_due and self.clean_bytes > 0


def measure_dirt(sealed: Sequence[SegmentDirt], bounds: LogBounds, settings: LogSettings, now_ms: int) -> Dirt:
    first_dirty = decide_first_dirty(bounds)
    limit = max(_first_uncleanable(sealed, bounds, first_dirty, settings, now_ms), first_dirty)
    # Down to the beginning of the segment that holds the limit: segments are cleaned whole.
    uncleanable = next((segment.base_offset for segment in sealed if segment.end_offset > limit), None)
    if uncleanable is None:
        uncleanable = bounds.active_base_offset
    clean_bytes = sum(segment.size for segment in sealed if segment.end_offset <= first_dirty)
    dirty = [each for each in sealed if each.end_offset > first_dirty and each.base_offset < uncleanable]
    horizon = bounds.delete_horizon_ms
    return Dirt(
        first_dirty,
        max(uncleanable, first_dirty),
        clean_bytes,
        sum(segment.size for segment in dirty),
        _compaction_delay(dirty, settings, now_ms),
        horizon is not None and horizon <= now_ms,
    )


def decide_first_dirty(bounds: LogBounds) -> int:
    """The checkpoint, unless a truncation at either end of the log has made it meaningless."""
    cleaned_end = bounds.cleaned_end
    if cleaned_end is None or not bounds.log_start_offset <= cleaned_end <= bounds.log_end_offset:
        return bounds.log_start_offset
    return cleaned_end


def _first_uncleanable(
    sealed: Iterable[SegmentDirt], bounds: LogBounds, first_dirty: int, settings: LogSettings, now_ms: int
) -> int:
    limit = min(bounds.last_stable_offset, bounds.active_base_offset)
    if settings.min_compaction_lag_ms > 0:
        newest_ms = now_ms - settings.min_compaction_lag_ms
        for segment in sealed:
            if segment.end_offset > first_dirty and segment.largest_timestamp() > newest_ms:
                return min(limit, segment.base_offset)
    return limit


def _compaction_delay(dirty: Iterable[SegmentDirt], settings: LogSettings, now_ms: int) -> int:
    if settings.max_compaction_lag_ms >= NO_LIMIT:
        return 0
    oldest = min((stamp for each in dirty if (stamp := each.first_timestamp()) > 0), default=now_ms)
    return max(now_ms - settings.max_compaction_lag_ms - oldest, 0)


class SourceSegment(NamedTuple):
    """A sealed segment, as the cleaning reads it: by path, in another thread or process."""

    base_offset: int
    end_offset: int
    path: str
    size: int
    index_bytes: int
    modified_ms: int


class SegmentLimits(NamedTuple):
    """The topic's settings that determine the shape of a cleaned segment."""

    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int

    @classmethod
    def of(cls, settings: LogSettings) -> SegmentLimits:
        return cls(settings.segment_bytes, settings.segment_index_bytes, settings.index_interval_bytes)


def group_segments(sources: Sequence[SourceSegment], limits: SegmentLimits) -> list[list[SourceSegment]]:
    """Merges neighbours that fit one segment together, by bytes, index and the 32 bits of a relative offset."""
    groups: list[list[SourceSegment]] = []
    size = index_bytes = 0
    for source in sources:
        fits = (
            bool(groups)
            and size + source.size <= limits.segment_bytes
            and index_bytes + source.index_bytes <= limits.segment_index_bytes
            and (source.size == 0 or source.end_offset - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET)
        )
        if fits:
            groups[-1].append(source)
        else:
            groups.append([source])
            size = index_bytes = 0
        size += source.size
        index_bytes += source.index_bytes
    return groups
