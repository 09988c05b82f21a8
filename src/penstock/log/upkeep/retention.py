"""Decides which segments retention may remove; `segment_deletion` removes them.

Oldest first, and only while the rule holds, so that the rest is one unbroken range. Never past the high watermark: a
record that is not replicated yet is not old yet. An empty active segment is never worth a deletion.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.core.log_settings import LogSettings


class DeletionReason(enum.Enum):
    LOG_START_OFFSET = "log start offset passed it"
    RETENTION_BYTES = "retention.bytes exceeded"
    RETENTION_MS = "retention.ms exceeded"


class SegmentFacts(NamedTuple):
    base_offset: int
    end_offset: int
    size: int
    is_active: bool
    largest_timestamp: Callable[[], int]  # called for the oldest segments only: it may have to read a file


class Deletion(NamedTuple):
    base_offset: int
    reason: DeletionReason


def plan_deletions(
    segments: Sequence[SegmentFacts], log_start_offset: int, high_watermark: int, settings: LogSettings, now_ms: int
) -> list[Deletion]:
    candidates = [
        facts for facts in segments if facts.end_offset <= high_watermark and not (facts.is_active and facts.size == 0)
    ]
    deletions = [
        Deletion(facts.base_offset, DeletionReason.LOG_START_OFFSET)
        for facts in candidates
        if not facts.is_active and facts.end_offset <= log_start_offset
    ]
    if "delete" in settings.cleanup_policy:
        rest = candidates[len(deletions) :]
        total = sum(facts.size for facts in segments[len(deletions) :])
        by_size = list(_over_size(rest, total, settings.retention_bytes))
        deletions += by_size
        deletions += _over_age(rest[len(by_size) :], settings.retention_ms, now_ms)
    return deletions


def _over_size(segments: Sequence[SegmentFacts], total: int, retention_bytes: int) -> Iterator[Deletion]:
    """A segment is removed only if the rest is still as large as the limit."""
    if retention_bytes < 0:
        return
    excess = total - retention_bytes
    for facts in segments:
        excess -= facts.size
        if excess < 0:
            return
        yield Deletion(facts.base_offset, DeletionReason.RETENTION_BYTES)


def _over_age(segments: Sequence[SegmentFacts], retention_ms: int, now_ms: int) -> Iterator[Deletion]:
    if retention_ms < 0:
        return
    for facts in segments:
        if now_ms - facts.largest_timestamp() <= retention_ms:
            return
        yield Deletion(facts.base_offset, DeletionReason.RETENTION_MS)
