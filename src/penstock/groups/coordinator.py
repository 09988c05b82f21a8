"""The way in: finds the partition of `__consumer_offsets` that a group lives in, and runs the operation there if
this broker owns it.

A partition is absent (another broker's: NOT_COORDINATOR), being loaded (COORDINATOR_LOAD_IN_PROGRESS) or active. The
runtime calls `begin_loading`, `replay` for every record of the partition's log, `finish_loading`; later `unload`.
What it does with an outcome is said in `outcome.py`. Plain synchronous code: no I/O, no clock, no threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from penstock.coordinators.partitioning import partition_for
from penstock.core.types import NO_OFFSET, NO_PRODUCER_ID
from penstock.groups.classic.group import GroupState
from penstock.groups.consumer.group import ConsumerGroup, ConsumerProgress
from penstock.groups.operations import administration, commits, consumer_membership
from penstock.groups.operations import classic_membership as membership
from penstock.groups.outcome import Outcome, TimerKey
from penstock.groups.requests import (
    ConsumerHeartbeatRequest,
    DeletedTopic,
    HeartbeatRequest,
    JoinRequest,
    LeaveRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncRequest,
    TransactionalCommitRequest,
)
from penstock.groups.results import (
    ConsumerHeartbeatResult,
    DeleteGroupResult,
    DescribedConsumerGroup,
    DescribedGroup,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListGroupsResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    Result,
    SyncResult,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard, random_suffix
from penstock.groups.topics import Topics
from penstock.protocol.errors import ErrorCode

R = TypeVar("R")


class GroupCoordinator:
    def __init__(
        self, settings: GroupSettings, partition_count: int, new_suffix: Callable[[], str] = random_suffix
    ) -> None:
        self.settings = settings
        self.settings_by_group: Mapping[str, GroupSettings] = {}
        self.partition_count = partition_count  # of `__consumer_offsets`; does not change during the topic's life
        self.topics = Topics()
        self._new_suffix = new_suffix
        self._loading: dict[int, GroupShard] = {}
        self._active: dict[int, GroupShard] = {}
        self._unreplayed: Counter[int] = Counter()

    def change_settings(self, settings: GroupSettings, by_group: Mapping[str, GroupSettings]) -> None:
        """`by_group` for those that differ. A session or an interval that is under way keeps its length."""
        self.settings, self.settings_by_group = settings, by_group
        for shard in (*self._active.values(), *self._loading.values()):
            shard.settings, shard.settings_by_group = settings, by_group

    # ------------------------------------------------------------------------------ load, replay, unload

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self.partition_count)

    def begin_loading(self, partition: int) -> None:
        assert partition not in self._active, "unload first"
        shard = self._loading[partition] = GroupShard(partition, self.settings, self._new_suffix, self.topics)
        shard.settings_by_group = self.settings_by_group

    def finish_loading(self, partition: int, now_ms: int) -> Outcome:
        shard = self._active[partition] = self._loading.pop(partition)
        return self._emit(shard.on_loaded(now_ms))

    def unload(self, partition: int, now_ms: int) -> Outcome:
        """Harmless if the partition is not here."""
        self._loading.pop(partition, None)
        self._unreplayed.pop(partition, None)
        shard = self._active.pop(partition, None)
        return Outcome(partition) if shard is None else shard.on_unloaded(now_ms)

    def replay(
        self,
        partition: int,
        key: bytes,
        value: bytes | None,
        record_offset: int = NO_OFFSET,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """`producer_id` only for records of transactional batches. ApiError(CORRUPT_MESSAGE) if the record cannot
        be read.
        """
        self._shard(partition).replay(key, value, record_offset, producer_id)
        if self._unreplayed[partition]:
            self._unreplayed[partition] -= 1

    def replay_transaction_end(self, partition: int, producer_id: int, is_committed: bool) -> None:
        self._shard(partition).offsets.replay_transaction_end(producer_id, is_committed)

    def on_append_failed(self, outcome: Outcome, append_error: ErrorCode, now_ms: int) -> Outcome:
        """Instead of replaying: none of `outcome.records` is in the log. What of a clean-up was written before, in
        batches of its own, was replayed and is no longer among them. The result is to be treated as any outcome.
        """
        self._unreplayed.pop(outcome.partition, None)
        shard = self._active.get(outcome.partition)
        if shard is None:
            return Outcome(outcome.partition, replies=outcome.failed_replies(append_error))
        return self._emit(shard.on_append_failed(outcome, append_error, now_ms))

    def on_timer(self, key: TimerKey, now_ms: int) -> Outcome:
        shard = self._active.get(key.partition)
        if shard is None:
            return Outcome(key.partition)
        group = shard.groups.get(key.group_id)
        if isinstance(group, ConsumerGroup):
            return self._run(shard, lambda shard: consumer_membership.on_timer(shard, group, key, now_ms))
        return self._run(shard, lambda shard: shard.on_timer(key, now_ms))

    def on_topics_changed(self, topics: Topics) -> None:
        """Topics were created or deleted, or got partitions. To be told before the first group is loaded, too."""
        self.topics = topics
        for shard in (*self._active.values(), *self._loading.values()):
            shard.on_topics_changed(topics)

    # ------------------------------------------------------------------------------------- membership

    def join_group(self, token: object, request: JoinRequest, now_ms: int) -> Outcome:
        error = ErrorCode.NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif (
            not self.settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= self.settings.max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        return self._write(
            request.group_id,
            token,
            error,
            lambda refusal: JoinResult(refusal, request.member_id),
            lambda shard: membership.join_group(shard, token, request, now_ms),
        )

    def sync_group(self, token: object, request: SyncRequest, now_ms: int) -> Outcome:
        return self._write(
            request.group_id,
            token,
            _check_group_id(request.group_id),
            SyncResult,
            lambda shard: membership.sync_group(shard, token, request, now_ms),
        )

    def heartbeat(self, token: object, request: HeartbeatRequest, now_ms: int) -> Outcome:
        def refuse(error: ErrorCode) -> HeartbeatResult:
            # A member of a group that is still being loaded must not think it lost its place.
            return HeartbeatResult(ErrorCode.NONE if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else error)

        return self._write(
            request.group_id,
            token,
            _check_group_id(request.group_id),
            refuse,
            lambda shard: membership.heartbeat(shard, token, request, now_ms),
        )

    def leave_group(self, token: object, request: LeaveRequest, now_ms: int) -> Outcome:
        return self._write(
            request.group_id,
            token,
            _check_group_id(request.group_id),
            LeaveResult,
            lambda shard: membership.leave_group(shard, token, request, now_ms),
        )

    def consumer_heartbeat(self, token: object, request: ConsumerHeartbeatRequest, now_ms: int) -> Outcome:
        error, message = consumer_membership.check_request(request, self.settings)
        return self._write(
            request.group_id,
            token,
            error,
            lambda refusal: ConsumerHeartbeatResult(refusal, message or None),
            lambda shard: consumer_membership.heartbeat(shard, token, request, now_ms),
        )

    # ---------------------------------------------------------------------------------------- offsets
    # The empty group id is allowed where Kafka allows it, for the sake of very old clients: commit, fetch, describe,
    # delete.

    def commit_offsets(self, token: object, request: OffsetCommitRequest, now_ms: int) -> Outcome:
        return self._write(
            request.group_id,
            token,
            ErrorCode.NONE,
            lambda error: commits.refuse_commit(request, error),
            lambda shard: commits.commit_offsets(shard, token, request, now_ms),
        )

    def commit_in_transaction(self, token: object, request: TransactionalCommitRequest, now_ms: int) -> Outcome:
        return self._write(
            request.group_id,
            token,
            # Without a producer the records would count at once.
            _check_group_id(request.group_id) or _check_producer(request.producer_id),
            lambda error: commits.refuse_commit(request, error),
            lambda shard: commits.commit_in_transaction(shard, token, request, now_ms),
        )

    def fetch_offsets(self, request: OffsetFetchRequest) -> OffsetFetchResult:
        return self._read(request.group_id, OffsetFetchResult, lambda shard: commits.fetch_offsets(shard, request))

    def delete_offsets(self, token: object, request: OffsetDeleteRequest) -> Outcome:
        return self._write(
            request.group_id,
            token,
            _check_group_id(request.group_id),
            OffsetDeleteResult,
            lambda shard: commits.delete_offsets(shard, token, request),
        )

    def expire_offsets(self, partition: int, now_ms: int) -> Outcome:
        shard = self._active.get(partition)
        return (
            Outcome(partition)
            if shard is None
            else self._run(shard, lambda shard: administration.expire_offsets(shard, now_ms))
        )

    def remove_topics(self, partition: int, topics: Iterable[DeletedTopic]) -> Outcome:
        shard = self._active.get(partition)
        return (
            Outcome(partition)
            if shard is None
            else self._run(shard, lambda shard: administration.remove_topics(shard, topics))
        )

    # --------------------------------------------------------------------------------- administration

    def describe_group(self, group_id: str) -> DescribedGroup:
        return self._read(
            group_id,
            lambda error: DescribedGroup(error, group_id),
            lambda shard: administration.describe_group(shard, group_id),
        )

    def describe_consumer_group(self, group_id: str) -> DescribedConsumerGroup:
        if not group_id:
            return DescribedConsumerGroup(ErrorCode.INVALID_GROUP_ID, group_id)
        return self._read(
            group_id,
            lambda error: DescribedConsumerGroup(error, group_id),
            lambda shard: administration.describe_consumer_group(shard, group_id),
        )

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> ListGroupsResult:
        if self._loading:
            return ListGroupsResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        groups = (
            group for shard in self._active.values() for group in administration.list_groups(shard, states, types)
        )
        return ListGroupsResult(ErrorCode.NONE, tuple(groups))

    def delete_group(self, token: object, group_id: str) -> Outcome:
        return self._write(
            group_id,
            token,
            ErrorCode.NONE,
            lambda error: DeleteGroupResult(error, group_id),
            lambda shard: administration.delete_group(shard, token, group_id),
        )

    # ---------------------------------------------------------------------------------------- figures

    def active_partitions(self) -> list[int]:
        return list(self._active)

    def is_active(self, partition: int) -> bool:
        return partition in self._active

    def group_counts(self) -> Counter[GroupState]:
        return Counter(group.state for shard in self._active.values() for group in shard.groups.values())

    def consumer_group_counts(self) -> Counter[GroupState]:
        return Counter(
            group.state
            for shard in self._active.values()
            for group in shard.groups.values()
            if isinstance(group, ConsumerGroup)
        )

    def consumer_progress(self, partition: int, group_id: str) -> ConsumerProgress | None:
        """How far a KIP-848 group is; None for any other."""
        shard = self._active.get(partition)
        group = None if shard is None else shard.groups.get(group_id)
        return ConsumerProgress(group.epoch, group.state) if isinstance(group, ConsumerGroup) else None

    def offset_count(self) -> int:
        return sum(shard.offsets.count() for shard in self._active.values())

    # ---------------------------------------------------------------------------------------- routing

    def _shard(self, partition: int) -> GroupShard:
        return self._active.get(partition) or self._loading[partition]

    def _refusal(self, partition: int) -> ErrorCode:
        if partition in self._active:
            return ErrorCode.NONE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if partition in self._loading else ErrorCode.NOT_COORDINATOR

    def _write(
        self,
        group_id: str,
        token: object,
        error: ErrorCode,
        refuse: Callable[[ErrorCode], Result],
        operation: Callable[[GroupShard], Outcome],
    ) -> Outcome:
        partition = self.partition_for(group_id)
        refusal = error or self._refusal(partition)
        if refusal is not ErrorCode.NONE:
            outcome = Outcome(partition)
            outcome.reply(token, refuse(refusal))
            return outcome
        return self._run(self._active[partition], operation)

    def _read(self, group_id: str, refuse: Callable[[ErrorCode], R], operation: Callable[[GroupShard], R]) -> R:
        partition = self.partition_for(group_id)
        refusal = self._refusal(partition)
        return operation(self._active[partition]) if refusal is ErrorCode.NONE else refuse(refusal)

    def _run(self, shard: GroupShard, operation: Callable[[GroupShard], Outcome]) -> Outcome:
        assert not self._unreplayed[shard.partition], (
            "the records of an earlier operation were neither replayed nor failed"
        )
        return self._emit(operation(shard))

    def _emit(self, outcome: Outcome) -> Outcome:
        self._unreplayed[outcome.partition] += len(outcome.records)
        return outcome


def _check_producer(producer_id: int) -> ErrorCode:
    return ErrorCode.NONE if producer_id > NO_PRODUCER_ID else ErrorCode.INVALID_PRODUCER_ID_MAPPING


def _check_group_id(group_id: str) -> ErrorCode:
    return ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID
