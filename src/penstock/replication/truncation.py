"""Finds where two logs diverge, by leader epochs alone (KIP-101, KIP-279, KIP-595). Pure.

The follower sends the epoch of its last record with each fetch. The leader answers the end of the largest epoch it
knows that is not above that epoch. If the leader's end is lower, the follower has records that the leader does not
have: the follower truncates its log, and asks again. An epoch that the follower does not know either is approached step
by step.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.types import NO_LEADER_EPOCH


class EpochEnd(NamedTuple):
    epoch: int
    end_offset: int


def is_diverging(leaders: EpochEnd, last_fetched_epoch: int, fetch_offset: int) -> bool:
    """The leader's side: `leaders` is the end of the largest epoch there that is not above the follower's last one."""
    return leaders.epoch < last_fetched_epoch or leaders.end_offset < fetch_offset


def decide_truncation(leaders: EpochEnd, own: EpochEnd, own_end: int) -> int:
    """The follower's side: the offset of the truncation. `own` is the end of the largest epoch here that is not above
    the leader's.

    Where the follower does not know the leader's epoch, it truncates to the end of the epoch below and asks again,
    since the leader may not know that epoch.
    """
    if own.epoch == NO_LEADER_EPOCH:
        return min(leaders.end_offset, own_end)
    if own.epoch != leaders.epoch:
        return min(own.end_offset, own_end)
    return min(own.end_offset, leaders.end_offset, own_end)
