"""InitProducerId: a producer takes over a transactional id. The new epoch fences its predecessor."""

from __future__ import annotations

from penstock.coordinators.operations import Refusal
from penstock.coordinators.outcome import Token
from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions import transaction_end
from penstock.transactions.outcome import TransactionOutcome
from penstock.transactions.requests import InitProducerIdRequest
from penstock.transactions.results import InitProducerIdResult
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import MAX_CLIENT_EPOCH, NO_TIMEOUT_MS, PREPARED, Transaction, TransactionState


def check_init(request: InitProducerIdRequest, settings: TransactionSettings) -> Refusal | None:
    if not request.transactional_id:
        return Refusal(ErrorCode.INVALID_REQUEST)
    if request.enable_two_phase_commit and not settings.two_phase_commit_enable:
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if request.keep_prepared_transaction:
        return Refusal(ErrorCode.UNSUPPORTED_VERSION)
    if not request.enable_two_phase_commit and not 0 < request.transaction_timeout_ms <= settings.max_timeout_ms:
        return Refusal(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    return None


def init_producer_id(
    shard: TransactionShard, token: Token[InitProducerIdResult], request: InitProducerIdRequest, now_ms: int
) -> TransactionOutcome:
    """ApiError if the request is refused, also where there is no producer id to give."""
    transaction = shard.transactions.get(request.transactional_id)
    if transaction is None:
        # Whatever the producer's own id and epoch are: the transactional id may have expired, and then no other
        # producer has it either.
        transaction = Transaction(shard.new_producer_id())
    else:
        if transaction.state in PREPARED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if not _is_known(request, transaction):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
    outcome = shard.outcome()
    if transaction.state is TransactionState.ONGOING:
        # No producer gets the epoch of this fence: the retry bumps it once more, or finds the epochs used up.
        transaction_end.fence_and_abort(shard, outcome, request.transactional_id, transaction, now_ms)
        outcome.reply(token, InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS))
        return outcome
    after = _take_over(shard, request, transaction, now_ms)
    shard.stage(outcome, request.transactional_id, after)
    outcome.reply(token, InitProducerIdResult(ErrorCode.NONE, after.producer_id, after.producer_epoch))
    return outcome


def _is_known(request: InitProducerIdRequest, transaction: Transaction) -> bool:
    """Whether a producer that recovers may still have the id (KIP-360). Its epoch is checked later."""
    if request.expected_producer_id == NO_PRODUCER_ID or request.expected_producer_id == transaction.producer_id:
        return True
    # It may have got a new producer id in an answer that was lost.
    is_previous = request.expected_producer_id == transaction.previous_producer_id
    return is_previous and request.expected_producer_epoch >= MAX_CLIENT_EPOCH


def _take_over(
    shard: TransactionShard, request: InitProducerIdRequest, transaction: Transaction, now_ms: int
) -> Transaction:
    current = transaction.producer_epoch
    is_recovering = request.expected_producer_id != NO_PRODUCER_ID
    is_current = request.expected_producer_epoch == current
    producer_id = transaction.producer_id
    if transaction.is_epoch_exhausted and (is_current or not is_recovering):
        producer_id, epoch, last = shard.new_producer_id(), 0, current if is_recovering else NO_PRODUCER_EPOCH
    elif not is_recovering:
        epoch, last = current + 1, NO_PRODUCER_EPOCH
    elif is_current or current == NO_PRODUCER_EPOCH:
        epoch, last = current + 1, current
    elif request.expected_producer_epoch == transaction.last_producer_epoch:
        # The answer to the first attempt was lost. No other producer can have come in between: that would have cleared
        # the last epoch.
        epoch, last = current, transaction.last_producer_epoch
    else:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    timeout_ms = NO_TIMEOUT_MS if request.enable_two_phase_commit else request.transaction_timeout_ms
    return transaction.initialised(producer_id, epoch, last, timeout_ms, now_ms)
