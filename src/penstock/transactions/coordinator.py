"""The way in: finds the partition of `__transaction_state` that a transactional id lives in, and runs the operation
there if this broker owns it.

A partition is absent (another broker's: NOT_COORDINATOR), being loaded (COORDINATOR_LOAD_IN_PROGRESS) or active. The
runtime calls `begin_loading` with the leader epoch of the partition, `replay` for every record of its log,
`finish_loading`; later `unload`. What it does with an outcome is said in `outcome.py`. Plain synchronous code: no I/O,
no clock, no threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.coordinators.partitioning import partition_for
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions import administration, ending, partitions, producers
from penstock.transactions.outcome import Markers, Outcome, TimerKey, TimerKind
from penstock.transactions.requests import (
    AddOffsetsRequest,
    AddPartitionsRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from penstock.transactions.results import (
    AddOffsetsResult,
    AddPartitionsResult,
    DescribedTransaction,
    EndTransactionResult,
    InitProducerIdResult,
    ListTransactionsResult,
    Result,
)
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import TransactionState


class TransactionCoordinator:
    def __init__(self, settings: TransactionSettings, partition_count: int, new_producer_id: Callable[[], int]) -> None:
        """`new_producer_id` gives an id that nobody had before, or raises ApiError (COORDINATOR_LOAD_IN_PROGRESS where
        the next block of ids is still being fetched): the client gets its code.
        """
        self.settings = settings
        self.partition_count = partition_count  # of `__transaction_state`; does not change during the topic's life
        self._new_producer_id = new_producer_id
        self._loading: dict[int, TransactionShard] = {}
        self._active: dict[int, TransactionShard] = {}
        self._unreplayed: Counter[int] = Counter()

    def change_settings(self, settings: TransactionSettings) -> None:
        self.settings = settings
        for shard in (*self._loading.values(), *self._active.values()):
            shard.settings = settings

    # ------------------------------------------------------------------------------ load, replay, unload

    def partition_for(self, transactional_id: str) -> int:
        return partition_for(transactional_id, self.partition_count)

    def begin_loading(self, partition: int, coordinator_epoch: int) -> None:
        assert partition not in self._active, "unload first"
        self._loading[partition] = TransactionShard(partition, coordinator_epoch, self.settings, self._new_producer_id)

    def finish_loading(self, partition: int, now_ms: int) -> Outcome:
        """Asks once more for the markers of everything that was decided and not completed."""
        shard = self._active[partition] = self._loading.pop(partition)
        return ending.resume(shard, now_ms)

    def unload(self, partition: int) -> Outcome:
        """Harmless if the partition is not here."""
        self._loading.pop(partition, None)
        self._unreplayed.pop(partition, None)
        shard = self._active.pop(partition, None)
        return Outcome(partition) if shard is None else shard.on_unloaded()

    def replay(self, partition: int, key: bytes, value: bytes | None) -> None:
        """ApiError(CORRUPT_MESSAGE) if the record cannot be read."""
        shard = self._active.get(partition) or self._loading[partition]
        shard.replay(key, value)
        if self._unreplayed[partition]:
            self._unreplayed[partition] -= 1

    def on_append_failed(self, outcome: Outcome, append_error: ErrorCode) -> Outcome:
        """Instead of replaying: nothing of `outcome.records` is in the log, and nothing of `outcome.markers` may be
        written. The result is to be treated as any outcome.
        """
        self._unreplayed.pop(outcome.partition, None)
        shard = self._active.get(outcome.partition)
        if shard is None:
            return Outcome(outcome.partition, replies=outcome.failed_replies(append_error))
        return shard.on_append_failed(outcome, append_error)

    def on_timer(self, key: TimerKey, now_ms: int) -> Outcome:
        shard = self._active.get(key.partition)
        if shard is None:
            return Outcome(key.partition)
        outcome = self._begin(shard)
        if key.kind is TimerKind.TRANSACTION_TIMEOUT:
            ending.on_timeout(shard, outcome, key.transactional_id, now_ms)
        else:
            ending.complete(shard, outcome, key.transactional_id, now_ms)
        return self._emit(outcome)

    def on_markers_written(self, written: Markers, now_ms: int) -> Outcome:
        """`written.partitions` may be some of those asked for: the transaction is complete with the last. Harmless if
        it says nothing new.
        """
        shard = self._active.get(written.state_partition)
        if shard is None:
            return Outcome(written.state_partition)
        self._begin(shard)
        return self._emit(ending.on_markers_written(shard, written, now_ms))

    # ------------------------------------------------------------------------------------- by producers

    def init_producer_id(self, token: object, request: InitProducerIdRequest, now_ms: int) -> Outcome:
        return self._write(
            request,
            token,
            InitProducerIdResult,
            lambda shard: producers.init_producer_id(shard, token, request, now_ms),
            producers.check_init(request, self.settings),
        )

    def add_partitions(self, token: object, request: AddPartitionsRequest, now_ms: int) -> Outcome:
        def operation(shard: TransactionShard) -> Outcome:
            outcome = shard.outcome()
            partitions.add_partitions(shard, outcome, request, now_ms)
            outcome.reply(token, partitions.answer_all(request, ErrorCode.NONE))
            return outcome

        return self._write(
            request,
            token,
            lambda error: partitions.answer_all(request, error),
            operation,
        )

    def verify_partitions(self, request: AddPartitionsRequest) -> AddPartitionsResult:
        """Adds nothing: AddPartitionsToTxn with `verify_only`, and transactional writes of older clients."""
        try:
            return partitions.verify_partitions(self._require(request.transactional_id), request)
        except ApiError as error:
            return partitions.answer_all(request, _bearable(error.code, request.accepts_producer_fenced))

    def add_offsets(self, token: object, request: AddOffsetsRequest, now_ms: int) -> Outcome:
        offsets = (TopicPartition(CONSUMER_OFFSETS, request.offsets_partition),)

        def operation(shard: TransactionShard) -> Outcome:
            outcome = shard.outcome()
            addition = AddPartitionsRequest(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                offsets,
                request.client_transaction_version,
            )
            partitions.add_partitions(shard, outcome, addition, now_ms)
            outcome.reply(token, AddOffsetsResult(ErrorCode.NONE))
            return outcome

        return self._write(request, token, AddOffsetsResult, operation)

    def end_transaction(self, token: object, request: EndTransactionRequest, now_ms: int) -> Outcome:
        return self._write(
            request,
            token,
            EndTransactionResult,
            lambda shard: ending.end_transaction(shard, token, request, now_ms),
        )

    # --------------------------------------------------------------------------------- administration

    def describe_transaction(self, transactional_id: str) -> DescribedTransaction:
        try:
            return administration.describe_transaction(self._require(transactional_id), transactional_id)
        except ApiError as error:
            return DescribedTransaction(error.code, transactional_id)

    def list_transactions(self, request: ListTransactionsRequest, now_ms: int) -> ListTransactionsResult:
        if self._loading:
            return ListTransactionsResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        try:
            wanted = administration.compile_filter(request)
        except ApiError as error:
            return ListTransactionsResult(error.code)
        found = (
            transaction
            for shard in self._active.values()
            for transaction in administration.list_transactions(shard, wanted, now_ms)
        )
        return ListTransactionsResult(ErrorCode.NONE, tuple(found), administration.unknown_states(request))

    def expire_transactional_ids(self, partition: int, now_ms: int) -> Outcome:
        """To be called every now and then (transaction.remove.expired.transaction.cleanup.interval.ms)."""
        shard = self._active.get(partition)
        if shard is None:
            return Outcome(partition)
        self._begin(shard)
        return self._emit(administration.expire_transactional_ids(shard, now_ms))

    # ---------------------------------------------------------------------------------------- figures

    def active_partitions(self) -> list[int]:
        return list(self._active)

    def transaction_counts(self) -> Counter[TransactionState]:
        return Counter(
            transaction.state for shard in self._active.values() for transaction in shard.transactions.values()
        )

    # ---------------------------------------------------------------------------------------- routing

    def _require(self, transactional_id: str) -> TransactionShard:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        partition = self.partition_for(transactional_id)
        if partition in self._loading:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if partition not in self._active:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return self._active[partition]

    def _write(
        self,
        request: InitProducerIdRequest | AddPartitionsRequest | AddOffsetsRequest | EndTransactionRequest,
        token: object,
        refuse: Callable[[ErrorCode], Result],
        operation: Callable[[TransactionShard], Outcome],
        error: ErrorCode = ErrorCode.NONE,
    ) -> Outcome:
        try:
            if error is not ErrorCode.NONE:
                raise ApiError(error)
            shard = self._require(request.transactional_id)
            self._begin(shard)
            return self._emit(operation(shard))
        except ApiError as refusal:
            outcome = Outcome(self.partition_for(request.transactional_id))
            outcome.reply(token, refuse(_bearable(refusal.code, request.accepts_producer_fenced)))
            return outcome

    def _begin(self, shard: TransactionShard) -> Outcome:
        assert not self._unreplayed[shard.partition], (
            "the records of an earlier operation were neither replayed nor failed"
        )
        return shard.outcome()

    def _emit(self, outcome: Outcome) -> Outcome:
        self._unreplayed[outcome.partition] += len(outcome.records)
        return outcome


def _bearable(error: ErrorCode, accepts_producer_fenced: bool) -> ErrorCode:
    if error is ErrorCode.PRODUCER_FENCED and not accepts_producer_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
