"""What an operation of the transaction coordinator wants to happen: records to append, markers to write, replies to
release, timers to set.

The runtime appends `records` to the partition of `__transaction_state`, hands each to `TransactionCoordinator.replay`,
and only then, when they are durable, releases `replies` and starts on `markers`. Between the operation and the replay
of its records nothing else may happen to that partition's transactions; waiting for durability comes after the replay,
and because later operations already see what was replayed, the replies of an outcome without records wait for what
was appended before them as well. If the append fails the runtime calls `TransactionCoordinator.on_append_failed`
instead, whose outcome has the replies. Timer changes concern memory alone and apply in any case.

A marker that was asked for is written sooner or later: the runtime retries until every partition has it, or is gone,
and reports with `TransactionCoordinator.on_markers_written`, for all partitions at once or some at a time. When the
coordinator moves elsewhere (`unload`) the runtime forgets the markers of that partition; the next owner asks anew.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.results import Result


class TransactionRecord(NamedTuple):
    key: bytes
    value: bytes | None  # None: a tombstone


class Reply(NamedTuple):
    """`token` is what the runtime passed in with the request; each token is answered exactly once."""

    token: object
    result: Result


class Markers(NamedTuple):
    """The end of one transaction, to be written to every partition that took part (WriteTxnMarkers)."""

    state_partition: int  # of `__transaction_state`
    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]  # sorted; when reported as written: any part of those asked for
    transaction_version: int  # of the client: with 2 the marker's epoch must be above that of the records (KIP-890)


class TimerKind(enum.Enum):
    TRANSACTION_TIMEOUT = "transaction timeout"  # a transaction must have ended
    COMPLETION_RETRY = "completion retry"  # all markers are written, but recording that failed


class TimerKey(NamedTuple):
    kind: TimerKind
    partition: int  # of `__transaction_state`
    transactional_id: str


class TimerChange(NamedTuple):
    """Setting a timer replaces the earlier one of the same key. A delay, not a deadline: no clock needs to be
    agreed on.
    """

    key: TimerKey
    delay_ms: int | None  # None: cancel


class AppendPurpose(enum.Enum):
    """Why a record is written, where a failed append has to be tried again."""

    COMPLETE = "complete"
    ABORT_TIMED_OUT = "abort timed out"


class PendingAppend(NamedTuple):
    purpose: AppendPurpose
    transactional_id: str


@dataclass(slots=True)
class Outcome:
    partition: int  # of `__transaction_state`
    records: list[TransactionRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    markers: list[Markers] = field(default_factory=list)
    timers: list[TimerChange] = field(default_factory=list)
    # False: the records may be spread over several batches (an expiry may write more than one batch can hold).
    is_atomic: bool = True
    pending: PendingAppend | None = None

    def reply(self, token: object, result: Result) -> None:
        self.replies.append(Reply(token, result))

    def set_timer(self, kind: TimerKind, transactional_id: str, delay_ms: int) -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, transactional_id), delay_ms))

    def cancel_timer(self, kind: TimerKind, transactional_id: str) -> None:
        self.timers.append(TimerChange(TimerKey(kind, self.partition, transactional_id), None))

    def failed_replies(self, append_error: ErrorCode) -> list[Reply]:
        """The same replies, after the records could not be made durable."""
        error = coordinator_error(append_error)
        return [Reply(reply.token, reply.result.failed(error)) for reply in self.replies]


# Clients of transaction APIs do not know the errors of a log; the code they get must make them do the right thing:
# retry, look the coordinator up again, or give up.
_COORDINATOR_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(append_error: ErrorCode) -> ErrorCode:
    return _COORDINATOR_ERRORS.get(append_error, append_error)
