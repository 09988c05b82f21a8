"""What an operation of the coordinator wants to happen: records to append, replies to release, timers to set.

The runtime appends `records` to the group's partition of `__consumer_offsets`, hands each to
`GroupCoordinator.replay`, and only then releases `replies`. Between the operation and the replay of its records
nothing else may happen to that partition's groups; waiting for durability comes after the replay. If the append fails
it calls `GroupCoordinator.on_append_failed` instead, whose outcome has the replies. Timer changes concern memory
alone and apply in any case.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.groups.results import Result
from penstock.protocol.errors import ErrorCode


class GroupRecord(NamedTuple):
    key: bytes
    value: bytes | None  # None: a tombstone


class TransactionalProducer(NamedTuple):
    """In whose transaction records are written; they count only once its marker says so."""

    producer_id: int
    producer_epoch: int


class Reply(NamedTuple):
    """`token` is what the runtime passed in with the request, perhaps long ago; each token is answered exactly once."""

    token: object
    result: Result


class TimerKind(enum.Enum):
    SESSION = "session"  # a member must be heard of
    JOIN = "join"  # a rebalance must end: members rejoin until then
    SYNC = "sync"  # every member must have asked for its assignment
    REVOCATION = "revocation"  # a member must have given up what it was told to


class TimerKey(NamedTuple):
    kind: TimerKind
    partition: int
    group_id: str
    member_id: str = ""


class TimerChange(NamedTuple):
    """Setting a timer replaces the earlier one of the same key. A delay, not a deadline: no clock needs to be
    agreed on.
    """

    key: TimerKey
    delay_ms: int | None  # None: cancel


class AppendPurpose(enum.Enum):
    """Why a record is written, where a failed append has to be undone in memory."""

    CREATE_GROUP = "create group"
    STORE_ASSIGNMENT = "store assignment"
    REPLACE_STATIC_MEMBER = "replace static member"
    CHANGE_CONSUMER_GROUP = "change consumer group"


class PendingAppend(NamedTuple):
    purpose: AppendPurpose
    group_id: str
    generation_id: int = -1
    undo: object = None


@dataclass(slots=True)
class Outcome:
    partition: int
    records: list[GroupRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[TimerChange] = field(default_factory=list)
    # False: the records may be spread over several batches (a clean-up may write more than one batch can hold).
    is_atomic: bool = True
    pending: PendingAppend | None = None
    producer: TransactionalProducer | None = None  # None: outside of any transaction

    def reply(self, token: object, result: Result) -> None:
        self.replies.append(Reply(token, result))

    def set_timer(self, kind: TimerKind, group_id: str, delay_ms: int, member_id: str = "") -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, group_id, member_id), delay_ms))

    def cancel_timer(self, kind: TimerKind, group_id: str, member_id: str = "") -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, group_id, member_id), None))

    def failed_replies(self, append_error: ErrorCode) -> list[Reply]:
        """The same replies, after the records could not be made durable."""
        error = coordinator_error(append_error)
        return [Reply(reply.token, reply.result.failed(error)) for reply in self.replies]


# Clients of group APIs do not know the errors of a log; the code they get must make them do the right thing: retry,
# look the coordinator up again, or give up.
_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    return _COORDINATOR_ERRORS.get(append_error, append_error)
