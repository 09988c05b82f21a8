"""Incremental fetch sessions (KIP-227): the broker remembers the partitions of a client, so that a request names only
changes.

Rules. A request carries a session id and an epoch.
- Epoch -1: one full fetch without a session. A session that the request names ends.
- Epoch 0: a full fetch that asks for a new session. A session that the request names ends. Without room the answer is
  session 0.
- Epoch n > 0: changes to the session. n must follow the previous epoch, otherwise INVALID_FETCH_SESSION_EPOCH. A
  session without partitions ends, and the answer is session 0.

An incremental answer names a partition only for records, an error, a diverging epoch, or a moved high watermark or log
start. A partition that gave records goes to the end of the order, so that no partition starves behind a busy one.

Followers have room of their own, one session for each registered broker: however many sessions clients open, and
however many partitions clients name, no follower's session is evicted for them. Only a fetch that names the follower
ends or continues its session. Without an authorizer, which tells brokers from clients, any client can send such a
fetch.
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

# The number of partitions in all sessions of clients together: about 100 MB, or 160 MB where every name has the maximum
# length. A client may name any number of partitions, existing or not. Without room a client gets no session and names
# all partitions in every request, which works as well. The same applies to a client that names impossible topic names.
# The session of each registered broker may have as many partitions again, and without an authorizer a client can fetch
# in a broker's name.
MAX_PARTITIONS = 200_000

# (topic id or name, partition): requests from version 13 on name topics by id alone.
PartitionKey = tuple[TopicId | str, int]


class FetchTarget(NamedTuple):
    """One partition of a client's request."""

    topic: TopicId | str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    # A follower's report of its own log. Without a watermark the leader need not send the high watermark.
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
    """The contents of the last answer about a partition."""

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
        self.epoch = 1  # the epoch that the next request must carry
        self.last_used_ms = now_ms
        self.targets: OrderedDict[PartitionKey, FetchTarget] = OrderedDict((t.key, t) for t in targets)
        self.answered: dict[PartitionKey, Answered] = {}
        self.watch = watch  # set in a follower's session

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
        """The partitions that the next answer may name: all partitions, or those with news where a watch finds them."""
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
        """Decides whether an incremental answer names the partition, and remembers the answer's contents if so. The
        broker sends urgent answers even if the last answer had the same contents: the log diverges, or the client does
        not know the end of its reads.
        """
        told = Answered(high_watermark, log_start_offset)
        if error_code or is_urgent:
            self.answered.pop(key, None)  # so that the client learns of the recovery, too
            return True
        if size:
            # A later request of the session may have dropped the partition while this request waited.
            if key in self.targets:
                self.targets.move_to_end(key)
        elif self.answered.get(key, _NEVER) == told:
            return False
        self.answered[key] = told
        return True


@dataclass(slots=True)
class FetchPlan:
    """The partitions to read for one request, and the session that the answer names."""

    targets: list[FetchTarget]
    session: FetchSession | None = None
    is_incremental: bool = False
    watch: FollowerWatch | None = None  # set for a follower

    def look_again(self) -> None:
        """Collects the targets again: for a follower the earlier targets and the partitions with news since, for a
        consumer all targets.
        """
        session = self.session
        if session is None:
            return
        due = session.due()
        if session.watch is None:
            self.targets = due
        elif due:
            self.targets = list({target.key: target for target in (*self.targets, *due)}.values())


class FetchSessions:
    """All sessions of a broker. The sessions of clients are bounded in number and in partitions, all of them together;
    an old session makes room only if unused for `eviction_ms`. A follower's session has a bound of its own.
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
        """The number of partitions of all sessions."""
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
        """Plans a fetch. `follower` is the id of a registered broker. It has one session, for which there is always
        room.
        """
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
        if follower is not None and session.watch is None:  # the session began before the broker was registered
            self._remove(session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        self._change(session, targets, forgotten)
        if not session.targets:
            self._remove(session_id)
            return FetchPlan([])
        return FetchPlan(session.due(), session, is_incremental=True, watch=session.watch)

    def extend(self, plan: FetchPlan, targets: list[FetchTarget], forgotten: list[PartitionKey]) -> None:
        """Adds partitions of a large request, whose plan takes several turns of the loop. Fails like `plan`.

        Between two turns another request may have ended the session; its partitions do not count any longer.
        """
        if plan.session is not None and self._sessions.get(plan.session.id) is not plan.session:
            if plan.is_incremental:
                raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            plan.session = None
        if plan.session is not None and (plan.is_incremental or self._has_room(targets, plan.session)):
            self._change(plan.session, targets, forgotten)
        elif plan.session is not None:  # without a session the broker serves the client as well
            self._remove(plan.session.id)
            plan.session = None
        if not plan.is_incremental:
            plan.targets += targets

    def complete(self, plan: FetchPlan) -> None:
        """Ends the plan of such a request: all its partitions are known."""
        if plan.is_incremental and plan.session is not None:
            plan.look_again()
            if not plan.session.targets:
                self._remove(plan.session.id)
                plan.session = None

    def drop(self, session: FetchSession) -> None:
        """Ends a session that no client knows."""
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
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)  # the client begins again with a full fetch

    def _has_room(self, targets: list[FetchTarget], session: FetchSession | None = None) -> bool:
        """Whether there is room. `session` is a follower's session, or None for a client's session."""
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
        """Evicts the oldest session of a client. The order is by last use, so only the first of a client needs a
        check.
        """
        oldest = next((each for each in self._sessions.values() if each.watch is None), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        self._remove(oldest.id)
        self._metrics.session_evictions += 1
        return True
