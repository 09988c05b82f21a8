"""Whether a producer may write to partitions inside its transaction, asked before the write.

A partition where the log knows the transaction to be open needs no question. Otherwise the coordinator is asked: it
adds the partition to the transaction (transaction.version 2), or, for an older client, only looks whether the client
has added it (KIP-890). Without that a write that comes late, after its transaction has ended, would open a transaction
that nobody ever ends.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.broker.tickets import Ticket
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
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
    """The partitions that must not be written to, and why. At once, unless the disk has to be waited for."""
    unknown = tuple(where for where in asked.partitions if not _is_open(broker, where, asked))
    if not unknown or not (asked.adds or broker.config.transaction_partition_verification_enable):
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
    coordinator = broker.transactions.coordinator
    ticket = broker.transactions.start(
        lambda ticket: coordinator.add_partitions(ticket, request, broker.clock.now_ms())
    )
    return _refusals(ticket.result) if ticket.result is not None else _wait(broker, ticket, request)


def _is_open(broker: Broker, where: TopicPartition, asked: Admission) -> bool:
    partition = broker.partitions.find(*where)
    return partition is not None and partition.log.has_open_transaction(asked.producer_id, asked.producer_epoch)


def _verify(broker: Broker, request: AddPartitionsRequest) -> Refusals:
    return _refusals(broker.transactions.coordinator.verify_partitions(request))


async def _wait(broker: Broker, ticket: Ticket, request: AddPartitionsRequest) -> Refusals:
    """The transaction may have ended while the disk was waited for, so it is looked at once more."""
    return _refusals(await ticket.wait()) or _verify(broker, request)


def _refusals(result: AddPartitionsResult) -> Refusals:
    return {where: error for where, error in result.partitions if error}
