"""The bytes were read from `__transaction_state` of Apache Kafka 4.3.1."""

from __future__ import annotations

import pytest

from penstock.coordinators.record_framing import UnknownRecord
from penstock.core.types import NO_PRODUCER_ID, TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.transactions.operations import DESCRIBE_TRANSACTION
from penstock.transactions.records import (
    TransactionChange,
    decode_record,
    encode_transaction,
    value_version,
)
from penstock.transactions.requests import DescribeTransactionRequest
from penstock.transactions.state import Transaction, TransactionState
from tests.unit.transactions.harness import ID, ITEMS_0, ORDERS_0, ORDERS_1, Runtime

KEY = "0000000161"  # of "a"


def orders(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("orders", partition) for partition in partitions)


KAFKA_VALUES = [
    (
        "0001000000000000000200020000ea600000000001a1dda07115ffffffffffffffff020008000000000000000202020002",
        Transaction(2, 2, 60_000, TransactionState.EMPTY, orders(), -1, 1794719641877, 2, -1, 2),
    ),
    (
        (
            "0001000000000000000100010000ea600102076f726465727303000000000000000100000001a1dda067c8000001a1dda067c8"
            "0100080000000000000001"
        ),
        Transaction(1, 1, 60_000, TransactionState.ONGOING, orders(0, 1), 1794719639496, 1794719639496, 1, -1, 0),
    ),
    (
        (
            "0001000000000000000200010000ea600202076f7264657273020000000200000001a1dda07076000001a1dda0700c"
            "020008000000000000000202020002"
        ),
        Transaction(2, 1, 60_000, TransactionState.PREPARE_COMMIT, orders(2), 1794719641612, 1794719641718, 2, -1, 2),
    ),
    (
        (
            "00010000000000000001000d0000ea600302076f7264657273020000000100000001a1dda07a21000001a1dda079d2"
            "0100080000000000000001"
        ),
        Transaction(1, 13, 60_000, TransactionState.PREPARE_ABORT, orders(1), 1794719644114, 1794719644193, 1, -1, 0),
    ),
    (
        "0001000000000000000200040000ea600401000001a1dda07410000001a1dda073880100080000000000000002",
        Transaction(2, 4, 60_000, TransactionState.COMPLETE_COMMIT, orders(), 1794719642504, 1794719642640, 2, -1, 0),
    ),
    (
        "0001000000000000000100020000ea600501000001a1dda06d34000001a1dda067c8020008000000000000000102020002",
        Transaction(1, 2, 60_000, TransactionState.COMPLETE_ABORT, orders(), 1794719639496, 1794719640884, 1, -1, 2),
    ),
]


@pytest.mark.parametrize(("value", "transaction"), KAFKA_VALUES, ids=lambda value: getattr(value, "state", ""))
def test_record_is_that_of_kafka_when_it_is_written_and_read(value: str, transaction: Transaction) -> None:
    key_bytes, value_bytes = bytes.fromhex(KEY), bytes.fromhex(value)
    assert decode_record(key_bytes, value_bytes) == TransactionChange("a", transaction)
    assert encode_transaction("a", transaction, 1) == (key_bytes, value_bytes)


def test_record_is_the_same_when_everything_is_set() -> None:
    transaction = Transaction(
        5, 32767, 1, TransactionState.PREPARE_COMMIT, frozenset({ORDERS_1, ITEMS_0, ORDERS_0}), 10, 20, 4, 6, 2
    )
    assert decode_record(*encode_transaction("ü", transaction, 1)) == TransactionChange("ü", transaction)


def test_producer_ids_of_other_times_are_lost_when_the_version_is_0() -> None:
    transaction = Transaction(5, 3, 1, TransactionState.ONGOING, frozenset({ORDERS_0}), 10, 20, 4, 6, 2)
    record = encode_transaction("a", transaction, 0)
    assert record.value is not None
    assert record.value[:2] == b"\0\0"
    assert decode_record(*record) == TransactionChange(
        "a",
        transaction._replace(
            previous_producer_id=NO_PRODUCER_ID, next_producer_id=NO_PRODUCER_ID, client_transaction_version=0
        ),
    )


@pytest.mark.parametrize(("transaction_version", "expected"), [(0, 0), (1, 1), (2, 1)])
def test_value_has_the_version_of_the_cluster_when_it_is_written(transaction_version: int, expected: int) -> None:
    assert value_version(transaction_version) == expected


def test_transactional_id_is_deleted_when_the_record_is_a_tombstone() -> None:
    record = encode_transaction("a", None, 1)
    assert record == (bytes.fromhex(KEY), None)
    assert decode_record(*record) == TransactionChange("a", None)


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [(b"\0\1more", b"", "key version 1"), (bytes.fromhex(KEY), b"\0\2more", "value version 2")],
)
def test_record_is_skipped_when_newer_software_wrote_it(key: bytes, value: bytes, what: str) -> None:
    assert decode_record(key, value) == UnknownRecord(what)
    runtime = Runtime()
    runtime.transactions.shards.replay(0, key, value)
    runtime.transactions.shards.replay(0, key, value)
    assert (
        runtime.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest("a")).error
        is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    assert runtime.init(ID).error is ErrorCode.NONE


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"", None),
        (b"\0", None),
        (b"\xff\xff", None),
        (b"\0\0\0\5a", None),
        (bytes.fromhex(KEY), b""),
        (bytes.fromhex(KEY), b"\0\1\0\0"),
        (bytes.fromhex(KEY), b"\xff\xff"),
        *(
            (bytes.fromhex(KEY), bytes.fromhex(KAFKA_VALUES[0][0].replace("ea6000", f"ea60{state:02x}", 1)))
            for state in (6, 7, 8)  # never written
        ),
    ],
)
def test_record_is_corrupt_when_it_cannot_be_read(key: bytes, value: bytes | None) -> None:
    with pytest.raises(ApiError) as caught:
        decode_record(key, value)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
