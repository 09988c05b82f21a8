"""The entry into a coordinator: finds the shard of a group or a transactional id, and runs operations there.

A coordinator has a shard for each partition of its topic that this broker leads. A partition is absent (another
broker's: NOT_COORDINATOR), loading (COORDINATOR_LOAD_IN_PROGRESS) or active. The runtime calls `begin_loading` with the
leader epoch of the partition, `replay` for every record of its log, `finish_loading`; later `unload`. `outcome.py`
describes the runtime's work with an outcome. Plain synchronous code: no I/O, no clock, no threads. The runtime also
tells whether a partition `is_led` at the moment of a request; where that is not sure, the shard counts as absent.

Every coordinator keeps one rule that is checked here: an operation runs only when all records of the operation before
were replayed, or their append was reported as failed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from penstock.coordinators.operations import Operation, Prepared, Query, Refusal
from penstock.coordinators.outcome import Outcome, PreparedBatch, Result, TimerKey, Token
from penstock.coordinators.partitioning import partition_for
from penstock.core.types import NO_OFFSET, NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode

KeyType = TypeVar("KeyType", bound=TimerKey)
OutcomeType = TypeVar("OutcomeType", bound=Outcome[Any])
SettingsType = TypeVar("SettingsType")
RequestType = TypeVar("RequestType")
ResultType = TypeVar("ResultType", bound=Result)
AnswerType = TypeVar("AnswerType")


class Shard(Protocol[OutcomeType, SettingsType]):
    settings: SettingsType

    def replay(self, key: bytes, value: bytes | None, record_offset: int, producer_id: int) -> None: ...

    def abandon(self, now_ms: int) -> Iterator[OutcomeType]:
        """Another broker has the partition now. Answers waiting clients and cancels timers, some at a time."""

    def on_append_failed(self, failed: OutcomeType, append_error: ErrorCode, now_ms: int) -> OutcomeType: ...


ShardType = TypeVar("ShardType", bound=Shard[Any, Any])


class ShardKind(NamedTuple, Generic[ShardType, OutcomeType, KeyType]):
    """The type of a coordinator's shards, and their own actions."""

    new_outcome: Callable[[int], OutcomeType]
    new_shard: Callable[[int, int], ShardType]  # by partition and leader epoch
    on_loaded: Callable[[ShardType, int], OutcomeType]
    on_timer: Callable[[ShardType, KeyType, int], OutcomeType]


_NOT_SETTLED = "the records of an earlier operation were neither replayed nor failed"


def _is_always_led(_partition: int) -> bool:
    """For a standalone broker."""
    return True


class Shards(Generic[ShardType, OutcomeType, KeyType, SettingsType]):
    def __init__(
        self, kind: ShardKind[ShardType, OutcomeType, KeyType], settings: SettingsType, partition_count: int
    ) -> None:
        self.settings = settings
        self.partition_count = partition_count  # of the coordinator's topic; does not change during the topic's life
        self.is_led: Callable[[int], bool] = _is_always_led
        self._kind = kind
        self._loading: dict[int, ShardType] = {}
        self._active: dict[int, ShardType] = {}
        self._unreplayed: Counter[int] = Counter()

    def partition_for(self, key: str) -> int:
        return partition_for(key, self.partition_count)

    def change_settings(self, settings: SettingsType) -> None:
        self.settings = settings
        for shard in self.all():
            shard.settings = settings

    # ------------------------------------------------------------------------------ load, replay, unload

    def begin_loading(self, partition: int, leader_epoch: int) -> None:
        assert partition not in self._active, "unload first"
        self._loading[partition] = self._kind.new_shard(partition, leader_epoch)

    def finish_loading(self, partition: int, now_ms: int) -> OutcomeType:
        self._active[partition] = self._loading.pop(partition)
        return self.run(partition, lambda shard: self._kind.on_loaded(shard, now_ms))

    def unload_in_steps(self, partition: int, now_ms: int) -> Iterator[OutcomeType]:
        """Harmless if the partition is not here. The partition is gone at once. Then each of its elements takes a step.
        Another shard of the same partition may have set the same timers by then, so the runtime forgets timers by
        itself.
        """
        self._unreplayed.pop(partition, None)
        shard = self._active.pop(partition, None) or self._loading.pop(partition, None)
        return iter(()) if shard is None else shard.abandon(now_ms)

    def replay(
        self,
        partition: int,
        key: bytes,
        value: bytes | None,
        record_offset: int = NO_OFFSET,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        """`producer_id` only for records of transactional batches. ApiError(CORRUPT_MESSAGE) if the record is
        unreadable.
        """
        self.hosted(partition).replay(key, value, record_offset, producer_id)
        if self._unreplayed[partition]:
            self._unreplayed[partition] -= 1

    def replay_prepared(self, partition: int, batch: PreparedBatch, base_offset: int, producer_id: int) -> None:
        """Replays all records of a prepared batch at once."""
        batch.replay(base_offset, producer_id)
        self._unreplayed[partition] -= batch.records.record_count

    def on_append_failed(self, outcome: OutcomeType, append_error: ErrorCode, now_ms: int) -> OutcomeType:
        """Replaces the replay: none of `outcome.records` is in the log. Batches of a clean-up that were written before
        were replayed and are no longer among them. The result is handled like any outcome.
        """
        self._unreplayed.pop(outcome.partition, None)
        if outcome.partition not in self._active:
            failed = self._kind.new_outcome(outcome.partition)
            failed.tells_state = False
            failed.replies = outcome.failed_replies(append_error)
            return failed
        return self.run(outcome.partition, lambda shard: shard.on_append_failed(outcome, append_error, now_ms))

    # ---------------------------------------------------------------------------------------- operations

    def perform(
        self,
        operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType],
        token: Token[ResultType],
        request: RequestType,
        now_ms: int,
    ) -> OutcomeType:
        """Performs a client's request. A refused request is answered at once."""
        outcome = self._perform(operation, token, request, lambda shard: operation.run(shard, token, request, now_ms))
        assert outcome is not None
        return outcome

    def prepare(
        self,
        operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType],
        request: RequestType,
        now_ms: int,
    ) -> Generator[None, None, Prepared[ShardType, OutcomeType, ResultType] | None]:
        """The preparation of a large request; None where there is nothing to prepare."""
        partition = self.partition_for(operation.key(request))
        if operation.prepare is None or operation.check(request, self.settings) or partition not in self._active:
            return None
        return (yield from operation.prepare(self._active[partition], request, now_ms))

    def perform_prepared(
        self,
        operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType],
        token: Token[ResultType],
        request: RequestType,
        prepared: Prepared[ShardType, OutcomeType, ResultType],
        now_ms: int,
    ) -> OutcomeType | None:
        """None if `prepared` does not fit the request any more."""
        return self._perform(operation, token, request, lambda shard: prepared.decide(shard, token, now_ms))

    def _perform(
        self,
        operation: Operation[ShardType, OutcomeType, SettingsType, RequestType, ResultType],
        token: Token[ResultType],
        request: RequestType,
        decide: Callable[[ShardType], OutcomeType | None],
    ) -> OutcomeType | None:
        partition = partition_for(operation.key(request), self.partition_count)
        refusal = operation.check(request, self.settings) or self.refusal(partition)
        is_shard_asked = refusal is None
        if refusal is None:
            assert not self._unreplayed[partition], _NOT_SETTLED
            try:
                outcome = decide(self._active[partition])
            except ApiError as error:
                refusal = Refusal(error.code)
            else:
                if outcome is not None:
                    self._unreplayed[partition] += outcome.record_count
                return outcome
        refused = self._kind.new_outcome(partition)
        refused.tells_state = is_shard_asked
        refused.reply(token, operation.refuse(request, refusal))
        return refused

    def read(self, query: Query[ShardType, RequestType, AnswerType], request: RequestType) -> AnswerType:
        partition = self.partition_for(query.key(request))
        refusal = query.check(request) or self.refusal(partition)
        if refusal is None:
            try:
                return query.look(self._active[partition], request)
            except ApiError as error:
                refusal = Refusal(error.code)
        return query.refuse(request, refusal)

    def run(self, partition: int, operation: Callable[[ShardType], OutcomeType]) -> OutcomeType:
        """Runs an action of the coordinator itself; does nothing where the partition is not active."""
        shard = self._active.get(partition)
        if shard is None:
            return self._kind.new_outcome(partition)
        assert not self._unreplayed[partition], _NOT_SETTLED
        outcome = operation(shard)
        self._unreplayed[partition] += outcome.record_count
        return outcome

    def on_timer(self, key: KeyType, now_ms: int) -> OutcomeType:
        return self.run(key.partition, lambda shard: self._kind.on_timer(shard, key, now_ms))

    def refusal(self, partition: int) -> Refusal | None:
        """The reason why no request is accepted at this moment; None where requests are accepted."""
        is_led = self.is_led(partition)
        if is_led and partition in self._active:
            return None
        is_loading = is_led and partition in self._loading
        return Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR)

    # ------------------------------------------------------------------------------------------- sight

    def find(self, partition: int) -> ShardType | None:
        """The shard, active or loading; None if the partition is another broker's."""
        return self._active.get(partition) or self._loading.get(partition)

    def hosted(self, partition: int) -> ShardType:
        """The shard, active or loading. KeyError if the partition is another broker's."""
        shard = self._active.get(partition)
        return self._loading[partition] if shard is None else shard

    def hosted_partitions(self) -> list[int]:
        return [*self._active, *self._loading]

    def all(self) -> list[ShardType]:
        return [*self._active.values(), *self._loading.values()]

    def active(self) -> Iterator[ShardType]:
        return iter(self._active.values())

    def active_partitions(self) -> list[int]:
        return list(self._active)

    def is_active(self, partition: int) -> bool:
        return partition in self._active

    @property
    def is_loading(self) -> bool:
        """Whether a part of the answer about all ids is still unknown."""
        return bool(self._loading)
