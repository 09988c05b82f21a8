"""The transaction coordinator's results. Every result of a request that may write can be turned into a failure
(`failed`), because the append of its records may fail after the result was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.lazy.lazy_sequence import LazySequence
from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from penstock.protocol.errors import ErrorCode


class InitProducerIdResult(NamedTuple):
    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    def failed(self, error: ErrorCode) -> InitProducerIdResult:
        return InitProducerIdResult(error)


class PartitionResult(NamedTuple):
    partition: TopicPartition
    error: ErrorCode


class AddPartitionsResult(NamedTuple):
    """One entry per partition of the request, in its order."""

    partitions: Sequence[PartitionResult]

    def failed(self, error: ErrorCode) -> AddPartitionsResult:
        return AddPartitionsResult(LazySequence(self.partitions, lambda entry: entry._replace(error=error)))


class AddOffsetsResult(NamedTuple):
    error: ErrorCode

    def failed(self, error: ErrorCode) -> AddOffsetsResult:
        return AddOffsetsResult(error)


class EndTransactionResult(NamedTuple):
    """The producer continues with this id and epoch (EndTxn v5 and later)."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    def failed(self, error: ErrorCode) -> EndTransactionResult:
        return EndTransactionResult(error)


class DescribedTransaction(NamedTuple):
    error: ErrorCode
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_time_ms: int = NO_TIMESTAMP
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: tuple[TopicPartition, ...] = ()


class ListedTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    state: str


class ListTransactionsResult(NamedTuple):
    error: ErrorCode
    transactions: tuple[ListedTransaction, ...] = ()
    unknown_state_filters: tuple[str, ...] = ()
