"""All operations of clients and of other brokers on the transaction coordinator, one line each: `Shards.perform` and
`Shards.read` take a request with its line of this table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from penstock.coordinators.operations import Operation, Query, Refusal
from penstock.coordinators.outcome import Result, Token
from penstock.protocol.errors import ErrorCode
from penstock.transactions import administration, partitions, producers, transaction_end
from penstock.transactions.outcome import TransactionOutcome
from penstock.transactions.requests import AddPartitionsRequest
from penstock.transactions.results import (
    AddOffsetsResult,
    AddPartitionsResult,
    DescribedTransaction,
    EndTransactionResult,
    InitProducerIdResult,
)
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.shard import TransactionShard


class TransactionRequest(Protocol):
    @property
    def transactional_id(self) -> str: ...


class ProducerRequest(TransactionRequest, Protocol):
    @property
    def accepts_producer_fenced(self) -> bool: ...


RequestType = TypeVar("RequestType", bound=TransactionRequest)
ResultType = TypeVar("ResultType", bound=Result)

TransactionOperation = Operation[TransactionShard, TransactionOutcome, TransactionSettings, RequestType, ResultType]


def _transactional_id(request: TransactionRequest) -> str:
    return request.transactional_id


def _named(request: TransactionRequest, _settings: TransactionSettings | None = None) -> Refusal | None:
    return None if request.transactional_id else Refusal(ErrorCode.INVALID_REQUEST)


def _operation(
    run: Callable[[TransactionShard, Token[ResultType], RequestType, int], TransactionOutcome],
    refuse: Callable[[RequestType, Refusal], ResultType],
    check: Callable[[RequestType, TransactionSettings], Refusal | None] = _named,
) -> TransactionOperation[RequestType, ResultType]:
    return Operation(_transactional_id, check, run, refuse)


def _bearable(request: ProducerRequest, refusal: Refusal) -> ErrorCode:
    if refusal.error is ErrorCode.PRODUCER_FENCED and not request.accepts_producer_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return refusal.error


def _refuse_partitions(request: AddPartitionsRequest, refusal: Refusal) -> AddPartitionsResult:
    return partitions.answer_all(request, _bearable(request, refusal))


INIT_PRODUCER_ID = _operation(
    producers.init_producer_id,
    lambda request, refusal: InitProducerIdResult(_bearable(request, refusal)),
    producers.check_init,
)
ADD_PARTITIONS = _operation(partitions.add_partitions, _refuse_partitions)
ADD_OFFSETS = _operation(partitions.add_offsets, lambda request, refusal: AddOffsetsResult(_bearable(request, refusal)))
END_TRANSACTION = _operation(
    transaction_end.end_transaction, lambda request, refusal: EndTransactionResult(_bearable(request, refusal))
)

# Adds nothing: AddPartitionsToTxn with `verify_only`, and transactional writes of older clients.
VERIFY_PARTITIONS = Query(_transactional_id, _named, partitions.verify_partitions, _refuse_partitions)
DESCRIBE_TRANSACTION = Query(
    _transactional_id,
    _named,
    administration.describe_transaction,
    lambda request, refusal: DescribedTransaction(refusal.error, request.transactional_id),
)
