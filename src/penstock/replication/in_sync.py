"""What the in-sync set means for a partition: how far its records are safe, and whether more may be written. Pure."""

from __future__ import annotations

from collections.abc import Collection


def decide_high_watermark(current: int, log_end_offsets: Collection[int]) -> int:
    """Records below it are on every in-sync replica. It never goes back while a leader stays in office."""
    return max(current, min(log_end_offsets))


def can_append(in_sync_count: int, min_insync_replicas: int, acks: int) -> bool:
    """acks=all asks for a minimum of replicas; the other settings accept what there is."""
    return acks != -1 or in_sync_count >= min_insync_replicas
