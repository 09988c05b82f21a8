"""Decides before a write whether a producer may write to partitions inside its transaction.

A partition whose log knows the transaction to be open needs no question. Otherwise the broker asks the coordinator: the
coordinator adds the partition to the transaction (transaction.version 2), or, for an older client, only checks whether
the client has added it (KIP-890). Without that a late write, after the end of its transaction, would open a transaction
that no coordinator ever ends.

The coordinator may be another broker: then the write waits for that broker's answer, and other writes do not wait. The
transaction may end between the answer and the write, so a partition that has got a marker of the producer meanwhile is
refused: the producer tries again, and the broker asks the coordinator again. Where the coordinator is unreachable the
producer gets an error that makes it try again, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import NamedTuple

from penstock.broker.partitions.partitions import Partitions
from penstock.broker.peers.peer_requests import Ask, PeerUnavailableError, no_peers
from penstock.broker.runtimes.tickets import Ticket
from penstock.broker.runtimes.transaction_questions import TransactionQuestions
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.cluster.image import NO_LEADER
from penstock.cluster.metadata import Metadata
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


class TransactionAdmission:
    def __init__(
        self,
        node_id: int,
        partitions: Partitions,
        transactions: TransactionRuntime,
        metadata: Metadata,
        ask: Ask = no_peers,
    ) -> None:
        """`ask` asks coordinators on other brokers."""
        self._node_id = node_id
        self._partitions = partitions
        self._transactions = transactions
        self._metadata = metadata
        self._ask_peer = ask
        self._questions = TransactionQuestions()

    def admit(self, asked: Admission) -> Refusals | Awaitable[Refusals]:
        """The partitions that must not be written to, with their errors. At once, unless the answer waits for the disk,
        or for the end of the producer's former transaction.
        """
        unknown = tuple(each for each in asked.partitions if not self._is_open(each, asked))
        settings = self._metadata.config.transactions
        if not unknown or not (asked.adds or settings.transaction_partition_verification_enable):
            return {}
        request = AddPartitionsRequest(
            transactional_id=asked.transactional_id,
            producer_id=asked.producer_id,
            producer_epoch=asked.producer_epoch,
            partitions=unknown,
            client_transaction_version=2 if asked.adds else 0,
            accepts_producer_fenced=False,  # clients of a write know INVALID_PRODUCER_EPOCH alone
            accepts_transaction_abortable=asked.accepts_transaction_abortable,
        )
        if not asked.adds:
            return self._ask(request, is_addition=False)
        refusals = self._ask(request, is_addition=True)
        if isinstance(refusals, dict) and not _is_ending(refusals):
            return refusals
        return self._patiently(request, refusals)

    def _is_open(self, topic_partition: TopicPartition, asked: Admission) -> bool:
        partition = self._partitions.find(*topic_partition)
        return partition is not None and partition.log.producers.has_open_transaction(
            asked.producer_id, asked.producer_epoch
        )

    def _ask(self, request: AddPartitionsRequest, is_addition: bool) -> Refusals | Awaitable[Refusals]:
        index = self._transactions.shards.partition_for(request.transactional_id)
        coordinator = self._metadata.find_leader(TopicPartition(TRANSACTION_STATE, index))
        if coordinator == NO_LEADER:
            return dict.fromkeys(request.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator is not None and coordinator != self._node_id:
            return self._ask_other(coordinator, request, is_addition)
        return self._add(request) if is_addition else self._verify(request)

    def _add(self, request: AddPartitionsRequest) -> Refusals | Awaitable[Refusals]:
        ticket = self._transactions.start(ADD_PARTITIONS, request)
        return _refusals(ticket.result) if ticket.result is not None else self._wait(ticket, request)

    async def _patiently(self, request: AddPartitionsRequest, asked: Refusals | Awaitable[Refusals]) -> Refusals:
        """Most often the markers of the producer's former transaction are just being written. A wait here costs less
        than a second sending of the records, which comes only after a pause of the producer.
        """
        settings = self._metadata.config.transactions
        backoff_ms = settings.add_partitions_to_txn_retry_backoff_ms
        remaining_ms = settings.add_partitions_to_txn_retry_backoff_max_ms
        refusals = asked if isinstance(asked, dict) else await asked
        while _is_ending(refusals) and remaining_ms > 0:
            await asyncio.sleep(backoff_ms / 1000)
            remaining_ms -= backoff_ms
            again = self._ask(request, is_addition=True)
            refusals = again if isinstance(again, dict) else await again
        return refusals

    def _look(self, request: AddPartitionsRequest) -> AddPartitionsResult:
        return self._transactions.shards.read(VERIFY_PARTITIONS, request)

    def _verify(self, request: AddPartitionsRequest) -> Refusals | Awaitable[Refusals]:
        if self._transactions.is_durable([request.transactional_id]):
            return _refusals(self._look(request))
        return self._verify_when_durable(request)

    async def _verify_when_durable(self, request: AddPartitionsRequest) -> Refusals:
        """A write into a transaction that a power cut may take from the coordinator would open a transaction for
        ever.
        """
        result = await self._transactions.read([request.transactional_id], lambda: self._look(request))
        return _refusals(result) or _refusals(self._look(request))

    async def _wait(self, ticket: Ticket[AddPartitionsResult], request: AddPartitionsRequest) -> Refusals:
        """The transaction may have ended during the wait for the disk, so it is checked once more."""
        return _refusals(await ticket.wait()) or _refusals(self._look(request))

    # ------------------------------------------------------------------------ another broker's transactions

    async def _ask_other(self, coordinator: int, request: AddPartitionsRequest, is_addition: bool) -> Refusals:
        before = self._count_markers(request)
        try:
            answer = await self._questions.ask(self._ask_peer, coordinator, _encode(request, is_addition))
        except PeerUnavailableError:
            return dict.fromkeys(request.partitions, ErrorCode.NETWORK_EXCEPTION)
        errors = _decode(answer, request.transactional_id)
        if answer.error_code:
            # The client is not to blame for a broker's missing rights.
            is_forbidden = answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            code = ErrorCode.INVALID_TXN_STATE if is_forbidden else ErrorCode(answer.error_code)
            errors = dict.fromkeys(request.partitions, code)
        after = self._count_markers(request)
        refusals = {}
        for partition in request.partitions:
            code = _bearable(errors.get(partition, ErrorCode.NETWORK_EXCEPTION), request)
            if not code and before[partition] != after[partition]:
                code = ErrorCode.NETWORK_EXCEPTION
            if code:
                refusals[partition] = code
        return refusals

    def _count_markers(self, request: AddPartitionsRequest) -> dict[TopicPartition, int]:
        """-1 for a partition that is not here: the write will fail anyway."""
        found = {each: self._partitions.find(*each) for each in request.partitions}
        return {
            each: -1 if partition is None else partition.log.producers.count_markers(request.producer_id)
            for each, partition in found.items()
        }


def _is_ending(refusals: Refusals) -> bool:
    return ErrorCode.CONCURRENT_TRANSACTIONS in refusals.values()


def _refusals(result: AddPartitionsResult) -> Refusals:
    return {partition: error for partition, error in result.partitions if error}


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
    """Brokers send each other more errors than this client may know."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not request.accepts_transaction_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return code
