"""The partitions of a transaction: the first begins it."""

from __future__ import annotations

from penstock.coordinators.outcome import Token
from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.lazy.lazy_sequence import LazySequence
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions.outcome import TransactionOutcome
from penstock.transactions.requests import AddOffsetsRequest, AddPartitionsRequest
from penstock.transactions.results import AddOffsetsResult, AddPartitionsResult, PartitionResult
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import PREPARED, Transaction, TransactionState


def answer_all(request: AddPartitionsRequest, error: ErrorCode) -> AddPartitionsResult:
    return AddPartitionsResult(LazySequence(request.partitions, lambda partition: PartitionResult(partition, error)))


def add_partitions(
    shard: TransactionShard, token: Token[AddPartitionsResult], request: AddPartitionsRequest, now_ms: int
) -> TransactionOutcome:
    """ApiError if the request is refused."""
    outcome = shard.outcome()
    _add(shard, outcome, request, now_ms)
    outcome.reply(token, answer_all(request, ErrorCode.NONE))
    return outcome


def add_offsets(
    shard: TransactionShard, token: Token[AddOffsetsResult], request: AddOffsetsRequest, now_ms: int
) -> TransactionOutcome:
    """The partition that holds the group's offsets joins like any other. ApiError if the request is refused."""
    outcome = shard.outcome()
    addition = AddPartitionsRequest(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (TopicPartition(CONSUMER_OFFSETS, request.offsets_partition),),
        request.client_transaction_version,
    )
    _add(shard, outcome, addition, now_ms)
    outcome.reply(token, AddOffsetsResult(ErrorCode.NONE))
    return outcome


def _add(shard: TransactionShard, outcome: TransactionOutcome, request: AddPartitionsRequest, now_ms: int) -> None:
    transaction = shard.transactions.get(request.transactional_id)
    if transaction is not None and transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    transaction = _check_producer(transaction, request)
    added = frozenset(request.partitions)
    if transaction.state is TransactionState.ONGOING and added <= transaction.partitions:
        return
    after = transaction.extended(added, request.client_transaction_version, now_ms)
    shard.stage(outcome, request.transactional_id, after)
    if transaction.state is not TransactionState.ONGOING:
        shard.expect_end(outcome, request.transactional_id, after, now_ms)


def verify_partitions(shard: TransactionShard, request: AddPartitionsRequest) -> AddPartitionsResult:
    """Whether a transactional write may be appended (KIP-890). ApiError if the request is refused."""
    transaction = _check_producer(shard.transactions.get(request.transactional_id), request)
    if transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    missing = ErrorCode.TRANSACTION_ABORTABLE if request.accepts_transaction_abortable else ErrorCode.INVALID_TXN_STATE
    added = transaction.partitions
    return AddPartitionsResult(
        LazySequence(
            request.partitions,
            lambda partition: PartitionResult(partition, ErrorCode.NONE if partition in added else missing),
        )
    )


def _check_producer(transaction: Transaction | None, request: AddPartitionsRequest) -> Transaction:
    if transaction is None or transaction.producer_id != request.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return transaction
