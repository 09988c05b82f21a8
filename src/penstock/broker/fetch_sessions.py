"""Incremental fetch sessions (KIP-227): the broker remembers what a client fetches, so that a request names only
changes.

Rules. A request carries a session id and an epoch.
- Epoch -1: one full fetch without a session. A session that is named ends.
- Epoch 0: a full fetch that asks for a new session. A session that is named ends. Without room the answer is session 0.
- Epoch n > 0: changes to the session. n must follow the epoch before it, else INVALID_FETCH_SESSION_EPOCH. A session
  that is left without partitions ends, and the answer is session 0.

An incremental answer names a partition only if it has something to say: records, an error, an epoch that diverges, or
a moved high watermark or log start. What was answered with records goes to the end of the order, so that no partition
starves behind a busy one.

Followers have a place of their own, one session for each registered broker: however many sessions clients open, and
however much they name, no follower's session goes for it. Only a fetch that names the follower ends or continues its
session. Where no authorizer tells brokers from clients, any client can send such a fetch.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.core.limits import MAX_TOPIC_NAME_LENGTH
from penstock.core.metrics.counters import PurgatoryMetrics
from penstock.core.types import TopicId
from penstock.protocol.errors import ApiError, ErrorCode

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1

# Partitions of all sessions of clients together: about 100 MB, or 160 MB where every name is as long as a topic's may
# be. A client may name any number, existing or not. Without room a client gets no session and says everything in every
# request, which works as well. The same goes for a client that names what no topic can be called. The session of each
# registered broker may have as many again, and without an authorizer a client can fetch in the name of one.
MAX_PARTITIONS = 200_000

# (topic id or name, partition): requests from version 13 on know topics by id alone.
PartitionKey = tuple[TopicId | str, int]


class FetchTarget(NamedTuple):
    """One partition as the client asked for it."""

    topic: TopicId | str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    # What a follower says of its own log. A watermark of none is one that nobody has to tell.
    log_start_offset: int = -1
    high_watermark: int = 2**63 - 1

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.partition

    @property
    def may_be_remembered(self) -> bool:
        topic = self.topic
        return isinstance(topic, bytes) or (len(topic) <= MAX_TOPIC_NAME_LENGTH and topic.isascii())


class Answered(NamedTuple):
    """What the client was last told of a partition."""

    high_watermark: int
    log_start_offset: int


_NEVER = Answered(-1, -1)


class FetchSession:
    __slots__ = ("answered", "epoch", "id", "last_used_ms", "targets", "uses_topic_ids", "watch")

    def __init__(
        self,
        session_id: int,
        uses_topic_ids: bool,
        targets: Iterable[FetchTarget],
        now_ms: int,
        watch: FollowerWatch | None = None,
    ) -> None:
        self.id = session_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1  # the epoch the next request must carry
        self.last_used_ms = now_ms
        self.targets: OrderedDict[PartitionKey, FetchTarget] = OrderedDict((t.key, t) for t in targets)
        self.answered: dict[PartitionKey, Answered] = {}
        self.watch = watch  # of a follower's session

    def update(self, changed: Iterable[FetchTarget], forgotten: Iterable[PartitionKey]) -> None:
        for key in forgotten:
            self.targets.pop(key, None)
            self.answered.pop(key, None)
            if self.watch is not None:
                self.watch.detach(key)
        for target in changed:
            self.targets[target.key] = target
            if self.watch is not None:
                self.watch.name(target.key)

    def due(self) -> list[FetchTarget]:
        """What the next answer may be about: all partitions, or those with news where the leader tells of it."""
        if self.watch is None:
            return list(self.targets.values())
        return [self.targets[key] for key in self.watch.take_news() if key in self.targets]

    def must_answer(
        self,
        key: PartitionKey,
        error_code: int,
        high_watermark: int,
        log_start_offset: int,
        size: int,
        is_urgent: bool = False,
    ) -> bool:
        """Decides whether an incremental answer names the partition, and remembers what it says if so. Urgent is what
        the client does not know whatever it was told: that its log diverges, or how far it may be read.
        """
        told = Answered(high_watermark, log_start_offset)
        if error_code or is_urgent:
            self.answered.pop(key, None)  # so that recovery is told, too
            return True
        if size:
            if key in self.targets:  # a later request of the session may have dropped it while this one waited
                self.targets.move_to_end(key)
        elif self.answered.get(key, _NEVER) == told:
            return False
        self.answered[key] = told
        return True


@dataclass(slots=True)
class FetchPlan:
    """What to read for one request, and which session the answer names."""

    targets: list[FetchTarget]
    session: FetchSession | None = None
    is_incremental: bool = False
    watch: FollowerWatch | None = None  # of a follower

    def look_again(self) -> None:
        """The targets of a follower are those so far and those with news since; a consumer's are all."""
        session = self.session
        if session is None:
            return
        due = session.due()
        if session.watch is None:
            self.targets = due
        elif due:
            self.targets = list({target.key: target for target in (*self.targets, *due)}.values())


class FetchSessions:
    """All sessions of a broker. Those of clients are bounded in number and in partitions, all of them together; an old
    one makes room only if unused for `eviction_ms`. A follower's is bounded in partitions by itself.
    """

    def __init__(
        self,
        slots: int,
        eviction_ms: int,
        metrics: PurgatoryMetrics,
        choose_id: random.Random,
        max_partitions: int = MAX_PARTITIONS,
    ) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._metrics = metrics
        self._random = choose_id
        self._max_partitions = max_partitions
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._followers: dict[int, int] = {}  # session ids by node id
        self._client_partition_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partition_count(self) -> int:
        """Of all sessions."""
        followers = (self._sessions[session_id] for session_id in self._followers.values())
        return self._client_partition_count + sum(len(session.targets) for session in followers)

    def plan(
        self,
        session_id: int,
        epoch: int,
        targets: list[FetchTarget],
        forgotten: list[PartitionKey],
        uses_topic_ids: bool,
        now_ms: int,
        follower: int | None = None,
    ) -> FetchPlan:
        """`follower` is the id of a registered broker. It has one session, for which there is always room."""
        named = self._sessions.get(session_id)
        is_foreign = named is not None and named.watch is not None and named.watch.node_id != follower
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if not is_foreign:
                self._remove(session_id)
            watch = None if follower is None else FollowerWatch(follower)
            if epoch == FINAL_EPOCH:
                return FetchPlan(targets, watch=watch)
            if follower is not None:
                self._remove(self._followers.get(follower, NO_SESSION))
            session = self._create(targets, uses_topic_ids, now_ms, watch)
            if follower is not None and session is not None:
                self._followers[follower] = session.id
            return FetchPlan(targets, session, watch=watch)
        if is_foreign:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session = self._continue(session_id, epoch, uses_topic_ids, now_ms)
        if follower is not None and session.watch is None:  # begun when the broker was not registered yet
            self._remove(session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._change(session, targets, forgotten)
        if not session.targets:
            self._remove(session_id)
            return FetchPlan([])
        return FetchPlan(session.due(), session, is_incremental=True, watch=session.watch)

    def extend(self, plan: FetchPlan, targets: list[FetchTarget], forgotten: list[PartitionKey]) -> None:
        """More of a request that names so much that it is planned in several turns of the loop. Fails like `plan`.

        Between two turns another request may have ended the session, whose partitions count no longer.
        """
        if plan.session is not None and self._sessions.get(plan.session.id) is not plan.session:
            if plan.is_incremental:
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            plan.session = None
        if plan.session is not None and (plan.is_incremental or self._has_room(targets, plan.session)):
            self._change(plan.session, targets, forgotten)
        elif plan.session is not None:  # without a session the client is served as well
            self._remove(plan.session.id)
            plan.session = None
        if not plan.is_incremental:
            plan.targets += targets

    def complete(self, plan: FetchPlan) -> None:
        """All of such a request is known."""
        if plan.is_incremental and plan.session is not None:
            plan.look_again()
            if not plan.session.targets:
                self._remove(plan.session.id)
                plan.session = None

    def drop(self, session: FetchSession) -> None:
        """Ends a session whose client was not told of it."""
        if self._sessions.get(session.id) is session:
            self._remove(session.id)

    def _change(self, session: FetchSession, targets: list[FetchTarget], forgotten: list[PartitionKey]) -> None:
        size_before = len(session.targets)
        is_bounded = all(target.may_be_remembered for target in targets)
        if is_bounded:
            session.update(targets, forgotten)
        self._count(session, len(session.targets) - size_before)
        is_too_large = self._counted(session) > self._max_partitions and len(session.targets) > size_before
        if is_too_large or not is_bounded:
            self._remove(session.id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # the client starts anew with a full fetch

    def _has_room(self, targets: list[FetchTarget], session: FetchSession | None = None) -> bool:
        """`session` is a follower's, or None for one of a client."""
        counted = self._client_partition_count if session is None else self._counted(session)
        return counted + len(targets) <= self._max_partitions and all(target.may_be_remembered for target in targets)

    def _counted(self, session: FetchSession) -> int:
        return self._client_partition_count if session.watch is None else len(session.targets)

    def _count(self, session: FetchSession, change: int) -> None:
        if session.watch is None:
            self._client_partition_count += change

    def _continue(self, session_id: int, epoch: int, uses_topic_ids: bool, now_ms: int) -> FetchSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        return session

    def _create(
        self, targets: list[FetchTarget], uses_topic_ids: bool, now_ms: int, watch: FollowerWatch | None
    ) -> FetchSession | None:
        if watch is None:
            if len(self._sessions) - len(self._followers) >= self._slots and not self._evict_oldest(now_ms):
                return None
            if not self._has_room(targets):
                return None
        session_id = self._random.randint(1, _MAX_EPOCH)
        while session_id in self._sessions:
            session_id = self._random.randint(1, _MAX_EPOCH)
        session = FetchSession(session_id, uses_topic_ids, targets, now_ms, watch)
        self._sessions[session_id] = session
        self._count(session, len(session.targets))
        return session

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._count(session, -len(session.targets))
            if session.watch is not None:
                self._followers.pop(session.watch.node_id, None)
                session.watch.close()

    def _evict_oldest(self, now_ms: int) -> bool:
        """The order is by last use, so only the first of a client needs a look."""
        oldest = next((each for each in self._sessions.values() if each.watch is None), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        self._remove(oldest.id)
        self._metrics.session_evictions += 1
        return True
