"""A leader's state of a partition with several replicas: its followers, the in-sync set, the waits of writers. Pure.

A partition with one replica has none of this. The broker drives the state: it passes the time, and the news of the
image, of followers' fetches and of appends. The state answers, raises the log's high watermark, and causes no other
effects than those of `Effects` and `Watch`.

Rules:
- The leader computes the high watermark after a follower's fetch, after a change of the in-sync set, and after an
  append while the leader is alone in its set (`high_watermark`, `in_sync`).
- One change of the in-sync set is in flight at a time. Until the controller has answered, the old set and the new set
  both count: `maximal_isr`.
- A follower's fetch waits for appends, and for a high watermark that the follower does not know. A consumer's fetch
  waits for the high watermark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from penstock.core.metrics.cluster_counters import ReplicaMetrics
from penstock.core.partition_state import PartitionState
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.acknowledgements import Acknowledgements
from penstock.replication.changes import InSyncChange
from penstock.replication.high_watermark import decide_high_watermark
from penstock.replication.in_sync import decide_acknowledgement, find_lagging, is_below_minimum, may_join
from penstock.replication.progress import FollowerProgress


class LeaderSettings(Protocol):
    @property
    def min_insync_replicas(self) -> int: ...


class EpochStarts(Protocol):
    def begin(self, leader_epoch: int, end_offset: int, /) -> int:
        """Notes the begin of a leader's epoch, in memory. Returns its first offset."""


class LeaderLog(Protocol):
    """The parts of the partition's log that its leader uses."""

    @property
    def settings(self) -> LeaderSettings: ...

    @property
    def epoch_file(self) -> EpochStarts: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def advance_high_watermark(self, offset: int, /) -> None: ...


class Registration(Protocol):
    @property
    def epoch(self) -> int: ...


class ClusterView(Protocol):
    """The parts of its broker and of the newest image that a leader uses."""

    @property
    def node_id(self) -> int: ...

    @property
    def lag_max_ms(self) -> int: ...

    @property
    def brokers(self) -> Mapping[int, Registration]: ...

    @property
    def metrics(self) -> ReplicaMetrics: ...

    @property
    def is_throttling(self) -> bool:
        """Whether followers outside of the in-sync set may be held back."""

    def is_eligible(self, node_id: int, broker_epoch: int, /) -> bool:
        """Whether the fetching broker may join an in-sync set."""


class Effects(NamedTuple):
    """Requests that wait at the partition look again."""

    wake_readers: Callable[[], None]  # the high watermark has risen
    wake_deleters: Callable[[], None]  # a replica has moved the start of its log, or this broker leads no more


class Watch(Protocol):
    """The fetch session of a follower."""

    followed: int
    last_fetch_ms: int

    @property
    def node_id(self) -> int: ...

    def note(self, leading: LeaderState, size: int, /) -> None:
        """Notes news: bytes, or no size for an event that the follower has to learn at once."""

    def note_high_watermark(self, leading: LeaderState, /) -> None: ...

    def hurry(self) -> None:
        """Wakes the waiting fetch soon."""


class Refusal(NamedTuple):
    """The controller's refusal of a follower. As long as nothing changes, the same request has the same answer."""

    change: InSyncChange
    brokers: Mapping[int, Registration]  # in the image at that time
    until_ms: int  # the controller may know more than this broker's image, so the leader asks again some time


class LeaderState:
    __slots__ = (
        "_effects",
        "_log",
        "_view",
        "acknowledgements",
        "epoch_start",
        "followers",
        "maximal_isr",
        "pending_isr",
        "refusal",
        "state",
        "watches",
    )

    def __init__(
        self,
        log: LeaderLog,
        state: PartitionState,
        view: ClusterView,
        effects: Effects,
        now_ms: int,
        former: LeaderState | None = None,
    ) -> None:
        """`former` is this broker's state from before its suspension. An in-sync set that it requested in this same
        state may be in force. Its producers still wait: their records are in the log, and no leader has truncated
        them.
        """
        pending_isr = former.pending_isr if former is not None and former.state == state else None
        self._log = log
        self._view = view
        self._effects = effects
        self.state: PartitionState = state
        self.epoch_start = log.epoch_file.begin(state.leader_epoch, log.log_end_offset)
        self.maximal_isr = frozenset((*state.isr, *(pending_isr or ())))
        self.pending_isr: tuple[int, ...] | None = pending_isr  # requested from the controller, and not answered yet
        self.refusal: Refusal | None = None  # of the last requested change
        self.followers: dict[int, FollowerProgress] = {}
        self.watches: dict[Watch, None] = {}  # the fetch sessions of followers
        self.acknowledgements: Acknowledgements = Acknowledgements() if former is None else former.acknowledgements
        self._meet(state, now_ms)
        self.raise_high_watermark(now_ms)

    # -------------------------------------------------------------------------------------------- the image

    def follow(self, state: PartitionState, now_ms: int) -> None:
        """Follows a newer state in which this broker leads, too: the state has the in-sync set, and no change is in
        flight.
        """
        if state.leader_epoch != self.state.leader_epoch:
            self.acknowledgements.end_epoch(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            end = self._log.log_end_offset
            self.epoch_start = self._log.epoch_file.begin(state.leader_epoch, end)
            has_led_on = state.leader_epoch == self.state.leader_epoch + 1
            for node_id, progress in self.followers.items():
                progress.begin_epoch(node_id in state.isr, end, now_ms, has_led_on)
        for node_id, progress in self.followers.items():
            if node_id in self.state.isr and node_id not in state.isr:
                progress.leave()
        if self.pending_isr is not None:
            self._count_change(self.state.isr, self.pending_isr, state.isr)
        self.state = state
        self.maximal_isr = frozenset(state.isr)
        self.pending_isr = None
        self._meet(state, now_ms)
        self.raise_high_watermark(now_ms)
        self.tell_followers()  # epoch or replicas may have changed

    def _count_change(self, before: tuple[int, ...], asked: tuple[int, ...], after: tuple[int, ...]) -> None:
        """As in Kafka, changes that the controller makes by itself do not count here."""
        wanted = set(before) ^ set(asked)
        if not wanted & (set(asked) ^ set(after)):
            self._view.metrics.isr_expands += len(asked) > len(before)
            self._view.metrics.isr_shrinks += len(asked) < len(before)

    def _meet(self, state: PartitionState, now_ms: int) -> None:
        for node_id in state.replicas:
            if node_id != self._view.node_id and node_id not in self.followers:
                self.followers[node_id] = FollowerProgress(node_id in self.maximal_isr, now_ms)
        for node_id in [each for each in self.followers if each not in state.replicas]:
            del self.followers[node_id]

    def suspend(self) -> None:
        """Another broker may lead. Producers wait on: their records are in this log, so no error may deny them. The
        waits of this epoch end (`acknowledgements`).
        """
        self.acknowledgements.end_epoch(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._effects.wake_deleters()
        self.tell_followers()

    def resign(self) -> None:
        """Another broker leads, or none does: waiting requests look for the new leader."""
        self.acknowledgements.refuse_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.suspend()

    def lose_followers(self) -> None:
        """This broker is the only replica from now on. The leader epoch has changed, because replicas have left."""
        self.acknowledgements.end_epoch(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.acknowledgements.release(self._log.high_watermark, ErrorCode.NONE)
        self.resign()

    def tell_followers(self, size: int = 0) -> None:
        """Tells followers of new bytes, or of any other news."""
        for watch in list(self.watches):
            watch.note(self, size)

    # -------------------------------------------------------------------------------------------- appends and fetches

    def appended(self, size: int) -> bool:
        """Whether the caller must raise the high watermark, because no other replica may be in sync."""
        self.tell_followers(size)
        return len(self.maximal_isr) == 1

    def progress_of(self, node_id: int, broker_epoch: int, is_epoch_known: bool) -> FollowerProgress:
        """The progress of a fetching follower; ApiError where its fetch counts for nothing. A follower that knows this
        leader's epoch and is no replica in this broker's image has a newer image (Kafka's `followerReplicaOrThrow`).
        The leader does not believe a broker epoch that its image does not know yet: a made-up epoch would make the
        follower's own fetches look outdated.
        """
        progress, registration = self.followers.get(node_id), self._view.brokers.get(node_id)
        if progress is None or registration is None:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if broker_epoch > registration.epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} is not known in that epoch yet")
        if progress.is_outdated(broker_epoch):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} has started anew meanwhile")
        return progress

    def note_fetch(
        self,
        node_id: int,
        progress: FollowerProgress,
        fetch_offset: int,
        log_start_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """Whether the follower should join the in-sync set now."""
        log = self._log
        has_moved = fetch_offset != progress.log_end_offset
        has_deleted = log_start_offset != progress.log_start_offset
        progress.note_fetch(fetch_offset, log_start_offset, log.log_end_offset, now_ms, broker_epoch)
        if has_moved:
            self.raise_high_watermark(now_ms)
        if has_deleted:
            self._effects.wake_deleters()
        return node_id not in self.maximal_isr and self.may_join(node_id)

    # -------------------------------------------------------------------------------------------- the high watermark

    def raise_high_watermark(self, now_ms: int) -> None:
        log, state = self._log, self.state
        if is_below_minimum(len(state.isr), log.settings.min_insync_replicas, len(state.replicas)):
            return
        end, maximal_isr = log.log_end_offset, self.maximal_isr
        ends = [
            each.log_end_offset
            for node_id, each in self.followers.items()
            if each.log_end_offset < end and (node_id in maximal_isr or self._is_joining(node_id, each, end, now_ms))
        ]
        high_watermark = decide_high_watermark(log.high_watermark, end, ends)
        if high_watermark > log.high_watermark:
            log.advance_high_watermark(high_watermark)
            self._effects.wake_readers()
            for watch in list(self.watches):
                watch.note_high_watermark(self)
        if self.acknowledgements:
            self._acknowledge()

    def is_waited_for(self, node_id: int, progress: FollowerProgress, now_ms: int) -> bool:
        """Whether the high watermark may wait for the follower: such a follower is never throttled."""
        return node_id in self.maximal_isr or self._is_joining(node_id, progress, self._log.log_end_offset, now_ms)

    def _is_joining(self, node_id: int, progress: FollowerProgress, end: int, now_ms: int) -> bool:
        """Whether a follower outside of the set keeps up: the high watermark waits for it, so that it can join."""
        view = self._view
        return progress.is_caught_up(end, now_ms, view.lag_max_ms) and view.is_eligible(node_id, progress.broker_epoch)

    def _acknowledge(self) -> None:
        code = self.judge(self._log.high_watermark)
        if code is not None:
            self.acknowledgements.release(self._log.high_watermark, code)

    def judge(self, end_offset: int) -> ErrorCode | None:
        """The code for a wait for records up to `end_offset`; None to wait."""
        log, state = self._log, self.state
        minimum = log.settings.min_insync_replicas
        return decide_acknowledgement(log.high_watermark, end_offset, len(state.isr), minimum, len(state.replicas))

    # -------------------------------------------------------------------------------------------- deleted records

    def low_watermark(self) -> int:
        """The lowest start of the logs of all live replicas, as far as the leader knows."""
        brokers = self._view.brokers
        starts = [progress.log_start_offset for node_id, progress in self.followers.items() if node_id in brokers]
        return min((self._log.log_start_offset, *starts))

    # -------------------------------------------------------------------------------------------- the in-sync set

    def propose(self, isr: tuple[int, ...]) -> None:
        """Notes that the controller was asked for this set. The set may be in force from now on."""
        self.pending_isr = isr
        self.maximal_isr = frozenset((*self.state.isr, *isr))
        if self._view.is_throttling:
            self.tell_followers()  # a member of the requested set is not throttled any more

    def withdraw(self, now_ms: int) -> None:
        """The controller has refused: the committed set is in force."""
        self.pending_isr = None
        self.maximal_isr = frozenset(self.state.isr)
        self.raise_high_watermark(now_ms)

    def candidates(self) -> list[int]:
        return [each for each in self.followers if each not in self.state.isr and self.may_join(each)]

    def may_join(self, node_id: int) -> bool:
        progress, log = self.followers[node_id], self._log
        return (
            may_join(progress.log_end_offset, log.high_watermark, self.epoch_start)
            and node_id in self.state.replicas
            and self._view.is_eligible(node_id, progress.broker_epoch)
        )

    def lagging(self, now_ms: int) -> list[int]:
        end, lag_max_ms = self._log.log_end_offset, self._view.lag_max_ms
        return find_lagging(self.state.isr, self.followers, end, now_ms, lag_max_ms)

    def have_followed_since(self, question: int) -> bool:
        """Whether all other members of the in-sync set have followed since, also a requested member
        (`penstock.broker.partitions.confirmations`).
        """
        followers = {watch.node_id for watch in self.watches if watch.followed >= question}
        return all(each in followers for each in self.followers if each in self.maximal_isr)

    def last_fetches_ms(self) -> list[int]:
        """The times of the last fetches by the other members of the in-sync set, also by a requested member: it may be
        in force. Fetches that did not name this partition count as well.
        """
        fetches = {
            each: progress.last_fetch_ms for each, progress in self.followers.items() if each in self.maximal_isr
        }
        for watch in self.watches:
            if watch.node_id in fetches:
                fetches[watch.node_id] = max(fetches[watch.node_id], watch.last_fetch_ms)
        return list(fetches.values())
