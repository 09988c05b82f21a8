"""The end of transactions: by their producer, by a new producer, by their timeout; then by markers in every partition.

The decision and the completion are two records. Between them the producer gets CONCURRENT_TRANSACTIONS for every
request. A transaction without partitions needs no markers and is completed together with its decision.
"""

from __future__ import annotations

import logging

from penstock.coordinators.outcome import Token
from penstock.core.types import NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions.outcome import AppendPurpose, Markers, PendingAppend, TimerKey, TimerKind, TransactionOutcome
from penstock.transactions.requests import EndTransactionRequest
from penstock.transactions.results import EndTransactionResult
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import (
    EPOCH_BUMP_VERSION,
    IDLE,
    MAX_CLIENT_EPOCH,
    PREPARED,
    Transaction,
    TransactionState,
)

_OUTCOMES = {True: TransactionState.COMPLETE_COMMIT, False: TransactionState.COMPLETE_ABORT}


# ----------------------------------------------------------------------------------------- by the producer


def end_transaction(
    shard: TransactionShard, token: Token[EndTransactionResult], request: EndTransactionRequest, now_ms: int
) -> TransactionOutcome:
    """ApiError if the request is refused, also where there is no producer id to continue with."""
    transaction = shard.transactions.get(request.transactional_id)
    if transaction is None:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    outcome = shard.outcome()
    has_bump = request.client_transaction_version >= EPOCH_BUMP_VERSION
    is_answered = (_is_retry_with_bump if has_bump else _is_retry)(transaction, request)
    if not is_answered:
        # The client cannot get another epoch than its version allows.
        version = request.client_transaction_version if has_bump else 0
        transaction = _decide(shard, outcome, request.transactional_id, transaction, request.is_commit, version, now_ms)
    result = EndTransactionResult(ErrorCode.NONE)
    if has_bump:
        result = EndTransactionResult(ErrorCode.NONE, transaction.producer_id, transaction.producer_epoch)
    outcome.reply(token, result)
    return outcome


def _is_retry(transaction: Transaction, request: EndTransactionRequest) -> bool:
    """For clients whose epoch stays the same from transaction to transaction. ApiError if refused."""
    if transaction.producer_id != request.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != request.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        return False
    if transaction.state is not _OUTCOMES[request.is_commit]:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return True


def _is_retry_with_bump(transaction: Transaction, request: EndTransactionRequest) -> bool:
    """For clients with another epoch for each transaction: a client with the epoch before repeats its request, a client
    with the current epoch and no transaction wants an abort before the first record. ApiError if refused.
    """
    if transaction.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
    has_ended = transaction.state in IDLE and transaction.state is not TransactionState.EMPTY
    was_bumped = has_ended and transaction.client_transaction_version >= EPOCH_BUMP_VERSION
    is_current = transaction.producer_epoch == request.producer_epoch
    is_before_bump = was_bumped and transaction.producer_epoch == request.producer_epoch + 1
    is_before_rotation = (
        was_bumped
        and transaction.previous_producer_id == request.producer_id
        and transaction.producer_id != request.producer_id
        and transaction.producer_epoch == 0
        and request.producer_epoch == MAX_CLIENT_EPOCH
    )
    if transaction.producer_id != request.producer_id and not is_before_rotation:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not (is_current or is_before_bump or is_before_rotation):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        return False
    is_retry = is_before_bump or is_before_rotation
    if request.is_commit and not is_retry:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    if is_retry and transaction.state is not _OUTCOMES[request.is_commit]:
        raise ApiError(ErrorCode.INVALID_TXN_STATE)
    return is_retry


# ------------------------------------------------------------------------------------- by the coordinator


def fence_and_abort(
    shard: TransactionShard, outcome: TransactionOutcome, transactional_id: str, transaction: Transaction, now_ms: int
) -> None:
    version = shard.settings.transaction_version
    if version < EPOCH_BUMP_VERSION:
        transaction, version = transaction.fenced(), 0
    _decide(shard, outcome, transactional_id, transaction, False, version, now_ms)


def on_timer(shard: TransactionShard, key: TimerKey, now_ms: int) -> TransactionOutcome:
    outcome = shard.outcome()
    if key.kind is TimerKind.TRANSACTION_TIMEOUT:
        _on_timeout(shard, outcome, key.transactional_id, now_ms)
    else:
        _complete(shard, outcome, key.transactional_id, now_ms)
    return outcome


def _on_timeout(shard: TransactionShard, outcome: TransactionOutcome, transactional_id: str, now_ms: int) -> None:
    transaction = shard.transactions.get(transactional_id)
    if transaction is None or transaction.state is not TransactionState.ONGOING:
        return
    if not transaction.is_timed_out(now_ms):
        shard.expect_end(outcome, transactional_id, transaction, now_ms)
        return
    outcome.tell_operator(
        logging.INFO,
        "a transaction is aborted: its producer did not end it in time",
        transactional_id=transactional_id,
        timeout_ms=transaction.timeout_ms,
    )
    pending = PendingAppend(AppendPurpose.ABORT_TIMED_OUT, transactional_id)
    try:
        fence_and_abort(shard, outcome, transactional_id, transaction, now_ms)
    except ApiError:  # no producer id at the moment
        shard.try_again(outcome, pending)
        return
    outcome.pending = pending


def _decide(
    shard: TransactionShard,
    outcome: TransactionOutcome,
    transactional_id: str,
    transaction: Transaction,
    is_commit: bool,
    version: int,
    now_ms: int,
) -> Transaction:
    """The transaction after its completion."""
    must_rotate = version >= EPOCH_BUMP_VERSION and transaction.is_epoch_exhausted
    next_producer_id = shard.new_producer_id() if must_rotate else NO_PRODUCER_ID
    decided = transaction.prepared(is_commit, version, next_producer_id, now_ms)
    completed = decided.completed(now_ms)
    shard.stage(outcome, transactional_id, decided)
    if decided.partitions:
        shard.ask_for_markers(outcome, transactional_id, decided)
    else:
        shard.stage(outcome, transactional_id, completed)
    return completed


# ---------------------------------------------------------------------------------------------- by markers


def on_markers_written(shard: TransactionShard, written: Markers, now_ms: int) -> TransactionOutcome:
    """Stale reports, of an earlier owner of the partition or of an earlier transaction, have no effect."""
    outcome = shard.outcome()
    transaction = shard.transactions.get(written.transactional_id)
    unmarked = shard.unmarked.get(written.transactional_id)
    if (
        transaction is not None
        and unmarked
        and written.coordinator_epoch == shard.coordinator_epoch
        and written.producer_id == transaction.producer_id
        and written.producer_epoch == transaction.producer_epoch
        and written.is_commit == transaction.is_commit
    ):
        unmarked.difference_update(written.partitions)
        _complete(shard, outcome, written.transactional_id, now_ms)
    return outcome


def _complete(shard: TransactionShard, outcome: TransactionOutcome, transactional_id: str, now_ms: int) -> None:
    if shard.unmarked.get(transactional_id) == set():
        shard.stage(outcome, transactional_id, shard.transactions[transactional_id].completed(now_ms))
        outcome.pending = PendingAppend(AppendPurpose.COMPLETE, transactional_id)


def resume(shard: TransactionShard, now_ms: int) -> TransactionOutcome:
    """After a load: decided transactions are carried out, open ones keep their deadlines."""
    outcome = shard.outcome()
    for transactional_id, transaction in shard.transactions.items():
        if transaction.state is TransactionState.ONGOING:
            shard.expect_end(outcome, transactional_id, transaction, now_ms)
        elif transaction.state in PREPARED and transaction.partitions:
            shard.ask_for_markers(outcome, transactional_id, transaction)
        elif transaction.state in PREPARED:
            outcome.set_timer(TimerKind.COMPLETION_RETRY, transactional_id, 0)
    return outcome
