"""The records of `__transaction_state`, byte for byte Kafka's.

A key begins with its kind as an int16 (0, the only one so far), a value with its version as an int16. Values are
written as version 1 where the log may have it (transaction.version 1 and later), as 0 otherwise. Both are read. In
version 0 the previous and next producer id and the client's version are lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from penstock.coordinators.outcome import CoordinatorRecord
from penstock.coordinators.record_framing import UnknownRecord, decode_body, encode_key, encode_value, leading_int16
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from penstock.transactions.state import NEXT_STATES, Transaction, TransactionState

_TRANSACTION_KIND = 0
# The versions that are ever written.
_STATES = {state.number: state for state in NEXT_STATES}


class TransactionChange(NamedTuple):
    transactional_id: str
    transaction: Transaction | None  # None: deleted


def value_version(transaction_version: int) -> int:
    """Of a record, by the level of the feature transaction.version."""
    return 1 if transaction_version >= 1 else 0


def encode_transaction(transactional_id: str, transaction: Transaction | None, version: int) -> CoordinatorRecord:
    key = encode_key(_TRANSACTION_KIND, TransactionLogKey(transactional_id=transactional_id))
    if transaction is None:
        return CoordinatorRecord(key, None)
    is_empty = transaction.state is TransactionState.EMPTY
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state.number,
        transaction_partitions=None if is_empty else _by_topic(transaction.partitions),
        transaction_last_update_timestamp_ms=transaction.last_update_timestamp_ms,
        transaction_start_timestamp_ms=transaction.start_timestamp_ms,
        client_transaction_version=transaction.client_transaction_version,
    )
    return CoordinatorRecord(key, encode_value(value, version))


def decode_transactional_id(key: bytes) -> str:
    """Of a record that this process has just encoded."""
    return decode_body(TransactionLogKey, key).transactional_id


def decode_record(key: bytes, value: bytes | None) -> TransactionChange | UnknownRecord:
    """ApiError(CORRUPT_MESSAGE) if the bytes do not fit their version."""
    kind = leading_int16(key)
    if kind != _TRANSACTION_KIND:
        return UnknownRecord(f"key version {kind}")
    transactional_id = decode_body(TransactionLogKey, key).transactional_id
    if value is None:
        return TransactionChange(transactional_id, None)
    version = leading_int16(value)
    if version > TransactionLogValue.MAX_VERSION:
        return UnknownRecord(f"value version {version}")
    return TransactionChange(transactional_id, _transaction(decode_body(TransactionLogValue, value, version)))


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    """Sorted. A comparison of 10,000 pairs would take twice as long as all of this."""
    indexes: defaultdict[str, list[int]] = defaultdict(list)
    for topic, index in partitions:
        indexes[topic].append(index)
    return [PartitionsSchema(topic=topic, partition_ids=sorted(indexes[topic])) for topic in sorted(indexes)]


def _transaction(value: TransactionLogValue) -> Transaction:
    state = _STATES.get(value.transaction_status)
    if state is None:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a transaction record has state {value.transaction_status}")
    return Transaction(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(entry.topic, partition)
            for entry in value.transaction_partitions or ()
            for partition in entry.partition_ids
        ),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
    )
