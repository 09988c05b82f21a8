"""The requests of clients and other brokers to the transaction coordinator, without wire versions: handlers translate.

Where Kafka's answer depends on the request's version, the request names what its sender accepts, not its version.
`client_transaction_version` is the level of the feature `transaction.version` that the sender uses: 2 from EndTxn v5
and AddPartitionsToTxn v4 on, where every transaction has its own producer epoch (KIP-890), 0 before.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

NO_DURATION = -1


class InitProducerIdRequest(NamedTuple):
    """Only for transactional producers: an idempotent producer gets a fresh producer id without any coordinator."""

    transactional_id: str
    transaction_timeout_ms: int
    # The producer's own id and epoch, where it recovers from an error (InitProducerId v3 and later, KIP-360).
    expected_producer_id: int = NO_PRODUCER_ID
    expected_producer_epoch: int = NO_PRODUCER_EPOCH
    enable_two_phase_commit: bool = False  # InitProducerId v6 and later (KIP-939)
    keep_prepared_transaction: bool = False
    accepts_producer_fenced: bool = True  # InitProducerId v4 and later; before: INVALID_PRODUCER_EPOCH


class AddPartitionsRequest(NamedTuple):
    """One transaction of AddPartitionsToTxn; to verify alone, and to add on first use (Produce v12 and later), too."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    client_transaction_version: int = 0
    accepts_producer_fenced: bool = True  # AddPartitionsToTxn v2 and later; before: INVALID_PRODUCER_EPOCH
    # AddPartitionsToTxn v5, Produce v11, TxnOffsetCommit v4 and later; before: INVALID_TXN_STATE
    accepts_transaction_abortable: bool = True


class AddOffsetsRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    offsets_partition: int  # of `__consumer_offsets`, the partition of the group's commits
    client_transaction_version: int = 0
    accepts_producer_fenced: bool = True  # AddOffsetsToTxn v2 and later; before: INVALID_PRODUCER_EPOCH


class EndTransactionRequest(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_transaction_version: int = 0
    accepts_producer_fenced: bool = True  # EndTxn v2 and later; before: INVALID_PRODUCER_EPOCH


class DescribeTransactionRequest(NamedTuple):
    transactional_id: str


class ListTransactionsRequest(NamedTuple):
    """Every filter that is set must hold."""

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    duration_ms: int = NO_DURATION  # only transactions that have been running longer (ListTransactions v1 and later)
    transactional_id_pattern: str | None = None  # a regular expression for the whole id (v2 and later)
