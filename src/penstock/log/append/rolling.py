"""When a new segment begins. Decides only; `LogContents.roll` begins it."""

from __future__ import annotations

from penstock.core.log_settings import LogSettings
from penstock.log.storage.indexes import MAX_RELATIVE_OFFSET
from penstock.log.storage.segment import Segment


def should_roll(
    segment: Segment, settings: LogSettings, size: int, last_offset: int, max_timestamp: int, now_ms: int
) -> bool:
    """Whether the `size` bytes about to be appended belong in a new segment.

    Four reasons: they do not fit, the first batch is older than segment.ms (when compacted, than max.compaction.lag.ms)
    by the batches' own clock (by the broker's when they carry no timestamp), an index is full, or an offset would no
    longer fit the index's 32 bits.
    """
    if segment.size:
        if segment.size > settings.segment_bytes - size:
            return True
        first_timestamp = segment.first_timestamp()
        age_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms
        if age_ms > settings.max_segment_ms - segment.roll_jitter_ms:
            return True
    return last_offset - segment.base_offset > MAX_RELATIVE_OFFSET or segment.indexes.are_full
