"""A follower's progress as its leader records it. Pure: the leader passes the time.

Rules (Kafka's `Replica.updateFetchStateOrThrow`):
- A fetch from offset n means that the follower has everything below n.
- A follower was caught up at the time of a fetch from the leader's end. A follower that never reaches the end of a busy
  log counts as caught up at the time of the fetch before, if it now has all records that the leader had then.
- A fetch with an older broker epoch than the last comes from the follower's former process, and counts for nothing.
- With a new leader epoch, members of the in-sync set count as caught up now, all others as never.
"""

from __future__ import annotations

from penstock.core.types import NO_OFFSET

NEVER_MS = -(2**62)
NO_BROKER_EPOCH = -1


class FollowerProgress:
    __slots__ = (
        "broker_epoch",
        "caught_up_ms",
        "last_fetch_leader_end",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, is_in_sync: bool, now_ms: int) -> None:
        self.log_end_offset = NO_OFFSET  # not known before its first fetch
        self.log_start_offset = NO_OFFSET
        self.last_fetch_ms = now_ms if is_in_sync else NEVER_MS
        self.last_fetch_leader_end = 0
        self.caught_up_ms = now_ms if is_in_sync else NEVER_MS
        self.broker_epoch = NO_BROKER_EPOCH

    def begin_epoch(self, is_in_sync: bool, leader_end: int, now_ms: int, has_led_on: bool = True) -> None:
        """The same leader at a later epoch. An in-sync follower's position stays known if no other broker led in
        between; otherwise that leader may have truncated the follower's log. A follower that is not in sync may have
        left the assignment and come back since, with an empty log: the epoch rises when a replica leaves, and images
        can be skipped.
        """
        if not has_led_on or not is_in_sync:
            self.log_end_offset = NO_OFFSET
        self.last_fetch_ms = now_ms if is_in_sync else NEVER_MS
        self.last_fetch_leader_end = leader_end if is_in_sync else 0
        self.caught_up_ms = now_ms if is_in_sync else NEVER_MS

    def leave(self) -> None:
        """The follower is not in the in-sync set any more, for whatever reason: it counts as never caught up, and has
        to show otherwise by a fetch that names the partition. Otherwise the high watermark would wait for its return.
        """
        self.caught_up_ms = NEVER_MS
        self.last_fetch_ms = NEVER_MS
        self.last_fetch_leader_end = NO_OFFSET - 1

    def is_outdated(self, broker_epoch: int) -> bool:
        """Whether a former process of the follower sent a fetch with this epoch. Old versions send no epoch."""
        return broker_epoch != NO_BROKER_EPOCH and broker_epoch < self.broker_epoch

    def note_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end: int, now_ms: int, broker_epoch: int
    ) -> None:
        if fetch_offset >= leader_end:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_leader_end = max(leader_end, self.last_fetch_leader_end)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def note_idle(self, fetch_ms: int) -> None:
        """The follower fetched without naming the partition. A follower that had all records then was caught up
        then.
        """
        if self.log_end_offset == self.last_fetch_leader_end:
            self.caught_up_ms = max(self.caught_up_ms, fetch_ms)
        self.last_fetch_ms = max(self.last_fetch_ms, fetch_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.caught_up_ms <= lag_max_ms
