"""Whether a producer may write to partitions inside its transaction, asked before the write.

A partition where the log knows the transaction to be open needs no question. Otherwise the coordinator is asked: it
adds the partition to the transaction (transaction.version 2), or, for an older client, only looks whether the client
has added it (KIP-890). Without that a write that comes late, after its transaction has ended, would open a transaction
that nobody ever ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.runtimes.tickets import Ticket
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
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
        return _verify(broker, request)
    refusals = _add(broker, request)
    if isinstance(refusals, dict) and not _is_ending(refusals):
        return refusals
    return _patiently(broker, request, refusals)


def _is_open(broker: Broker, topic_partition: TopicPartition, asked: Admission) -> bool:
    partition = broker.partitions.find(*topic_partition)
    return partition is not None and partition.log.producers.has_open_transaction(
        asked.producer_id, asked.producer_epoch
    )


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
        again = _add(broker, request)
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
