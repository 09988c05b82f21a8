"""The replica that a consumer should read from (KIP-392). Pure.

Only members of the in-sync set that hold the offset qualify (KAFKA-14372). Among those in the consumer's rack the
leader wins; otherwise the one with the highest end, then the one that was caught up last, then the highest id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ReadCandidate(NamedTuple):
    node_id: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    caught_up_ms: int


def choose_read_replica(
    rack: str, leader: ReadCandidate, followers: Sequence[ReadCandidate], fetch_offset: int
) -> int | None:
    """None when the consumer should read from the leader."""
    if not rack or leader.rack == rack:
        return None
    near = [
        each for each in followers if each.rack == rack and each.log_start_offset <= fetch_offset <= each.log_end_offset
    ]
    best = max(near, key=lambda each: (each.log_end_offset, each.caught_up_ms, each.node_id), default=None)
    return None if best is None else best.node_id
