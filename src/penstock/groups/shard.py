"""The groups of one partition of `__consumer_offsets`: replay builds them, and timers and failed appends change them.

- Committed offsets, and all recorded state of a KIP-848 group, change by replay alone.
- A classic group takes its recorded generation, the assignments and the state Stable from replay. Its members and the
  rebalance in progress are soft, as in Kafka: they change in memory before anything is recorded, and a coordinator that
  dies falls back to the recorded generation.
- Four changes reach memory before their record and are undone if the record cannot be written (`AppendPurpose`): a new
  classic group, a replaced static member, a KIP-848 group that becomes classic; and an assignment, for which a new
  rebalance asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.coordinators.errors import coordinator_error
from penstock.coordinators.record_framing import SkippedRecords, UnknownRecord
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import NO_OFFSET, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition, new_uuid
from penstock.groups.classic.group import ClassicGroup, GroupState, Member
from penstock.groups.classic.rebalance import Rebalance
from penstock.groups.consumer.group import ConsumerGroup, Group
from penstock.groups.consumer.replay import is_tombstone, replay_change
from penstock.groups.consumer.step import ConsumerStep
from penstock.groups.offsets import OffsetsByPartition, OffsetStore
from penstock.groups.outcome import AppendPurpose, GroupOutcome, PendingAppend, TimerKey, TimerKind
from penstock.groups.records.consumer_groups import ConsumerChange
from penstock.groups.records.consumer_offsets import (
    AnyChange,
    GroupChange,
    OffsetChange,
    decode_record,
    encode_group,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.topics import Topics
from penstock.protocol.errors import ErrorCode

# A member id is written as a string of at most 32,767 bytes; a character takes up to 4, and "-" with the UUID takes 37.
_MAX_PREFIX_CHARACTERS = 8_000
_NO_TOPICS = Topics()


class GroupShard:
    def __init__(
        self,
        partition: int,
        settings: GroupSettings,
        new_suffix: Callable[[], str] = new_uuid,
        topics: Topics = _NO_TOPICS,
    ) -> None:
        self.partition = partition
        self.settings = settings
        # The settings of groups with settings of their own; `GroupCoordinator.change_settings` puts them here.
        self.settings_by_group: Mapping[str, GroupSettings] = {}
        self.topics = topics
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self._new_suffix = new_suffix
        self._skipped = SkippedRecords(CONSUMER_OFFSETS, partition)

    def outcome(self) -> GroupOutcome:
        return GroupOutcome(self.partition)

    def rebalance(self, group: ClassicGroup, outcome: GroupOutcome, now_ms: int) -> Rebalance:
        return Rebalance(group, outcome, self.settings, now_ms)

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix[:_MAX_PREFIX_CHARACTERS]}-{self._new_suffix()}"

    def consumer_step(self, group: ConsumerGroup, outcome: GroupOutcome, now_ms: int) -> ConsumerStep:
        return ConsumerStep(group, outcome, self.settings_of(group.group_id), self.topics, now_ms)

    def settings_of(self, group_id: str) -> GroupSettings:
        return self.settings_by_group.get(group_id, self.settings)

    def new_consumer_id(self) -> str:
        return self._new_suffix()

    def on_topics_changed(self, topics: Topics, changed: frozenset[str], has_created: bool) -> None:
        """`changed` are the names of topics that were created, deleted, recreated or extended. Groups react with their
        next heartbeat.
        """
        self.topics = topics
        for group in self.groups.values():
            if isinstance(group, ConsumerGroup):
                group.are_expressions_outdated |= has_created
                group.is_metadata_outdated |= not changed.isdisjoint(group.subscribed_names())

    # ----------------------------------------------------------------------------------------- replay

    def replay(
        self, key: bytes, value: bytes | None, record_offset: int = NO_OFFSET, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        self.replay_change(decode_record(key, value, record_offset), producer_id)

    def replay_change(self, change: AnyChange, producer_id: int = NO_PRODUCER_ID) -> None:
        """Replays one record."""
        if isinstance(change, OffsetChange):
            self._replay_offset(change, producer_id)
        elif isinstance(change, GroupChange):
            self._replay_group(change)
        elif isinstance(change, UnknownRecord):
            self._skipped.note(change)
        else:
            self._replay_consumer_group(change)

    def _replay_offset(self, change: OffsetChange, producer_id: int) -> None:
        partition = TopicPartition(change.topic, change.partition)
        if change.committed is None:
            self.offsets.replay_delete(change.group_id, partition)
            return
        self._ensure_group(change.group_id)
        self.offsets.replay_commit(change.group_id, partition, change.committed, producer_id)

    def replay_commits(self, group_id: str, committed: OffsetsByPartition, producer_id: int) -> None:
        """Replays all offsets of one prepared commit."""
        self._ensure_group(group_id)
        self.offsets.replay_commits(group_id, committed, producer_id)

    def _ensure_group(self, group_id: str) -> None:
        """A consumer that assigns its own partitions commits without joining: a "simple" group, classic and without
        protocol type.
        """
        if group_id not in self.groups:
            self.groups[group_id] = ClassicGroup(group_id, NO_TIMESTAMP)

    def _replay_group(self, change: GroupChange) -> None:
        group = self.groups.get(change.group_id)
        if change.recorded is None:
            if isinstance(group, ClassicGroup):
                del self.groups[change.group_id]
            return
        if not isinstance(group, ClassicGroup):
            group = self.groups[change.group_id] = ClassicGroup(change.group_id, NO_TIMESTAMP)
        group.adopt(change.recorded)

    def _replay_consumer_group(self, change: ConsumerChange) -> None:
        """A change of one kind into the other is written as the end of the former and the beginning of the latter, but
        compaction may have removed the end.
        """
        group = self.groups.get(change.group_id)
        if isinstance(group, ConsumerGroup):
            if not replay_change(group, change):
                del self.groups[change.group_id]
            return
        if not is_tombstone(change):
            created = self.groups[change.group_id] = ConsumerGroup(change.group_id)
            replay_change(created, change)

    # ----------------------------------------------------------------------------------------- timers

    def on_loaded(self, now_ms: int) -> GroupOutcome:
        """Members in the log get a whole session for their next request."""
        outcome = self.outcome()
        for group in list(self.groups.values()):
            if isinstance(group, ConsumerGroup):
                self.consumer_step(group, outcome, now_ms).arm_timers()
                continue
            rebalance = self.rebalance(group, outcome, now_ms)
            for member in group.members.values():
                rebalance.expect_heartbeat(member)
            if len(group.members) > self.settings.max_size:
                rebalance.prepare("the group is larger than group.max.size now allows")
        return outcome

    def abandon(self, now_ms: int) -> Iterator[GroupOutcome]:
        """Another broker coordinates these groups now: waiting clients are sent there. One group per step; it is freed,
        too, because the release of 10,000 takes its time.
        """
        while self.groups:
            group_id, group = self.groups.popitem()
            outcome = self.outcome()
            if isinstance(group, ConsumerGroup):
                step = self.consumer_step(group, outcome, now_ms)
                for member_id in group.members:
                    step.cancel_timers(member_id)
            else:
                self._abandon(group, outcome, ErrorCode.NOT_COORDINATOR, now_ms)
            self.offsets.replay_group_delete(group_id)
            yield outcome

    def on_timer(self, key: TimerKey, now_ms: int) -> GroupOutcome:
        """For timers of classic groups."""
        outcome = self.outcome()
        group = self.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            rebalance = self.rebalance(group, outcome, now_ms)
            if key.kind is TimerKind.SESSION:
                rebalance.expire_session(key.member_id)
            elif key.kind is TimerKind.JOIN:
                rebalance.on_join_timeout()
            elif key.kind is TimerKind.SYNC:
                rebalance.expire_pending_sync()
            self.forget_if_unused(group, outcome)
        return outcome

    def forget_if_unused(self, group: ClassicGroup, outcome: GroupOutcome) -> None:
        """A group that was made for a member that has sent nothing since is removed with that member. Other empty
        groups without offsets are removed with the next check of expired offsets.
        """
        offsets = self.offsets
        if (
            group.is_unused
            and not offsets.of_group(group.group_id)
            and not offsets.has_open_transaction(group.group_id)
        ):
            outcome.records.append(encode_group(group.group_id, None))

    def _abandon(self, group: ClassicGroup, outcome: GroupOutcome, error: ErrorCode, now_ms: int) -> None:
        rebalance = self.rebalance(group, outcome, now_ms)
        for member_id in (*group.members, *group.pending_join):
            rebalance.answer_parked(member_id, member_id, error)
            outcome.cancel_timer(TimerKind.SESSION, group.group_id, member_id)
        outcome.cancel_timer(TimerKind.JOIN, group.group_id)
        outcome.cancel_timer(TimerKind.SYNC, group.group_id)

    # -------------------------------------------------------------------------------- failed appends

    def on_append_failed(self, failed: GroupOutcome, append_error: ErrorCode, now_ms: int) -> GroupOutcome:
        """Nothing of `failed.records` has happened. Members that left stay removed: memory is ahead of the log, as
        always during a rebalance.
        """
        outcome = self.outcome()
        outcome.replies = failed.failed_replies(append_error)
        pending = failed.pending
        assert failed.is_atomic or pending is None, "half of a change cannot be undone"
        group = self.groups.get(pending.group_id) if pending is not None else None
        if pending is not None and pending.purpose is AppendPurpose.CHANGE_CONSUMER_GROUP:
            self._undo_consumer_change(pending, outcome, coordinator_error(append_error), now_ms)
        elif pending is not None and isinstance(group, ClassicGroup):
            self._undo(pending, group, outcome, coordinator_error(append_error), now_ms)
        return outcome

    def _undo_consumer_change(
        self, pending: PendingAppend, outcome: GroupOutcome, error: ErrorCode, now_ms: int
    ) -> None:
        group = self.groups.get(pending.group_id)
        if isinstance(pending.undo, ConsumerGroup) and isinstance(group, ClassicGroup):
            self._abandon(group, outcome, error, now_ms)
            group = self.groups[pending.group_id] = pending.undo
        if isinstance(group, ConsumerGroup):
            group.is_metadata_outdated = group.are_expressions_outdated = True
            group.revision += 1
            self.consumer_step(group, outcome, now_ms).arm_timers()

    def _undo(
        self, pending: PendingAppend, group: ClassicGroup, outcome: GroupOutcome, error: ErrorCode, now_ms: int
    ) -> None:
        rebalance = self.rebalance(group, outcome, now_ms)
        if pending.purpose is AppendPurpose.CREATE_GROUP:
            self._abandon(group, outcome, error, now_ms)
            del self.groups[group.group_id]
            if isinstance(pending.undo, ConsumerGroup):
                self.groups[group.group_id] = pending.undo
        elif pending.purpose is AppendPurpose.STORE_ASSIGNMENT:
            if group.state is GroupState.COMPLETING_REBALANCE and group.generation_id == pending.generation_id:
                rebalance.prepare("the assignment could not be written")
        elif pending.purpose is AppendPurpose.REPLACE_STATIC_MEMBER:
            old = pending.undo
            assert isinstance(old, Member)
            assert old.group_instance_id is not None
            new_member_id = group.static_members[old.group_instance_id]
            group.replace(new_member_id, old)
            outcome.cancel_timer(TimerKind.SESSION, group.group_id, new_member_id)
            rebalance.expect_heartbeat(old)
