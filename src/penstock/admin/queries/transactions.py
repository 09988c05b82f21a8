"""Transactions: listed by every broker, described by the one that coordinates them, found open by leaders.

A broker lists the transactions that it coordinates, so no coordinator has to be looked for. The leader of a partition
tells what is open there, whether or not a coordinator knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from penstock.admin.queries.slices import DESCRIBED_AT_ONCE, cut
from penstock.admin.state.parts import Failure, Partial
from penstock.admin.state.transactions import ListedTransaction, OpenTransaction, TransactionState
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode, error_of
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.describe_transactions import TransactionState as DescribedTransaction
from penstock.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from penstock.admin.look import Look

_ANY_AGE_MS = -1
# The first versions of ListTransactions with these conditions. They are left out of an older one without a word.
_AGE_SINCE, _PATTERN_SINCE = 1, 2
_NOT_OPEN = -1


def transactions_request(
    states: Sequence[str] = (),
    producer_ids: Sequence[int] = (),
    open_for_ms: int | None = None,
    pattern: str | None = None,
) -> ListTransactionsRequest:
    return ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=_ANY_AGE_MS if open_for_ms is None else open_for_ms,
        transactional_id_pattern=pattern,
    )


def explain_unknown_condition(request: ListTransactionsRequest, version: int) -> ApiError | None:
    """Why a broker with this version cannot be asked: it would list transactions that do not meet the condition."""
    if request.transactional_id_pattern is not None and version < _PATTERN_SINCE:
        text = "it cannot choose transactions by a pattern: brokers before Kafka 4.1 do not know that"
    elif request.duration_filter >= 0 and version < _AGE_SINCE:
        text = "it cannot choose transactions by their age: brokers before Kafka 3.8 do not know that"
    else:
        return None
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, text)


async def list_transactions(
    look: Look, nodes: Iterable[int], request: ListTransactionsRequest
) -> Partial[dict[str, ListedTransaction]]:
    """Those that the caller may describe, of these brokers. One that does not know a condition is not asked."""
    asked = list(nodes)
    unable = await _find_unable(look, asked, request)
    answers, failures = await look.ask_each(
        "transactions", ((node_id, request) for node_id in asked if node_id not in unable)
    )
    failures = (*unable.values(), *failures)
    found: dict[str, ListedTransaction] = {}
    refused = []
    for node_id, _, answer in answers:
        if answer.error_code != ErrorCode.NONE:
            refused.append(Failure.of("transactions", error_of(answer.error_code), node_id))
        elif answer.unknown_state_filters:
            unknown = error_of(
                ErrorCode.INVALID_REQUEST, f"there is no state {', '.join(answer.unknown_state_filters)}"
            )
            refused.append(Failure.of("transactions", unknown, node_id))
        found |= {each.transactional_id: each for each in read_listed(answer, node_id)}
    return Partial(dict(sorted(found.items())), (*failures, *refused))


async def _find_unable(look: Look, nodes: Sequence[int], request: ListTransactionsRequest) -> dict[int, Failure]:
    if explain_unknown_condition(request, 0) is None:
        return {}

    async def look_at(node_id: int) -> Failure | None:
        try:
            refusal = explain_unknown_condition(request, (await look.connect(node_id)).version_of(request))
        except (OSError, ApiError) as error:
            return Failure.of("transactions", error, node_id)
        return None if refusal is None else Failure.of("transactions", refusal, node_id)

    failures = zip(nodes, await asyncio.gather(*map(look_at, nodes)), strict=True)
    return {node_id: failure for node_id, failure in failures if failure is not None}


def read_listed(answer: ListTransactionsResponse, coordinator: int) -> list[ListedTransaction]:
    return [
        ListedTransaction(row.transactional_id, row.transaction_state, row.producer_id, coordinator)
        for row in answer.transaction_states
    ]


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
                found[row.transactional_id] = read_transaction(row, node_id)
    return Partial(dict(sorted(found.items())), (*failures, *refused))


def read_transaction(row: DescribedTransaction, coordinator: int) -> TransactionState:
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


# ------------------------------------------------------------------------------------ of a partition


def producers_request(place: TopicPartition) -> DescribeProducersRequest:
    topic = TopicRequest(name=place.topic, partition_indexes=[place.partition])
    return DescribeProducersRequest(topics=[topic])


def read_open_transactions(answer: DescribeProducersResponse) -> list[OpenTransaction]:
    """Of the one partition that was asked about. Raises ApiError."""
    ((row,),) = (topic.partitions for topic in answer.topics)
    if row.error_code != ErrorCode.NONE:
        raise error_of(row.error_code, row.error_message)
    return [
        OpenTransaction(each.producer_id, each.producer_epoch, each.coordinator_epoch, each.current_txn_start_offset)
        for each in row.active_producers
        if each.current_txn_start_offset != _NOT_OPEN
    ]


def abort_request(place: TopicPartition, transaction: OpenTransaction) -> WriteTxnMarkersRequest:
    """As kafka-transactions sends it: an epoch of the coordinator that the partition does not know is 0."""
    topic = WritableTxnMarkerTopic(name=place.topic, partition_indexes=[place.partition])
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
        transaction_result=False,
        topics=[topic],
    )
    return WriteTxnMarkersRequest(markers=[marker])


def check_abort(answer: WriteTxnMarkersResponse) -> None:
    """Raises ApiError."""
    (row,) = answer.markers[0].topics[0].partitions
    if row.error_code != ErrorCode.NONE:
        raise error_of(row.error_code)
