"""The groups of one partition of `__consumer_offsets`: what replay builds, and what timers and failed appends do
to it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable

from penstock.core.types import NO_OFFSET, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from penstock.groups.classic import ClassicGroup, Group, GroupState, Member
from penstock.groups.offsets import OffsetStore
from penstock.groups.outcome import AppendPurpose, Outcome, PendingAppend, TimerKey, TimerKind, coordinator_error
from penstock.groups.rebalance import Rebalance
from penstock.groups.records import GroupChange, OffsetChange, UnknownRecord, decode_record
from penstock.groups.settings import GroupSettings
from penstock.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

# A member id is written as a string of at most 32,767 bytes; a character takes up to 4, and "-" with the UUID takes 37.
_MAX_PREFIX_CHARACTERS = 8_000


def random_suffix() -> str:
    return str(uuid.uuid4())


class GroupShard:
    def __init__(self, partition: int, settings: GroupSettings, new_suffix: Callable[[], str] = random_suffix) -> None:
        self.partition = partition
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.offsets = OffsetStore()
        self._new_suffix = new_suffix
        self._warned_of: set[str] = set()

    def outcome(self) -> Outcome:
        return Outcome(self.partition)

    def rebalance(self, group: ClassicGroup, outcome: Outcome, now_ms: int) -> Rebalance:
        return Rebalance(group, outcome, self.settings, now_ms)

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix[:_MAX_PREFIX_CHARACTERS]}-{self._new_suffix()}"

    # ----------------------------------------------------------------------------------------- replay

    def replay(
        self, key: bytes, value: bytes | None, record_offset: int = NO_OFFSET, producer_id: int = NO_PRODUCER_ID
    ) -> None:
        change = decode_record(key, value, record_offset)
        if isinstance(change, OffsetChange):
            self._replay_offset(change, producer_id)
        elif isinstance(change, GroupChange):
            self._replay_group(change)
        else:
            self._warn_once(change)

    def _replay_offset(self, change: OffsetChange, producer_id: int) -> None:
        partition = TopicPartition(change.topic, change.partition)
        if change.committed is None:
            self.offsets.replay_delete(change.group_id, partition)
            return
        if change.group_id not in self.groups:
            # A consumer that assigns its own partitions commits without joining: a "simple" group, classic and
            # without protocol type.
            self.groups[change.group_id] = ClassicGroup(change.group_id, NO_TIMESTAMP)
        self.offsets.replay_commit(change.group_id, partition, change.committed, producer_id)

    def _replay_group(self, change: GroupChange) -> None:
        if change.recorded is None:
            self.groups.pop(change.group_id, None)
            return
        group = self.groups.get(change.group_id)
        if group is None:
            group = self.groups[change.group_id] = ClassicGroup(change.group_id, NO_TIMESTAMP)
        group.adopt(change.recorded)

    def _warn_once(self, unknown: UnknownRecord) -> None:
        if unknown.what not in self._warned_of:
            self._warned_of.add(unknown.what)
            log.warning(
                "records of newer software are skipped",
                extra={"what": unknown.what, "offsets_partition": self.partition},
            )

    # ----------------------------------------------------------------------------------------- timers

    def on_loaded(self, now_ms: int) -> Outcome:
        """Members that the log knows get a whole session to be heard of."""
        outcome = self.outcome()
        for group in list(self.groups.values()):
            rebalance = self.rebalance(group, outcome, now_ms)
            for member in group.members.values():
                rebalance.expect_heartbeat(member)
            if len(group.members) > self.settings.max_size:
                rebalance.prepare("the group is larger than group.max.size now allows")
        return outcome

    def on_unloaded(self, now_ms: int) -> Outcome:
        """Another broker coordinates these groups now: whoever waits is sent there."""
        outcome = self.outcome()
        for group in self.groups.values():
            self._abandon(group, outcome, ErrorCode.NOT_COORDINATOR, now_ms)
        self.groups.clear()
        return outcome

    def on_timer(self, key: TimerKey, now_ms: int) -> Outcome:
        outcome = self.outcome()
        group = self.groups.get(key.group_id)
        if group is not None:
            rebalance = self.rebalance(group, outcome, now_ms)
            if key.kind is TimerKind.SESSION:
                rebalance.expire_session(key.member_id)
            elif key.kind is TimerKind.JOIN:
                rebalance.on_join_timeout()
            else:
                rebalance.expire_pending_sync()
        return outcome

    def _abandon(self, group: ClassicGroup, outcome: Outcome, error: ErrorCode, now_ms: int) -> None:
        rebalance = self.rebalance(group, outcome, now_ms)
        for member_id in (*group.members, *group.pending_join):
            rebalance.answer_parked(member_id, member_id, error)
            outcome.cancel_timer(TimerKind.SESSION, group.group_id, member_id)
        outcome.cancel_timer(TimerKind.JOIN, group.group_id)
        outcome.cancel_timer(TimerKind.SYNC, group.group_id)

    # -------------------------------------------------------------------------------- failed appends

    def on_append_failed(self, failed: Outcome, append_error: ErrorCode, now_ms: int) -> Outcome:
        """Nothing that had to be recorded has happened. Members that left are gone nevertheless: memory is ahead
        of the log, as it always is during a rebalance.
        """
        outcome = self.outcome()
        outcome.replies = failed.failed_replies(append_error)
        log.warning(
            "group records could not be written",
            extra={"offsets_partition": self.partition, "error": append_error.name, "records": len(failed.records)},
        )
        pending = failed.pending
        group = self.groups.get(pending.group_id) if pending is not None else None
        if pending is not None and group is not None:
            self._undo(pending, group, outcome, coordinator_error(append_error), now_ms)
        return outcome

    def _undo(
        self, pending: PendingAppend, group: ClassicGroup, outcome: Outcome, error: ErrorCode, now_ms: int
    ) -> None:
        rebalance = self.rebalance(group, outcome, now_ms)
        if pending.purpose is AppendPurpose.CREATE_GROUP:
            self._abandon(group, outcome, error, now_ms)
            del self.groups[group.group_id]
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
