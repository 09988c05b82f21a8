"""A runtime small enough to see through: appends to a list, replays, answers, keeps time by hand."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from penstock.coordinators.newcomers import Newcomer
from penstock.coordinators.outcome import CoordinatorRecord, Notice, PreparedBatch, Result
from penstock.core.steps import finish
from penstock.core.types import NO_PRODUCER_ID
from penstock.groups.classic.group import GroupState
from penstock.groups.coordinator import GroupCoordinator
from penstock.groups.operations.table import (
    COMMIT_OFFSETS,
    DESCRIBE_GROUP,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from penstock.groups.outcome import GroupOutcome, TimerKey, TransactionalProducer
from penstock.groups.requests import (
    DescribeGroupRequest,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    LeavingMember,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetToCommit,
    Protocol,
    SyncRequest,
)
from penstock.groups.results import (
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    OffsetCommitResult,
    SyncResult,
)
from penstock.groups.settings import GroupSettings
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.records import build_encoded_batch, iterate_records
from tests.unit.coordinators.tokens import Receipt

R = TypeVar("R", bound=Result)

GROUP = "g"

SESSION_MS = 10_000
REBALANCE_MS = 60_000
START_MS = 1_700_000_000_000


def subscription(*topics: str, version: int = 1) -> bytes:
    return version.to_bytes(2, "big") + encode(ConsumerProtocolSubscription(topics=list(topics)), version)


def subscribed(*topics: str) -> Protocol:
    return Protocol("range", subscription(*topics))


RANGE = subscribed("orders")


def count_states(coordinator: GroupCoordinator, kind: type[object] = object) -> Counter[GroupState]:
    return Counter(group.state for group in coordinator.all_groups() if isinstance(group, kind))


class Runtime:
    def __init__(
        self,
        settings: GroupSettings | None = None,
        partition_count: int = 1,
        log: list[CoordinatorRecord] | None = None,
        suffixes: Iterator[int] | None = None,
    ) -> None:
        self.suffixes = suffixes or itertools.count(1)
        self.now_ms = START_MS
        self.log: list[CoordinatorRecord] = []
        self.replies: dict[object, Result] = {}
        self.timers: dict[TimerKey, int] = {}
        self.newcomers: dict[TimerKey, Newcomer] = {}
        self.notices: list[Notice] = []
        self.fail_appends_with: ErrorCode | None = None
        self.fail_next_append_with: ErrorCode | None = None
        self.groups = GroupCoordinator(settings or GroupSettings(), partition_count, lambda: str(next(self.suffixes)))
        for partition in range(partition_count):
            self.groups.shards.begin_loading(partition, 0)
            for offset, record in enumerate(log or ()):
                self.groups.shards.replay(partition, *record, offset)
            self.run(self.groups.shards.finish_loading(partition, self.now_ms))
        self.log += log or ()

    def run(self, outcome: GroupOutcome) -> None:
        for change in outcome.timers:
            self.newcomers.pop(change.key, None)
            if change.newcomer is not None:
                self.newcomers[change.key] = change.newcomer
            if change.delay_ms is None:
                self.timers.pop(change.key, None)
            else:
                self.timers[change.key] = self.now_ms + change.delay_ms
        error = self.fail_next_append_with or self.fail_appends_with
        if outcome.record_count and error is not None:
            self.fail_next_append_with = None
            self.run(self.groups.shards.on_append_failed(outcome, error, self.now_ms))
            return
        for record in outcome.records:
            self.log.append(record)
            self.groups.shards.replay(outcome.partition, *record, len(self.log) - 1)
        if outcome.prepared is not None:
            self._append_prepared(outcome.partition, outcome.prepared, outcome.producer)
        self.notices += outcome.notices
        for reply in outcome.replies:
            reply.release()

    def _append_prepared(self, partition: int, batch: PreparedBatch, producer: TransactionalProducer | None) -> None:
        base_offset = len(self.log)
        for record in iterate_records(build_encoded_batch(batch.records)):
            assert record.key is not None
            self.log.append(CoordinatorRecord(record.key, record.value))
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        self.groups.shards.replay_prepared(partition, batch, base_offset, producer_id)

    def perform_prepared(
        self, operation: Any, request: Any, meanwhile: Callable[[], object] = lambda: None, steps: int = 2
    ) -> Any:
        """The result of a large request, with something else in the middle of its preparation; None if the preparation
        was in vain.
        """
        shards = self.groups.shards
        preparing = shards.prepare(operation, request, self.now_ms)
        for _ in range(steps):
            next(preparing)
        meanwhile()
        prepared = finish(preparing)
        assert prepared is not None
        token = self.token()
        outcome = shards.perform_prepared(operation, token, request, prepared, self.now_ms)
        if outcome is None:
            return None
        self.run(outcome)
        return self.replies[token]

    def advance(self, milliseconds: int) -> None:
        end_ms = self.now_ms + milliseconds
        while due := [(deadline, key) for key, deadline in self.timers.items() if deadline <= end_ms]:
            deadline, key = min(due, key=lambda entry: entry[0])
            self.now_ms = deadline
            del self.timers[key]
            self.newcomers.pop(key, None)
            self.run(self.groups.shards.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    def token(self) -> Receipt:
        return Receipt(self.replies)

    def answer(self, token: object, kind: type[R]) -> R:
        result = self.replies[token]
        assert isinstance(result, kind)
        return result

    def is_parked(self, token: object) -> bool:
        return token not in self.replies

    # ------------------------------------------------------------------------------------- operations

    def join(
        self, member_id: str = "", *, protocols: tuple[Protocol, ...] = (RANGE,), group_id: str = GROUP, **more: Any
    ) -> Receipt:
        token = self.token()
        values: dict[str, Any] = {
            "protocol_type": "consumer",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "client_id": "client",
            "client_host": "/127.0.0.1",
        }
        request = JoinRequest(group_id=group_id, member_id=member_id, protocols=protocols, **{**values, **more})
        self.run(self.groups.shards.perform(JOIN_GROUP, token, request, self.now_ms))
        return token

    def hang_up(self, token: Receipt, member_id: str = "") -> None:
        """The client of a JoinGroup goes away. `member_id` is what it had joined with."""
        request = JoinRequest(GROUP, member_id, "consumer", (RANGE,), SESSION_MS)
        self.run(self.groups.abandon_join(0, request, token, self.now_ms))

    def joined(self, token: object) -> JoinResult:
        return self.answer(token, JoinResult)

    def sync(
        self, member_id: str, generation_id: int, assignments: dict[str, bytes] | None = None, **more: Any
    ) -> Receipt:
        token = self.token()
        pairs = tuple(MemberAssignment(*entry) for entry in (assignments or {}).items())
        request = SyncRequest(GROUP, member_id, generation_id, assignments=pairs, **more)
        self.run(self.groups.shards.perform(SYNC_GROUP, token, request, self.now_ms))
        return token

    def synced(self, token: object) -> SyncResult:
        return self.answer(token, SyncResult)

    def heartbeat(
        self, member_id: str, generation_id: int, instance: str | None = None, group_id: str = GROUP
    ) -> ErrorCode:
        token = self.token()
        self.run(
            self.groups.shards.perform(
                HEARTBEAT, token, HeartbeatRequest(group_id, member_id, generation_id, instance), self.now_ms
            )
        )
        return self.answer(token, HeartbeatResult).error

    def leave(self, *members: LeavingMember) -> LeaveResult:
        token = self.token()
        self.run(self.groups.shards.perform(LEAVE_GROUP, token, LeaveRequest(GROUP, members), self.now_ms))
        return self.answer(token, LeaveResult)

    def commit(self, *offsets: OffsetToCommit, group_id: str = GROUP, **more: Any) -> tuple[ErrorCode, ...]:
        token = self.token()
        request = OffsetCommitRequest(group_id, offsets, **more)
        self.run(self.groups.shards.perform(COMMIT_OFFSETS, token, request, self.now_ms))
        return tuple(entry.error for entry in self.answer(token, OffsetCommitResult).partitions)

    def state(self, group_id: str = GROUP) -> str:
        return self.groups.shards.read(DESCRIBE_GROUP, DescribeGroupRequest(group_id)).state

    # -------------------------------------------------------------------------------------- scenarios

    def new_member_id(self, **more: Any) -> str:
        """The id that a new dynamic member is told to join with."""
        result = self.joined(self.join(**more))
        assert result.error is ErrorCode.MEMBER_ID_REQUIRED
        return result.member_id

    def stable_group(self, size: int = 2, protocols: tuple[Protocol, ...] = (RANGE,), **more: Any) -> list[str]:
        """Members of a Stable group, the leader first; the assignment of each is its number."""
        members = [self.new_member_id(protocols=protocols, **more) for _ in range(size)]
        tokens = [self.join(member, protocols=protocols, **more) for member in members]
        self.advance(6_000)
        self.finish(members, self.joined(tokens[0]).generation_id)
        return members

    def static_group(self, *instances: str, protocols: tuple[Protocol, ...] = (RANGE,), **more: Any) -> list[str]:
        tokens = [self.join(group_instance_id=instance, protocols=protocols, **more) for instance in instances]
        self.advance(6_000)
        members = [self.joined(token).member_id for token in tokens]
        self.finish(members, self.joined(tokens[0]).generation_id)
        return members

    def finish(self, members: list[str], generation_id: int) -> None:
        """The leader is the first; everybody asks for the assignment."""
        for number, member in enumerate(members):
            given = {name: str(index).encode() for index, name in enumerate(members)} if number == 0 else {}
            token = self.sync(member, generation_id, given)
            assert self.synced(token).assignment == str(number).encode()
        assert self.state() == "Stable"
