"""A leader's state of a partition with several replicas: its followers, the in-sync set, and the waiting requests.

A partition with one replica has none of this.

Rules:
- The leader computes the high watermark after a follower's fetch, after a change of the in-sync set, and after an
  append while the leader is alone in its set. The rules themselves are in `penstock.replication`.
- One change of the in-sync set is in flight at a time. Until the controller has answered, the old set and the new set
  both count: `maximal_isr`.
- A follower's fetch waits for appends, and for a high watermark that the follower does not know. A consumer's fetch
  waits for the high watermark alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.broker.partitions.confirmations import Confirmations
from penstock.broker.partitions.deletions import Deletions
from penstock.broker.partitions.follower_watch import FollowerWatch
from penstock.broker.partitions.throttling import Throttle
from penstock.cluster.image import BrokerRegistration, PartitionState
from penstock.core.clock import Clock
from penstock.core.metrics.cluster_counters import ReplicaMetrics
from penstock.core.types import TopicPartition
from penstock.log.partition_log import PartitionLog
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.replication.acknowledgements import Acknowledgements
from penstock.replication.changes import InSyncChange
from penstock.replication.high_watermark import decide_high_watermark
from penstock.replication.in_sync import decide_acknowledgement, find_lagging, is_below_minimum, may_join
from penstock.replication.progress import NO_BROKER_EPOCH, FollowerProgress


def _take_no_notice(_: TopicPartition) -> None:
    """For a broker without maintained in-sync sets and leases."""


def _is_sure(_: TopicPartition) -> bool:
    """A standalone broker leads for as long as it lives."""
    return True


def _is_session_sure() -> bool:
    return True


class LeaderContext:
    """The context that all partitions of a broker share: the broker's id, the time, and the registered brokers."""

    __slots__ = (
        "brokers",
        "clock",
        "confirmations",
        "is_session_sure",
        "is_sure",
        "lag_max_ms",
        "lease_changed",
        "metrics",
        "node_id",
        "noticed",
        "throttle",
    )

    def __init__(self, node_id: int, clock: Clock, lag_max_ms: int) -> None:
        self.node_id = node_id
        self.clock = clock
        self.lag_max_ms = lag_max_ms
        self.brokers: Mapping[int, BrokerRegistration] = {}  # in the newest image
        # Called for a follower that may join an in-sync set.
        self.noticed: Callable[[TopicPartition], None] = _take_no_notice
        # Called for a leadership that ends before the image says so, and for a leadership that continues.
        self.lease_changed: Callable[[TopicPartition], None] = _take_no_notice
        # Whether this broker may lead a partition with followers at this moment: by the session, or by the lease.
        self.is_sure: Callable[[TopicPartition], bool] = _is_sure
        # Whether the store cannot have given up this broker, so that no other broker leads its partitions.
        self.is_session_sure: Callable[[], bool] = _is_session_sure
        self.confirmations = Confirmations()
        self.metrics = ReplicaMetrics()
        # The throttle of leaders; None as long as no topic names a replica of this broker.
        self.throttle: Throttle | None = None

    def is_eligible(self, node_id: int, broker_epoch: int) -> bool:
        """Whether the fetching broker is the registered broker and is not stopping: only then it may join an in-sync
        set.
        """
        registration = self.brokers.get(node_id)
        return (
            registration is not None
            and not registration.is_stopping
            and broker_epoch in (registration.epoch, NO_BROKER_EPOCH)
        )


class Refusal(NamedTuple):
    """The controller's refusal of a follower. As long as nothing changes, the same request has the same answer."""

    change: InSyncChange
    brokers: Mapping[int, BrokerRegistration]  # in the image at that time
    until_ms: int  # the controller may know more than this broker's image, so the leader asks again some time


class Leading:
    __slots__ = (
        "_context",
        "_log",
        "_wake_readers",
        "acknowledgements",
        "deletions",
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
        log: PartitionLog,
        state: PartitionState,
        context: LeaderContext,
        wake_readers: Callable[[], None],
        former: Leading | None = None,
    ) -> None:
        """`wake_readers` is called when the high watermark has risen. `former` is this broker's state from before its
        suspension. An in-sync set that it requested in this same state may be in force. Its producers still wait: their
        records are in the log, and no leader has truncated them.
        """
        pending_isr = former.pending_isr if former is not None and former.state == state else None
        self._log = log
        self._context = context
        self._wake_readers = wake_readers
        self.state: PartitionState = state
        self.epoch_start = log.epoch_file.begin(state.leader_epoch, log.log_end_offset)
        self.maximal_isr = frozenset((*state.isr, *(pending_isr or ())))
        self.pending_isr: tuple[int, ...] | None = pending_isr  # requested from the controller, and not answered yet
        self.refusal: Refusal | None = None  # of the last requested change
        self.followers: dict[int, FollowerProgress] = {}
        self.watches: dict[FollowerWatch, None] = {}  # the fetch sessions of followers
        self.acknowledgements: Acknowledgements = Acknowledgements() if former is None else former.acknowledgements
        self.deletions = Deletions()
        self._meet(state)
        self.raise_high_watermark()

    # -------------------------------------------------------------------------------------------- the image

    def follow(self, state: PartitionState) -> None:
        """Follows a newer state in which this broker leads, too: the state has the in-sync set, and no change is in
        flight.
        """
        if state.leader_epoch != self.state.leader_epoch:
            self.acknowledgements.end_epoch(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            now_ms, end = self._context.clock.monotonic_ms(), self._log.log_end_offset
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
        self._meet(state)
        self.raise_high_watermark()
        self.tell_followers()  # epoch or replicas may have changed

    def _count_change(self, before: tuple[int, ...], asked: tuple[int, ...], after: tuple[int, ...]) -> None:
        """As in Kafka, changes that the controller makes by itself do not count here."""
        wanted = set(before) ^ set(asked)
        if not wanted & (set(asked) ^ set(after)):
            self._context.metrics.isr_expands += len(asked) > len(before)
            self._context.metrics.isr_shrinks += len(asked) < len(before)

    def _meet(self, state: PartitionState) -> None:
        now_ms = self._context.clock.monotonic_ms()
        for node_id in state.replicas:
            if node_id != self._context.node_id and node_id not in self.followers:
                self.followers[node_id] = FollowerProgress(node_id in self.maximal_isr, now_ms)
        for node_id in [each for each in self.followers if each not in state.replicas]:
            del self.followers[node_id]

    def suspend(self) -> None:
        """Another broker may lead. Producers wait on: their records are in this log, so no error may deny them. The
        waits of this epoch end (`acknowledgements`).
        """
        self.acknowledgements.end_epoch(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self.deletions.look_again()
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

    def appended(self, size: int) -> None:
        self.tell_followers(size)
        if len(self.maximal_isr) == 1:
            self.raise_high_watermark()

    def progress_of(self, node_id: int, broker_epoch: int, is_epoch_known: bool) -> FollowerProgress:
        """The progress of a fetching follower; ApiError where its fetch counts for nothing. A follower that knows this
        leader's epoch and is no replica in this broker's image has a newer image (Kafka's `followerReplicaOrThrow`).
        The leader does not believe a broker epoch that its image does not know yet: a made-up epoch would make the
        follower's own fetches look outdated.
        """
        progress, registration = self.followers.get(node_id), self._context.brokers.get(node_id)
        if progress is None or registration is None:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if is_epoch_known else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if broker_epoch > registration.epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} is not known in that epoch yet")
        if progress.is_outdated(broker_epoch):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {node_id} has started anew meanwhile")
        return progress

    def note_fetch(
        self, node_id: int, progress: FollowerProgress, fetch_offset: int, log_start_offset: int, broker_epoch: int
    ) -> None:
        log = self._log
        has_moved = fetch_offset != progress.log_end_offset
        has_deleted = log_start_offset != progress.log_start_offset
        now_ms = self._context.clock.monotonic_ms()
        progress.note_fetch(fetch_offset, log_start_offset, log.log_end_offset, now_ms, broker_epoch)
        if has_moved:
            self.raise_high_watermark()
        if has_deleted:
            self.deletions.look_again()
        if node_id not in self.maximal_isr and self.may_join(node_id):
            self._context.noticed(log.topic_partition)

    # -------------------------------------------------------------------------------------------- the high watermark

    def raise_high_watermark(self) -> None:
        log, state = self._log, self.state
        if is_below_minimum(len(state.isr), log.settings.min_insync_replicas, len(state.replicas)):
            return
        end, maximal_isr = log.log_end_offset, self.maximal_isr
        ends = [
            progress.log_end_offset
            for node_id, progress in self.followers.items()
            if progress.log_end_offset < end and (node_id in maximal_isr or self._is_joining(node_id, progress, end))
        ]
        high_watermark = decide_high_watermark(log.high_watermark, end, ends)
        if high_watermark > log.high_watermark:
            log.advance_high_watermark(high_watermark)
            self._wake_readers()
            for watch in list(self.watches):
                watch.note_high_watermark(self)
        if self.acknowledgements:
            self._acknowledge()

    def is_waited_for(self, node_id: int, progress: FollowerProgress) -> bool:
        """Whether the high watermark may wait for the follower: such a follower is never throttled."""
        return node_id in self.maximal_isr or self._is_joining(node_id, progress, self._log.log_end_offset)

    def _is_joining(self, node_id: int, progress: FollowerProgress, end: int) -> bool:
        """Whether a follower outside of the set keeps up: the high watermark waits for it, so that it can join."""
        context = self._context
        return progress.is_caught_up(end, context.clock.monotonic_ms(), context.lag_max_ms) and context.is_eligible(
            node_id, progress.broker_epoch
        )

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
        brokers = self._context.brokers
        starts = [progress.log_start_offset for node_id, progress in self.followers.items() if node_id in brokers]
        return min((self._log.log_start_offset, *starts))

    # -------------------------------------------------------------------------------------------- the in-sync set

    def propose(self, isr: tuple[int, ...]) -> None:
        """Notes that the controller was asked for this set. The set may be in force from now on."""
        self.pending_isr = isr
        self.maximal_isr = frozenset((*self.state.isr, *isr))
        if self._context.throttle is not None:
            self.tell_followers()  # a member of the requested set is not throttled any more

    def withdraw(self) -> None:
        """The controller has refused: the committed set is in force."""
        self.pending_isr = None
        self.maximal_isr = frozenset(self.state.isr)
        self.raise_high_watermark()

    def candidates(self) -> list[int]:
        return [each for each in self.followers if each not in self.state.isr and self.may_join(each)]

    def may_join(self, node_id: int) -> bool:
        progress, log = self.followers[node_id], self._log
        return (
            may_join(progress.log_end_offset, log.high_watermark, self.epoch_start)
            and node_id in self.state.replicas
            and self._context.is_eligible(node_id, progress.broker_epoch)
        )

    def lagging(self) -> list[int]:
        context = self._context
        return find_lagging(
            self.state.isr, self.followers, self._log.log_end_offset, context.clock.monotonic_ms(), context.lag_max_ms
        )

    def have_followed_since(self, question: int) -> bool:
        """Whether all other members of the in-sync set have followed since, also a requested member
        (`confirmations`).
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
