"""Transactions: listed by every broker, described by the one that coordinates them.

A broker lists the transactions that it coordinates, so no coordinator has to be looked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.admin.look import Look
from penstock.admin.queries.slices import DESCRIBED_AT_ONCE, cut
from penstock.admin.state.parts import Failure, Partial
from penstock.admin.state.transactions import ListedTransaction, TransactionState
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.list_transactions import ListTransactionsRequest


async def list_transactions(
    look: Look, nodes: Iterable[int], request: ListTransactionsRequest
) -> Partial[dict[str, ListedTransaction]]:
    """Those that the caller may describe, of these brokers."""
    answers, failures = await look.ask_each("transactions", ((node_id, request) for node_id in nodes))
    found = {}
    refused = []
    for node_id, _, answer in answers:
        if answer.error_code != ErrorCode.NONE:
            refused.append(Failure.of("transactions", error_of(answer.error_code), node_id))
        elif answer.unknown_state_filters:
            unknown = error_of(
                ErrorCode.INVALID_REQUEST, f"there is no state {', '.join(answer.unknown_state_filters)}"
            )
            refused.append(Failure.of("transactions", unknown, node_id))
        for row in answer.transaction_states:
            found[row.transactional_id] = ListedTransaction(
                row.transactional_id, row.transaction_state, row.producer_id, node_id
            )
    return Partial(dict(sorted(found.items())), (*failures, *refused))


async def describe_transactions(
    look: Look, transactions: Iterable[ListedTransaction]
) -> Partial[dict[str, TransactionState]]:
    by_coordinator: dict[int, list[str]] = {}
    for each in transactions:
        by_coordinator.setdefault(each.coordinator, []).append(each.transactional_id)
    requests = [
        (node_id, DescribeTransactionsRequest(transactional_ids=list(some)))
        for node_id, ids in by_coordinator.items()
        for some in cut(ids, DESCRIBED_AT_ONCE)
    ]
    answers, failures = await look.ask_each("transactions", requests)
    found = {}
    refused = []
    for node_id, _, answer in answers:
        for row in answer.transaction_states:
            if row.error_code != ErrorCode.NONE:
                refused.append(Failure.of(f"transaction {row.transactional_id}", error_of(row.error_code), node_id))
            else:
                found[row.transactional_id] = _transaction(row, node_id)
    return Partial(dict(sorted(found.items())), (*failures, *refused))


def _transaction(row: DescribedTransaction, coordinator: int) -> TransactionState:
    return TransactionState(
        row.transactional_id,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        coordinator,
        row.transaction_timeout_ms,
        row.transaction_start_time_ms if row.transaction_start_time_ms >= 0 else None,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in row.topics for index in topic.partitions)),
    )
