"""Transactions for administrators, and the expiry of unused ids."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable
from typing import NamedTuple

from penstock.coordinators.regular_expression import NameExpression
from penstock.protocol.errors import ErrorCode
from penstock.transactions.outcome import TransactionOutcome
from penstock.transactions.requests import NO_DURATION, DescribeTransactionRequest, ListTransactionsRequest
from penstock.transactions.results import DescribedTransaction, ListedTransaction
from penstock.transactions.shard import TransactionShard
from penstock.transactions.state import IDLE, Transaction, TransactionState

_STATES = {state.title: state for state in TransactionState}


def describe_transaction(shard: TransactionShard, request: DescribeTransactionRequest) -> DescribedTransaction:
    transactional_id = request.transactional_id
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        return DescribedTransaction(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return DescribedTransaction(
        ErrorCode.NONE,
        transactional_id,
        transaction.state.title,
        transaction.timeout_ms,
        transaction.start_timestamp_ms,
        transaction.producer_id,
        transaction.producer_epoch,
        # After the decision: the partitions whose marker is still missing.
        tuple(sorted(shard.unmarked.get(transactional_id, transaction.partitions))),
    )


class Filter(NamedTuple):
    states: Collection[TransactionState] | None
    producer_ids: Collection[int]
    duration_ms: int
    pattern: NameExpression | None

    def accepts(self, transactional_id: str, transaction: Transaction, now_ms: int) -> Generator[None, None, bool]:
        """In steps: an id may be long, and a client chose the pattern."""
        return (
            (not self.producer_ids or transaction.producer_id in self.producer_ids)
            and (self.states is None or transaction.state in self.states)
            # An id without any transaction counts as running since the beginning of time, as it does in Kafka.
            and (self.duration_ms <= NO_DURATION or now_ms - transaction.start_timestamp_ms > self.duration_ms)
            and (self.pattern is None or (yield from self.pattern.match_in_steps(transactional_id)))
        )


def unknown_states(request: ListTransactionsRequest) -> tuple[str, ...]:
    return tuple(state for state in request.states if state not in _STATES)


def compile_filter(request: ListTransactionsRequest) -> Filter:
    """ApiError(INVALID_REGULAR_EXPRESSION)."""
    # Not Python's own: it backtracks, and `re` keeps clients' patterns in a cache of its own.
    pattern = NameExpression(request.transactional_id_pattern) if request.transactional_id_pattern else None
    states = {_STATES[state] for state in request.states if state in _STATES} if request.states else None
    return Filter(states, set(request.producer_ids), request.duration_ms, pattern)


def show_listed(transactional_id: str, transaction: Transaction) -> ListedTransaction:
    return ListedTransaction(transactional_id, transaction.producer_id, transaction.state.title)


def expire_transactional_ids(
    shard: TransactionShard, now_ms: int, candidates: Iterable[str] | None = None
) -> TransactionOutcome:
    """Checks the `candidates` alone (None: all ids), which may be gone by now."""
    outcome = shard.outcome()
    outcome.is_atomic = False
    before_ms = now_ms - shard.settings.transactional_id_expiration_ms
    for transactional_id in shard.transactions if candidates is None else candidates:
        transaction = shard.transactions.get(transactional_id)
        if transaction is not None and transaction.state in IDLE and transaction.last_update_timestamp_ms <= before_ms:
            shard.stage_tombstone(outcome, transactional_id)
    return outcome
