"""What a follower's fetch session has to look at: the partitions with news, and no other.

A follower fetches thousands of partitions in one session, of which few change between two fetches. Each leader of a
partition tells the session of appends, of a high watermark that rises and of a role that changes; a fetch reads those
partitions and the ones that the request names. In order of their news, so that no partition starves.

A fetch that does not name a partition says that nothing has changed there. So the session also keeps the time of its
last fetch: a follower without news was caught up then.
"""

from __future__ import annotations

from typing import Protocol

from penstock.broker.partitions.waiting import Waiter
from penstock.core.types import TopicId
from penstock.replication.progress import FollowerProgress

# How long a follower may not know the high watermark. Told at once, it cost each follower a second fetch of each batch,
# half of all fetches. Kafka's followers hear of it with the next records, or after 500 ms. Bench: cluster-latency.
HIGH_WATERMARK_DELAY_MS = 10

WatchedKey = tuple[TopicId | str, int]


class Leader(Protocol):
    """Of one partition."""

    followers: dict[int, FollowerProgress]
    watches: dict[FollowerWatch, None]


class FollowerWatch:
    __slots__ = ("_keys", "_leadings", "last_fetch_ms", "node_id", "ready", "waiters")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.ready: dict[WatchedKey, None] = {}
        self.last_fetch_ms = 0
        self.waiters: dict[Waiter, None] = {}  # the fetch that waits, if one does
        self._leadings: dict[WatchedKey, Leader] = {}
        self._keys: dict[Leader, WatchedKey] = {}

    def attach(self, key: WatchedKey, leading: Leader) -> None:
        if self._leadings.get(key) is not leading:
            self.detach(key)
            self._leadings[key] = leading
            self._keys[leading] = key
            leading.watches[self] = None

    def detach(self, key: WatchedKey) -> None:
        self.ready.pop(key, None)
        leading = self._leadings.pop(key, None)
        if leading is not None:
            leading.watches.pop(self, None)
            self._keys.pop(leading, None)

    def close(self) -> None:
        for key in list(self._leadings):
            self.detach(key)

    def note(self, leading: Leader, size: int) -> None:
        """There is news: bytes, or none for anything that the follower has to hear at once."""
        if self._is_news(leading):
            for waiter in tuple(self.waiters):
                if size:
                    waiter.arrived(size)
                else:
                    waiter.wake()

    def note_high_watermark(self, leading: Leader) -> None:
        """The next records carry it along, if they come soon."""
        if self._is_news(leading):
            for waiter in self.waiters:
                waiter.wake_within(HIGH_WATERMARK_DELAY_MS)

    def _is_news(self, leading: Leader) -> bool:
        key = self._keys.get(leading)
        if key is None:
            return False
        if key not in self.ready:
            self.ready[key] = None
            progress = leading.followers.get(self.node_id)
            if progress is not None:
                progress.note_idle(self.last_fetch_ms)
        return True
