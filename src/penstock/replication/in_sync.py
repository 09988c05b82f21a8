"""The rules of the in-sync set, and of acknowledgements with acks=all. Pure.

Rules:
- A member leaves the in-sync set when its end differs from the leader's and it has not been caught up for
  `replica.lag.time.max.ms`.
- A follower joins when it has everything below the high watermark and everything from before the leader's epoch
  (KAFKA-7128), and when the broker that fetches is the registered one, and is not about to stop (KIP-841, KIP-903).
- acks=all needs `min.insync.replicas` members before the append, and at its acknowledgement. The high watermark stands
  still without them. A minimum above the number of replicas counts as that number, as in Kafka: `required_in_sync` is
  the one place for this rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.protocol.errors import ErrorCode
from penstock.replication.progress import FollowerProgress

ALL_REPLICAS = -1


def required_in_sync(min_insync_replicas: int, replica_count: int) -> int:
    return min(min_insync_replicas, replica_count)


def is_below_minimum(in_sync_count: int, min_insync_replicas: int, replica_count: int) -> bool:
    return in_sync_count < required_in_sync(min_insync_replicas, replica_count)


def find_lagging(
    isr: Iterable[int], followers: Mapping[int, FollowerProgress], leader_end: int, now_ms: int, lag_max_ms: int
) -> list[int]:
    """The members that must leave. The leader is not among the followers and stays."""
    return [
        node_id
        for node_id in isr
        if node_id in followers and not followers[node_id].is_caught_up(leader_end, now_ms, lag_max_ms)
    ]


def may_join(follower_end: int, high_watermark: int, epoch_start: int) -> bool:
    """Whether the follower has all records that a member must have. Its broker's eligibility is another question."""
    return follower_end >= high_watermark and follower_end >= epoch_start


def decide_acknowledgement(
    high_watermark: int, end_offset: int, in_sync_count: int, min_insync_replicas: int, replica_count: int
) -> ErrorCode | None:
    """The code for a writer that waits for all replicas; None as long as the writer has to wait."""
    if high_watermark < end_offset:
        return None
    if is_below_minimum(in_sync_count, min_insync_replicas, replica_count):
        return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return ErrorCode.NONE
