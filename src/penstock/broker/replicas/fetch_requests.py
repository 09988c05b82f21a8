"""The follower's side of an incremental fetch session (KIP-227): selects the partitions that a request names. No I/O.

The first request of a session names all partitions. Each later request names the partitions with a changed position,
the new partitions, and the removed partitions. A request costs as much as has changed, however many partitions the
session has.

A failed partition is left out for a while, so that the leader does not answer the same error at once for ever. A
throttled partition without a permit is left out too; see `throttled_fetches`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush

from penstock.broker.replicas.followed_partition import Followed, FollowedKey
from penstock.broker.replicas.throttled_fetches import ThrottledFetches
from penstock.core.types import TopicId
from penstock.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LAST_EPOCH = 2**31 - 1


class FetchRequests:
    def __init__(self, throttled: ThrottledFetches) -> None:
        self._throttled = throttled
        self._followed: dict[FollowedKey, Followed] = {}
        self._changed: dict[FollowedKey, None] = {}  # partitions to check for the next request
        self._told: dict[FollowedKey, Followed] = {}  # the partitions in the leader's session
        self._delayed: list[tuple[int, int, Followed]] = []  # by time
        self._delayed_count = 0
        self._number = 0
        self.session_id = _NO_SESSION
        self.session_epoch = _FIRST_EPOCH

    def __len__(self) -> int:
        return len(self._followed)

    def __iter__(self) -> Iterator[Followed]:
        return iter(list(self._followed.values()))

    def add(self, followed: Followed) -> None:
        """Replaces the partition under the same key, of an older epoch."""
        self.remove(followed.key)
        self._followed[followed.key] = followed
        self._changed[followed.key] = None
        self._throttled.look_at(followed)

    def remove(self, key: FollowedKey) -> None:
        gone = self._followed.pop(key, None)
        if gone is not None:
            self._delayed_count -= gone.is_delayed
            gone.is_delayed = False
            self._changed[key] = None
            self._throttled.remove(key)

    def find_asked(self, key: FollowedKey) -> Followed | None:
        """The partitions of the last request; None where the partition was removed, or its epoch is over."""
        followed = self._followed.get(key)
        return followed if followed is not None and self._told.get(key) is followed else None

    def note_taken(self, followed: Followed, size: int = 0) -> None:
        """`size` is the size of the received records."""
        self._changed[followed.key] = None
        if self._throttled.throttle.topics:
            self._throttled.note_taken(followed, size)

    def look_again(self, key: FollowedKey) -> None:
        """The throttle has changed, or the partition has joined or left the in-sync set."""
        followed = self._followed.get(key)
        if followed is not None and not followed.is_delayed:
            self._changed[key] = None
            self._throttled.look_at(followed)

    def delay(self, followed: Followed, due_ms: int) -> None:
        if self._followed.get(followed.key) is followed and not followed.is_delayed:
            followed.is_delayed = True
            # Named again later: a leader that could not find the partition does not look by itself.
            followed.sent = None
            self._delayed_count += 1
            self._number += 1
            heappush(self._delayed, (due_ms, self._number, followed))
            self._changed[followed.key] = None
            self._throttled.remove(followed.key)

    def has_something_to_ask(self) -> bool:
        return len(self._followed) > self._delayed_count + len(self._throttled) or self._throttled.may_grant()

    @property
    def is_empty(self) -> bool:
        """Whether the new request asks for nothing."""
        return not self._told

    def next_due_ms(self, now_ms: int) -> int | None:
        """The time at which a left-out partition may be requested again."""
        free_in_ms = self._throttled.free_in_ms()
        due_ms = self._delayed[0][0] if self._delayed else None
        if free_in_ms is None:
            return due_ms
        return now_ms + free_in_ms if due_ms is None else min(due_ms, now_ms + free_in_ms)

    def wait_ms(self, longest_ms: int) -> int:
        """The time for which the leader may keep a request without news, if partitions left out do not limit it."""
        patience_ms = self._throttled.patience_ms()
        return longest_ms if patience_ms is None else min(longest_ms, patience_ms)

    def build(self, now_ms: int) -> tuple[list[FetchTopic], list[ForgottenTopic]]:
        while self._delayed and self._delayed[0][0] <= now_ms:
            _, _, followed = heappop(self._delayed)
            if followed.is_delayed:
                followed.is_delayed = False
                self._delayed_count -= 1
                self._changed[followed.key] = None
                self._throttled.look_at(followed)
        throttled = self._throttled if self._throttled.is_any else None
        if throttled is not None:
            self._changed.update(dict.fromkeys(throttled.grant()))
        is_first = self.session_epoch == _FIRST_EPOCH
        if is_first:
            self._told.clear()
        named: list[Followed] = []
        forgotten: list[FollowedKey] = []
        for key in list(self._followed) if is_first else self._changed:
            followed_now = self._followed.get(key)
            if followed_now is None or followed_now.is_delayed or (throttled is not None and throttled.is_waiting(key)):
                if self._told.pop(key, None) is not None:
                    forgotten.append(key)
            elif self._told.get(key) is not followed_now or followed_now.sent != followed_now.position:
                self._told[key] = followed_now
                named.append(followed_now)
        self._changed.clear()
        return self._topics(named), [
            ForgottenTopic(topic_id=topic_id, partitions=[index for _, index in keys])
            for topic_id, keys in _by_topic(forgotten)
        ]

    def _topics(self, named: Iterable[Followed]) -> list[FetchTopic]:
        topics: dict[TopicId, list[FetchPartition]] = {}
        for followed in named:
            topics.setdefault(followed.partition.topic_id, []).append(
                followed.ask(self._throttled.max_bytes_of(followed.key))
            )
        return [FetchTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()]

    def note_session(self, session_id: int) -> None:
        """The leader has answered. Without a session the next request names everything again."""
        self._throttled.end()
        if session_id == _NO_SESSION:
            self.reset()
        else:
            self.session_id = session_id
            self.session_epoch = 1 if self.session_epoch == _LAST_EPOCH else self.session_epoch + 1

    def reset(self) -> None:
        self._throttled.end()
        self.session_id, self.session_epoch = _NO_SESSION, _FIRST_EPOCH


def _by_topic(keys: Iterable[FollowedKey]) -> Iterator[tuple[TopicId, list[FollowedKey]]]:
    topics: dict[TopicId, list[FollowedKey]] = {}
    for key in keys:
        topics.setdefault(key[0], []).append(key)
    yield from topics.items()
