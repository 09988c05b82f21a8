"""The partitions with news that a follower's fetch session has to check, and no other partition.

A follower fetches thousands of partitions in one session, of which few change between two fetches. Each leader of a
partition reports appends, a rising high watermark and a changed role to the session; a fetch reads those partitions and
the partitions that the request names. The order is that of the news, so that no partition starves.

A throttled partition without room for its records is held back: the partition is no news until there is room, or until
another event concerns it. The partitions that wait longest come first, some at a time.

A fetch that does not name a partition reports no change there. So the session also keeps the time of its last fetch: a
follower without news was caught up then.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from penstock.broker.partitions.purgatory import Waiter
from penstock.broker.partitions.throttling import Throttle
from penstock.core.types import TopicId
from penstock.replication.leader_state import Watch
from penstock.replication.progress import FollowerProgress

# The time for which a follower may not know the high watermark. An immediate report cost each follower a second fetch
# of each batch, half of all fetches. Kafka's followers learn it with the next records, or after 500 ms. Bench:
# cluster-latency.
HIGH_WATERMARK_DELAY_MS = 10

# The number of throttled partitions that a fetch checks when there is room: some 0.5 ms. Few of them use up the room.
_RELEASED_AT_ONCE = 64

WatchedKey = tuple[TopicId | str, int]


class Leader(Protocol):
    """The leader's state of one partition."""

    followers: dict[int, FollowerProgress]
    watches: dict[Watch, None]


class FollowerWatch:
    __slots__ = (
        "_keys",
        "_leadings",
        "_released",
        "_throttle",
        "answered",
        "followed",
        "held",
        "last_fetch_ms",
        "node_id",
        "ready",
        "waiters",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.ready: dict[WatchedKey, None] = {}
        self.last_fetch_ms = 0
        # The newest questions before the last answer, and before the answer that the last fetch follows
        # (`confirmations`).
        self.answered = self.followed = 0
        self.waiters: dict[Waiter, None] = {}  # the waiting fetch, if there is one
        self._leadings: dict[WatchedKey, Leader] = {}
        self._keys: dict[Leader, WatchedKey] = {}
        self.held: dict[WatchedKey, None] = {}  # throttled, with records that the follower does not have
        self._released: set[WatchedKey] = set()  # by the last check that found room
        self._throttle: Throttle | None = None  # set while a partition is held back

    def attach(self, key: WatchedKey, leading: Leader) -> None:
        if self._leadings.get(key) is not leading:
            self.detach(key)
            self._leadings[key] = leading
            self._keys[leading] = key
            leading.watches[self] = None

    def detach(self, key: WatchedKey) -> None:
        self.ready.pop(key, None)
        self.held.pop(key, None)
        leading = self._leadings.pop(key, None)
        if leading is not None:
            leading.watches.pop(self, None)
            self._keys.pop(leading, None)

    def close(self) -> None:
        for key in list(self._leadings):
            self.detach(key)
        self._forget_throttle()

    # -------------------------------------------------------------------------------------------- the fetch

    def name(self, key: WatchedKey) -> None:
        """A request names the partition."""
        self.ready[key] = None
        self.held.pop(key, None)
        self._released.discard(key)

    def take_news(self) -> dict[WatchedKey, None]:
        ready, self.ready = self.ready, {}
        throttle = self._throttle
        if throttle is not None and not throttle.is_exceeded():
            first = list(islice(self.held, _RELEASED_AT_ONCE))
            self._released = set(first)
            for key in first:
                del self.held[key]
                ready[key] = None
            if not self.held:
                self._forget_throttle()
        return ready

    def hold(self, keys: Sequence[WatchedKey], throttle: Throttle) -> None:
        """Holds back partitions without room. A partition that waited before keeps its place."""
        before = dict.fromkeys(key for key in keys if key in self._released)
        self.held = {**before, **self.held, **dict.fromkeys(keys)}
        self._throttle = throttle
        throttle.holders[self] = None

    def release(self) -> None:
        self.ready.update(self.held)
        self.held.clear()
        self._forget_throttle()
        for waiter in tuple(self.waiters):
            waiter.wake()

    def room_in_ms(self) -> int | None:
        """None as long as no partition is held back."""
        return None if self._throttle is None or not self.held else max(self._throttle.free_in_ms(), 1)

    def _forget_throttle(self) -> None:
        if self._throttle is not None:
            self._throttle.holders.pop(self, None)
            self._throttle = None

    # -------------------------------------------------------------------------------------------- leaders

    def note(self, leading: Leader, size: int) -> None:
        """Notes news: bytes, or no size for an event that the follower has to learn at once."""
        if self._is_news(leading, can_wait=size > 0):
            for waiter in tuple(self.waiters):
                if size:
                    waiter.arrived(size)
                else:
                    waiter.wake()

    def note_high_watermark(self, leading: Leader) -> None:
        """The next records carry the high watermark along, if they come soon."""
        if self._is_news(leading, can_wait=True):
            self.hurry()

    def hurry(self) -> None:
        """Wakes the waiting fetch soon."""
        for waiter in self.waiters:
            waiter.wake_within(HIGH_WATERMARK_DELAY_MS)

    def _is_news(self, leading: Leader, *, can_wait: bool) -> bool:
        key = self._keys.get(leading)
        if key is None:
            return False
        if self.held and key in self.held:
            if can_wait:
                return False
            del self.held[key]
        if key not in self.ready:
            self.ready[key] = None
            progress = leading.followers.get(self.node_id)
            if progress is not None:
                progress.note_idle(self.last_fetch_ms)
        return True
