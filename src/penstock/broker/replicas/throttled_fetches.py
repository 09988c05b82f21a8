"""Selects the throttled partitions of one leader for the next fetch, and the size for each. No I/O.

Rules:
- A partition is throttled while a topic's list names it, its rate is limited, and this broker is not in sync: the image
  does not list it as in sync, and the last answer did not reach the leader's high watermark. (Kafka goes by the
  latter.)
- Throttled partitions wait in a queue. As long as the rate is not exceeded the first partitions get a permit for a
  fetch, as many as there is room for, but at least one where no other fetch of this broker has a permit.
- A permit holds for one request. A partition that got records goes to the end of the queue, a partition that got none
  keeps its place: the leader gives at least one batch to the partition that it had to leave out before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from penstock.broker.partitions.throttling import Throttle
from penstock.broker.replicas.followed_partition import Followed, FollowedKey

# The time until another fetch of this broker may have used its permit: an answer with records comes sooner.
_ELSEWHERE_MS = 50


class ThrottledFetches:
    def __init__(self, throttle: Throttle, node_id: int, max_bytes: int) -> None:
        self.throttle = throttle
        self._node_id = node_id
        self._max_bytes = max_bytes
        self._queue: OrderedDict[FollowedKey, Followed] = OrderedDict()
        self._granted: dict[FollowedKey, int] = {}  # bytes, in the current request
        self._asked: dict[FollowedKey, int] = {}  # in the previous request

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def is_any(self) -> bool:
        """Whether `grant` has work: waiting partitions, or expired permits."""
        return bool(self._queue or self._asked)

    def is_waiting(self, key: FollowedKey) -> bool:
        return key in self._queue and key not in self._granted

    def max_bytes_of(self, key: FollowedKey) -> int:
        return self._granted.get(key, self._max_bytes)

    def look_at(self, followed: Followed) -> bool:
        """Whether the partition has to wait its turn from now on, or again."""
        throttle, partition = self.throttle, followed.partition
        is_throttled = (
            throttle.is_limited
            and followed.is_behind
            and throttle.concerns(partition.topic_partition)
            and self._node_id not in partition.state.isr
        )
        if is_throttled:
            self._queue.setdefault(followed.key, followed)
        elif self._queue.pop(followed.key, None) is not None:
            followed.sent = None  # the leader must learn that it may send more
        return is_throttled

    def remove(self, key: FollowedKey) -> None:
        self._queue.pop(key, None)
        self.throttle.granted -= self._granted.pop(key, 0)

    def note_taken(self, followed: Followed, size: int) -> None:
        """An answer was accepted. Records for a replica in sync do not count."""
        throttle, partition = self.throttle, followed.partition
        if size and throttle.concerns(partition.topic_partition) and self._node_id not in partition.state.isr:
            throttle.note(size)
        if self.look_at(followed) and size:
            self._queue.move_to_end(followed.key)

    # -------------------------------------------------------------------------------------------- leave

    def may_grant(self) -> bool:
        """Whether a partition could be fetched now."""
        throttle = self.throttle
        if not self._queue or throttle.is_exceeded():
            return False
        return not throttle.granted or throttle.granted < throttle.room()

    def free_in_ms(self) -> int | None:
        """The time until the next attempt; None where no partition waits."""
        return self.throttle.free_in_ms() or _ELSEWHERE_MS if self._queue else None

    def patience_ms(self) -> int | None:
        """The time for which a request may wait at the leader, because other partitions want a fetch then. None: no
        limit.
        """
        return self.throttle.free_in_ms() or None if self._queue else None

    def grant(self) -> Iterable[FollowedKey]:
        """Grants permits for the next request. Returns the partitions whose permit has changed."""
        before, throttle = self._asked, self.throttle
        self.end()
        if self.may_grant():
            room = throttle.room() - throttle.granted
            for key, followed in self._queue.items():
                if room <= 0 and throttle.granted:
                    break
                size = min(self._max_bytes, max(room, 1))
                if before.get(key) != size:
                    followed.sent = None  # the leader must learn the size
                self._granted[key] = size
                throttle.granted += size
                room -= size
        self._asked = dict(self._granted)
        return {**before, **self._granted}

    def end(self) -> None:
        """The request is answered, or has failed."""
        self.throttle.granted -= sum(self._granted.values())
        self._granted = {}
