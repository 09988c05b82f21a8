from __future__ import annotations

import pytest

from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.transactions.operations import VERIFY_PARTITIONS
from penstock.transactions.outcome import TimerKey, TimerKind
from penstock.transactions.requests import AddPartitionsRequest
from tests.unit.transactions.harness import ID, ITEMS_0, ORDERS_0, ORDERS_1, START_MS, TIMEOUT_MS, Runtime

TIMEOUT = TimerKey(TimerKind.TRANSACTION_TIMEOUT, 0, ID)


def verify(
    runtime: Runtime,
    producer_id: int,
    epoch: int,
    *partitions: TopicPartition,
    accepts_transaction_abortable: bool = True,
) -> list[ErrorCode]:
    request = AddPartitionsRequest(
        ID, producer_id, epoch, partitions, accepts_transaction_abortable=accepts_transaction_abortable
    )
    result = runtime.transactions.shards.read(VERIFY_PARTITIONS, request)
    assert [entry.partition for entry in result.partitions] == list(partitions)
    return [entry.error for entry in result.partitions]


def test_transaction_begins_when_the_first_partition_is_added() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0)
    runtime.now_ms += 5_000
    assert runtime.add(producer_id, epoch, ORDERS_1, ITEMS_0) is ErrorCode.NONE
    found = runtime.transaction()
    assert found.partitions == {ORDERS_0, ORDERS_1, ITEMS_0}
    assert (found.start_timestamp_ms, found.last_update_timestamp_ms) == (START_MS, START_MS + 5_000)
    assert found.client_transaction_version == 2
    assert runtime.timers == {TIMEOUT: START_MS + TIMEOUT_MS + 1}


def test_nothing_is_written_when_the_partitions_are_there_already() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0, ORDERS_1)
    count = len(runtime.log)
    assert runtime.add(producer_id, epoch, ORDERS_1) is ErrorCode.NONE
    assert len(runtime.log) == count


def test_next_transaction_begins_when_the_last_is_complete() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0)
    result = runtime.end(producer_id, epoch)
    runtime.write_markers()
    runtime.now_ms += 10
    assert runtime.add(producer_id, result.producer_epoch, ORDERS_1) is ErrorCode.NONE
    assert runtime.transaction().partitions == {ORDERS_1}
    assert runtime.transaction().start_timestamp_ms == START_MS + 10
    assert runtime.timers == {TIMEOUT: START_MS + 10 + TIMEOUT_MS + 1}


@pytest.mark.parametrize("is_commit", [True, False])
def test_client_is_told_to_wait_when_the_last_transaction_is_not_complete(is_commit: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch, is_commit)
    for who in ((producer_id, epoch + 1), (producer_id, epoch), (7, 0)):
        assert runtime.add(*who, ORDERS_0) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_addition_is_refused_when_the_producer_is_not_the_current_one() -> None:
    runtime = Runtime()
    assert runtime.add(7, 0, ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    producer_id, epoch = runtime.ongoing()
    assert runtime.add(7, epoch, ORDERS_0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert runtime.add(producer_id, epoch + 1, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert runtime.add(producer_id, epoch - 1, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    fenced = runtime.add(producer_id, epoch - 1, ORDERS_0, accepts_producer_fenced=False)
    assert fenced is ErrorCode.INVALID_PRODUCER_EPOCH
    assert runtime.add(7, 0, ORDERS_0, transactional_id="") is ErrorCode.INVALID_REQUEST


def test_partition_of_the_group_is_added_when_offsets_are_to_be_committed() -> None:
    runtime = Runtime()
    result = runtime.init()
    assert runtime.add_offsets(result.producer_id, result.producer_epoch, 17) is ErrorCode.NONE
    assert runtime.transaction().partitions == {TopicPartition("__consumer_offsets", 17)}
    assert runtime.transaction().client_transaction_version == 0
    assert runtime.add_offsets(result.producer_id, 9, 17) is ErrorCode.PRODUCER_FENCED
    error = runtime.add_offsets(result.producer_id, 9, 17, accepts_producer_fenced=False)
    assert error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_nothing_was_added_when_the_append_failed() -> None:
    runtime = Runtime()
    result = runtime.init()
    runtime.fail_next_append_with = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert runtime.add(result.producer_id, 0, ORDERS_0) is ErrorCode.NOT_COORDINATOR
    assert runtime.state() == "Empty"
    runtime.advance(TIMEOUT_MS + 1)
    assert runtime.state() == "Empty"
    assert runtime.add(result.producer_id, 0, ORDERS_0) is ErrorCode.NONE


# --------------------------------------------------------------------------------------- verification alone


def test_each_partition_is_answered_when_a_write_is_verified() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0)
    count = len(runtime.log)
    expected = [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert verify(runtime, producer_id, epoch, ORDERS_0, ORDERS_1) == expected
    assert len(runtime.log) == count


def test_old_clients_hear_of_an_invalid_state_when_a_partition_is_missing() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0)
    errors = verify(runtime, producer_id, epoch, ORDERS_1, accepts_transaction_abortable=False)
    assert errors == [ErrorCode.INVALID_TXN_STATE]


def test_write_is_refused_when_no_transaction_is_open() -> None:
    runtime = Runtime()
    result = runtime.init()
    assert verify(runtime, result.producer_id, 0, ORDERS_0) == [ErrorCode.TRANSACTION_ABORTABLE]


def test_write_is_refused_when_its_producer_is_not_the_current_one() -> None:
    runtime = Runtime()
    assert verify(runtime, 7, 0, ORDERS_0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    producer_id, epoch = runtime.ongoing()
    assert verify(runtime, 7, epoch, ORDERS_0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert verify(runtime, producer_id, epoch + 1, ORDERS_0) == [ErrorCode.PRODUCER_FENCED]


def test_write_has_to_wait_when_markers_are_being_written() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch)
    assert verify(runtime, producer_id, epoch, ORDERS_0) == [ErrorCode.PRODUCER_FENCED]
    assert verify(runtime, producer_id, epoch + 1, ORDERS_0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
