"""The records of `__transaction_state`, byte for byte Kafka's.

A key begins with its kind as an int16 (0, the only one so far), a value with its version as an int16. Values are
written as version 1 where the log may have it (transaction.version 1 and later), as 0 otherwise. Both are read. In
version 0 the previous and next producer id and the client's version are lost.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple, TypeVar

from penstock.core.types import TopicPartition
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue
from penstock.transactions.outcome import TransactionRecord
from penstock.transactions.state import NEXT_STATES, Transaction, TransactionState

M = TypeVar("M", bound=Message)

_INT16 = struct.Struct(">h")
_BODY_POSITION = _INT16.size
_TRANSACTION_KIND = 0
_KEY_BODY_VERSION = 0
# Those that are ever written.
_STATES = {state.number: state for state in NEXT_STATES}


class TransactionChange(NamedTuple):
    transactional_id: str
    transaction: Transaction | None  # None: deleted


class UnknownRecord(NamedTuple):
    """Written by newer software, for features this version does not have."""

    what: str


def value_version(transaction_version: int) -> int:
    """Of a record, by the level of the feature transaction.version."""
    return 1 if transaction_version >= 1 else 0


def encode_transaction(transactional_id: str, transaction: Transaction | None, version: int) -> TransactionRecord:
    body = encode(TransactionLogKey(transactional_id=transactional_id), _KEY_BODY_VERSION)
    key = _INT16.pack(_TRANSACTION_KIND) + body
    if transaction is None:
        return TransactionRecord(key, None)
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
    return TransactionRecord(key, _INT16.pack(version) + encode(value, version))


def decode_record(key: bytes, value: bytes | None) -> TransactionChange | UnknownRecord:
    """ApiError(CORRUPT_MESSAGE) if the bytes are not what their version says."""
    kind = _leading_int16(key)
    if kind != _TRANSACTION_KIND:
        return UnknownRecord(f"key version {kind}")
    transactional_id = _decode_body(TransactionLogKey, key, _KEY_BODY_VERSION).transactional_id
    if value is None:
        return TransactionChange(transactional_id, None)
    version = _leading_int16(value)
    if version > TransactionLogValue.MAX_VERSION:
        return UnknownRecord(f"value version {version}")
    return TransactionChange(transactional_id, _transaction(_decode_body(TransactionLogValue, value, version)))


def _by_topic(partitions: Iterable[TopicPartition]) -> list[PartitionsSchema]:
    return [
        PartitionsSchema(topic=topic, partition_ids=[partition for _, partition in found])
        for topic, found in groupby(sorted(partitions), key=lambda partition: partition.topic)
    ]


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


def _leading_int16(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a transaction record of {len(data)} bytes has no version")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a transaction record has version {version}")
    return version


def _decode_body(message_class: type[M], data: bytes, version: int) -> M:
    try:
        return decode(message_class, data, version, _BODY_POSITION)
    except ApiError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a transaction record cannot be read: {error.message}") from error
