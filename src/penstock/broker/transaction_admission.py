"""Whether a producer may write to partitions inside its transaction, asked before the write.

A partition where the log knows the transaction to be open needs no question. Otherwise the coordinator is asked: it
adds the partition to the transaction (transaction.version 2), or, for an older client, only looks whether the client
has added it (KIP-890). Without that a write that comes late, after its transaction has ended, would open a transaction
that nobody ever ends.

The coordinator may be another broker: then the write waits for that broker's answer, and others do not wait. The
transaction may end between the answer and the write, so a partition that has got a marker of the producer meanwhile is
refused: the producer tries again, and the coordinator is asked again. Where the coordinator cannot be reached the
producer is told to try again, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.peers.asking import PeerUnavailableError
from penstock.broker.runtimes.tickets import Ticket
from penstock.cluster.image import NO_LEADER
from penstock.core.internal_topics import TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.transactions.operations import ADD_PARTITIONS, VERIFY_PARTITIONS
from penstock.transactions.requests import AddPartitionsRequest
from penstock.transactions.results import AddPartitionsResult


class Admission(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    adds: bool
    accepts_transaction_abortable: bool


Refusals = dict[TopicPartition, ErrorCode]


def admit(broker: Broker, asked: Admission) -> Refusals | Awaitable[Refusals]:
    """The partitions that must not be written to, and why. At once, unless the disk has to be waited for,
    or the end of the producer's former transaction.
    """
    unknown = tuple(each for each in asked.partitions if not _is_open(broker, each, asked))
    if not unknown or not (asked.adds or broker.config.transactions.transaction_partition_verification_enable):
        return {}
    request = AddPartitionsRequest(
        transactional_id=asked.transactional_id,
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        partitions=unknown,
        client_transaction_version=2 if asked.adds else 0,
        accepts_producer_fenced=False,  # writers know INVALID_PRODUCER_EPOCH alone
        accepts_transaction_abortable=asked.accepts_transaction_abortable,
    )
    if not asked.adds:
        return _ask(broker, request, is_addition=False)
    refusals = _ask(broker, request, is_addition=True)
    if isinstance(refusals, dict) and not _is_ending(refusals):
        return refusals
    return _patiently(broker, request, refusals)


def _is_open(broker: Broker, topic_partition: TopicPartition, asked: Admission) -> bool:
    partition = broker.partitions.find(*topic_partition)
    return partition is not None and partition.log.producers.has_open_transaction(
        asked.producer_id, asked.producer_epoch
    )


def _ask(broker: Broker, request: AddPartitionsRequest, is_addition: bool) -> Refusals | Awaitable[Refusals]:
    index = broker.transactions.shards.partition_for(request.transactional_id)
    coordinator = broker.metadata.find_leader(TopicPartition(TRANSACTION_STATE, index))
    if coordinator == NO_LEADER:
        return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if coordinator is not None and coordinator != broker.node_id:
        return _ask_other(broker, coordinator, request, is_addition)
    return _add(broker, request) if is_addition else _verify(broker, request)


def _add(broker: Broker, request: AddPartitionsRequest) -> Refusals | Awaitable[Refusals]:
    ticket = broker.transactions.start(ADD_PARTITIONS, request)
    return _refusals(ticket.result) if ticket.result is not None else _wait(broker, ticket, request)


async def _patiently(broker: Broker, request: AddPartitionsRequest, asked: Refusals | Awaitable[Refusals]) -> Refusals:
    """Most often the markers of the producer's former transaction are just being written. To wait for that here costs
    less than to have the producer send its records again, which it does only after a pause of its own.
    """
    backoff_ms = broker.config.transactions.add_partitions_to_txn_retry_backoff_ms
    remaining_ms = broker.config.transactions.add_partitions_to_txn_retry_backoff_max_ms
    refusals = asked if isinstance(asked, dict) else await asked
    while _is_ending(refusals) and remaining_ms > 0:
        await asyncio.sleep(backoff_ms / 1000)
        remaining_ms -= backoff_ms
        again = _ask(broker, request, is_addition=True)
        refusals = again if isinstance(again, dict) else await again
    return refusals


def _is_ending(refusals: Refusals) -> bool:
    return ErrorCode.CONCURRENT_TRANSACTIONS in refusals.values()


def _look(broker: Broker, request: AddPartitionsRequest) -> AddPartitionsResult:
    return broker.transactions.shards.read(VERIFY_PARTITIONS, request)


def _verify(broker: Broker, request: AddPartitionsRequest) -> Refusals | Awaitable[Refusals]:
    if broker.transactions.is_durable([request.transactional_id]):
        return _refusals(_look(broker, request))
    return _verify_when_durable(broker, request)


async def _verify_when_durable(broker: Broker, request: AddPartitionsRequest) -> Refusals:
    """A write into a transaction that a power cut may take from the coordinator would open a transaction for ever."""
    result = await broker.transactions.read([request.transactional_id], lambda: _look(broker, request))
    return _refusals(result) or _refusals(_look(broker, request))


async def _wait(broker: Broker, ticket: Ticket[AddPartitionsResult], request: AddPartitionsRequest) -> Refusals:
    """The transaction may have ended while the disk was waited for, so it is looked at once more."""
    return _refusals(await ticket.wait()) or _refusals(_look(broker, request))


def _refusals(result: AddPartitionsResult) -> Refusals:
    return {partition: error for partition, error in result.partitions if error}


# ---------------------------------------------------------------------------------------- another broker's transactions


async def _ask_other(broker: Broker, coordinator: int, request: AddPartitionsRequest, is_addition: bool) -> Refusals:
    before = _count_markers(broker, request)
    try:
        answer = await broker.questions.ask(broker.ask, coordinator, _encode(request, is_addition))
    except PeerUnavailableError:
        return dict.fromkeys(request.partitions, ErrorCode.NETWORK_EXCEPTION)
    errors = _decode(answer, request.transactional_id)
    if answer.error_code:
        # The client is not to blame for what brokers may not do.
        is_forbidden = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        code = ErrorCode.INVALID_TXN_STATE if is_forbidden else ErrorCode(answer.error_code)
        errors = dict.fromkeys(request.partitions, code)
    after = _count_markers(broker, request)
    refusals = {}
    for partition in request.partitions:
        code = _bearable(errors.get(partition, ErrorCode.NETWORK_EXCEPTION), request)
        if not code and before[partition] != after[partition]:
            code = ErrorCode.NETWORK_EXCEPTION
        if code:
            refusals[partition] = code
    return refusals


def _count_markers(broker: Broker, request: AddPartitionsRequest) -> dict[TopicPartition, int]:
    """-1 for a partition that is not here: the write will be refused anyway."""
    found = {each: broker.partitions.find(*each) for each in request.partitions}
    return {
        each: -1 if partition is None else partition.log.producers.count_markers(request.producer_id)
        for each, partition in found.items()
    }


def _encode(request: AddPartitionsRequest, is_addition: bool) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for name, index in request.partitions:
        topics.setdefault(name, []).append(index)
    return AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        verify_only=not is_addition,
        topics=[AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )


def _decode(answer: AddPartitionsToTxnResponse, transactional_id: str) -> Refusals:
    return {
        TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for transaction in answer.results_by_transaction
        if transaction.transactional_id == transactional_id
        for topic in transaction.topic_results
        for each in topic.results_by_partition
    }


def _bearable(code: ErrorCode, request: AddPartitionsRequest) -> ErrorCode:
    """Brokers tell each other more than this client may know."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not request.accepts_transaction_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
