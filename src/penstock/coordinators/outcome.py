"""The outcome of a coordinator's operation: records to append, replies to release, timers to set, lines to log.

The runtime appends `records` to the coordinator's partition, hands each to `Shards.replay`, and releases `replies` when
the records are durable. Many records may be `prepared` instead (`operations`). Between an operation and the replay of
its records nothing else may happen to that partition's shard. Later operations see replayed records before these are
durable, so their replies wait as well. If the append fails the runtime calls `Shards.on_append_failed` instead, whose
outcome has the replies. Timer changes concern memory alone and apply in any case. Clients can cause any number of
notices, so the runtime limits their rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from penstock.coordinators.errors import coordinator_error
from penstock.coordinators.newcomers import Newcomer
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import EncodedRecords


class CoordinatorRecord(NamedTuple):
    key: bytes
    value: bytes | None  # None: a tombstone


class PreparedBatch(NamedTuple):
    """Many records of one decision, encoded before the decision was made."""

    records: EncodedRecords
    # Takes the offset of the first record and the producer id. Changes memory exactly as a replay of the records one by
    # one would.
    replay: Callable[[int, int], None]


# ---------------------------------------------------------------------------------------------------- replies


class Result(Protocol):
    """An answer to a request that may write. Every result can be turned into a failure, because the append of its
    records may fail after the answer was made.
    """

    def failed(self, error: ErrorCode) -> Self: ...


ResultType = TypeVar("ResultType", bound=Result)
Result_contra = TypeVar("Result_contra", contravariant=True)


class Token(Protocol[Result_contra]):
    """A request's claim to its reply, which may come at once or much later. Each token is answered exactly once."""

    def release(self, result: Result_contra) -> None: ...


class Reply(Protocol):
    """A token with its result. `Outcome.reply` ensures that they fit."""

    @property
    def token(self) -> object: ...

    @property
    def result(self) -> Result: ...

    def release(self) -> None: ...

    def failed(self, error: ErrorCode) -> Reply: ...


@dataclass(slots=True)  # not frozen: that would add 0.5 us to each reply of each request
class _Reply(Generic[ResultType]):
    token: Token[ResultType]
    result: ResultType

    def release(self) -> None:
        self.token.release(self.result)

    def failed(self, error: ErrorCode) -> Reply:
        return _Reply(self.token, self.result.failed(error))


# ---------------------------------------------------------------------------------------------------- timers


class TimerKey(Protocol):
    """Timer keys are hashable values that name, among other things, the partition whose shard set them."""

    @property
    def partition(self) -> int: ...

    def __hash__(self) -> int: ...


KeyType = TypeVar("KeyType", bound=TimerKey)


class TimerChange(NamedTuple, Generic[KeyType]):
    """A new timer replaces the earlier timer of the same key. A delay, not a deadline: no clock needs to be
    agreed on.
    """

    key: KeyType
    delay_ms: int | None  # None: cancel
    newcomer: Newcomer | None = None  # the newcomer whose return is uncertain, if the timer waits for one


# ---------------------------------------------------------------------------------------------------- outcome


class Notice(NamedTuple):
    """A line for the operator, about an event that may need action."""

    level: int
    message: str  # a constant: the runtime counts the lines of each
    fields: dict[str, object]


@dataclass(slots=True)
class Outcome(Generic[KeyType]):
    partition: int
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    timers: list[TimerChange[KeyType]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    prepared: PreparedBatch | None = None  # in place of `records`
    # False: the records may be spread over several batches (a clean-up may write more than one batch can hold).
    is_atomic: bool = True
    # False: no shard was read. The replies show nothing of its state, so nothing has to be durable before them.
    tells_state: bool = True

    @property
    def has_consequences(self) -> bool:
        """Whether any reply, record or notice follows."""
        return bool(self.replies)

    @property
    def record_count(self) -> int:
        return len(self.records) if self.prepared is None else self.prepared.records.record_count

    def reply(self, token: Token[ResultType], result: ResultType) -> None:
        reply: _Reply[ResultType] = _Reply(token, result)
        self.replies.append(reply)

    def tell_operator(self, level: int, message: str, **fields: object) -> None:
        self.notices.append(Notice(level, message, fields))

    def failed_replies(self, append_error: ErrorCode) -> list[Reply]:
        """The same replies with an error, after the records could not be made durable."""
        error = coordinator_error(append_error)
        return [reply.failed(error) for reply in self.replies]
