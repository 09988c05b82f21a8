"""Decides when a new segment begins. `LogContents.roll` begins it."""

from __future__ import annotations

from penstock.core.log_settings import LogSettings
from penstock.log.storage.indexes import MAX_RELATIVE_OFFSET
from penstock.log.storage.segment import Segment

# So 10,000 partitions that all begin segments of this age begin 170 per second, and no more.
YOUNG_MS = 60_000


def should_roll(
    segment: Segment,
    settings: LogSettings,
    size: int,
    last_offset: int,
    max_timestamp: int,
    now_ms: int,
    is_bounded: bool = True,
) -> bool:
    """Whether the `size` bytes about to be appended belong in a new segment.

    There are four reasons: the bytes do not fit, an offset would no longer fit the index's 32 bits, the first batch is
    older than segment.ms (when compacted, than max.compaction.lag.ms) by the batches' own clock (by the broker's when
    they carry no timestamp), or an index is full. The first two take many bytes. The others depend on a client's
    values: they count once the segment has existed for `penstock.segment.least.ms`, and for the first minute only as
    far as the broker's allowance goes, so that no client makes files by the thousand with small batches, in one
    partition or in many. Until then the indexes grow beyond their size, by the writes of that time. Fast loads of
    records from past years end up in segments that hold more than segment.ms. A follower needs no such bound: its
    leader has held to it.
    """
    least_ms = settings.penstock_segment_least_ms if is_bounded else 0
    if segment.size:
        if segment.size > settings.segment_bytes - size:
            return True
        first_timestamp = segment.first_timestamp()
        age_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms
        if age_ms > settings.max_segment_ms - segment.roll_jitter_ms and _may_be_followed(segment, now_ms, least_ms):
            return True
    if last_offset - segment.base_offset > MAX_RELATIVE_OFFSET:
        return True
    return segment.indexes.are_full and _may_be_followed(segment, now_ms, least_ms)


def _may_be_followed(segment: Segment, now_ms: int, least_ms: int) -> bool:
    """A clock that was set back makes no segment young."""
    age_ms = now_ms - segment.created_ms
    if not least_ms or not 0 <= age_ms < max(YOUNG_MS, least_ms):
        return True
    return age_ms >= least_ms and segment.resources.roll_allowance.take(now_ms)
