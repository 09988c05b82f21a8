"""All operations of clients on the group coordinator, one line each: `Shards.perform` and `Shards.read` take a request
with its line of this table.

The empty group id is allowed where Kafka allows it, for the sake of very old clients: to commit, fetch and describe,
and to delete a group.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, TypeVar

from penstock.coordinators.operations import Operation, Prepared, Query, Refusal
from penstock.coordinators.outcome import Result, Token
from penstock.core.types import NO_PRODUCER_ID
from penstock.groups.operations import (
    administration,
    classic_membership,
    commits,
    consumer_membership,
)
from penstock.groups.operations.prepared_commits import prepare_commit
from penstock.groups.operations.prepared_deletions import prepare_group_deletion, prepare_offset_deletion
from penstock.groups.operations.prepared_heartbeats import prepare_heartbeat
from penstock.groups.outcome import GroupOutcome
from penstock.groups.requests import HeartbeatRequest, JoinRequest, TransactionalCommitRequest
from penstock.groups.results import (
    ConsumerHeartbeatResult,
    DeleteGroupResult,
    DescribedConsumerGroup,
    DescribedGroup,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    SyncResult,
)
from penstock.groups.settings import GroupSettings
from penstock.groups.shard import GroupShard
from penstock.protocol.errors import ErrorCode


class GroupRequest(Protocol):
    @property
    def group_id(self) -> str: ...


RequestType = TypeVar("RequestType", bound=GroupRequest)
ResultType = TypeVar("ResultType", bound=Result)
AnswerType = TypeVar("AnswerType")

Preparation = Callable[
    [GroupShard, RequestType, int], Generator[None, None, Prepared[GroupShard, GroupOutcome, ResultType] | None]
]
GroupOperation = Operation[GroupShard, GroupOutcome, GroupSettings, RequestType, ResultType]
GroupQuery = Query[GroupShard, RequestType, AnswerType]


def _group_id(request: GroupRequest) -> str:
    return request.group_id


def _operation(
    run: Callable[[GroupShard, Token[ResultType], RequestType, int], GroupOutcome],
    refuse: Callable[[RequestType, Refusal], ResultType],
    check: Callable[[RequestType, GroupSettings], Refusal | None],
    prepare: Preparation[RequestType, ResultType] | None = None,
) -> GroupOperation[RequestType, ResultType]:
    return Operation(_group_id, check, run, refuse, prepare)


def _query(
    look: Callable[[GroupShard, RequestType], AnswerType],
    refuse: Callable[[RequestType, Refusal], AnswerType],
    check: Callable[[RequestType], Refusal | None],
) -> GroupQuery[RequestType, AnswerType]:
    return Query(_group_id, check, look, refuse)


# ---------------------------------------------------------------------------------------------------- checks


def _any(_request: GroupRequest, _settings: GroupSettings | None = None) -> Refusal | None:
    return None


def _named(request: GroupRequest, _settings: GroupSettings | None = None) -> Refusal | None:
    return None if request.group_id else Refusal(ErrorCode.INVALID_GROUP_ID)


def _check_join(request: JoinRequest, settings: GroupSettings) -> Refusal | None:
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        return _named(request) or Refusal(ErrorCode.INVALID_SESSION_TIMEOUT)
    return _named(request)


def _check_transactional_commit(request: TransactionalCommitRequest, _settings: GroupSettings) -> Refusal | None:
    if request.producer_id <= NO_PRODUCER_ID:
        # Without a producer the records would count at once.
        return _named(request) or Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return _named(request)


def _refuse_heartbeat(_request: HeartbeatRequest, refusal: Refusal) -> HeartbeatResult:
    # A member of a group that is still loading must not think that it was removed.
    is_loading = refusal.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResult(ErrorCode.NONE if is_loading else refusal.error)


# ---------------------------------------------------------------------------------------------------- operations

JOIN_GROUP = _operation(
    classic_membership.join_group,
    lambda request, refusal: JoinResult(refusal.error, request.member_id),
    _check_join,
)
SYNC_GROUP = _operation(classic_membership.sync_group, lambda _, refusal: SyncResult(refusal.error), _named)
HEARTBEAT = _operation(classic_membership.heartbeat, _refuse_heartbeat, _named)
LEAVE_GROUP = _operation(classic_membership.leave_group, lambda _, refusal: LeaveResult(refusal.error), _named)
CONSUMER_HEARTBEAT = _operation(
    consumer_membership.heartbeat,
    lambda _, refusal: ConsumerHeartbeatResult(refusal.error, refusal.message),
    consumer_membership.check_request,
    prepare_heartbeat,
)
COMMIT_OFFSETS = _operation(commits.commit_offsets, commits.refuse_commit, _any, prepare_commit)
COMMIT_IN_TRANSACTION = _operation(
    commits.commit_in_transaction, commits.refuse_commit, _check_transactional_commit, prepare_commit
)
DELETE_OFFSETS = _operation(
    commits.delete_offsets, lambda _, refusal: OffsetDeleteResult(refusal.error), _named, prepare_offset_deletion
)
DELETE_GROUP = _operation(
    administration.delete_group,
    lambda request, refusal: DeleteGroupResult(refusal.error, request.group_id),
    _any,
    prepare_group_deletion,
)

# ---------------------------------------------------------------------------------------------------- queries

FETCH_OFFSETS = _query(commits.fetch_offsets, lambda _, refusal: OffsetFetchResult(refusal.error), _any)
DESCRIBE_GROUP = _query(
    administration.describe_group, lambda request, refusal: DescribedGroup(refusal.error, request.group_id), _any
)
DESCRIBE_CONSUMER_GROUP = _query(
    administration.describe_consumer_group,
    lambda request, refusal: DescribedConsumerGroup(refusal.error, request.group_id),
    _named,
)
