from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.transactions.operations import DESCRIBE_TRANSACTION
from penstock.transactions.requests import DescribeTransactionRequest
from penstock.transactions.results import InitProducerIdResult
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import MAX_CLIENT_EPOCH, NO_TIMEOUT_MS
from tests.unit.transactions.harness import FIRST_PRODUCER_ID, ID, ORDERS_0, START_MS, Runtime

FENCED = InitProducerIdResult(ErrorCode.PRODUCER_FENCED)
CONCURRENT = InitProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)


def given(producer_id: int, producer_epoch: int) -> InitProducerIdResult:
    return InitProducerIdResult(ErrorCode.NONE, producer_id, producer_epoch)


def test_new_producer_id_is_given_when_the_transactional_id_is_new() -> None:
    runtime = Runtime()
    assert runtime.init() == given(FIRST_PRODUCER_ID, 0)
    found = runtime.transaction()
    assert runtime.states() == ("Empty", FIRST_PRODUCER_ID, 0)
    assert (found.timeout_ms, found.start_timestamp_ms, found.last_update_timestamp_ms) == (60_000, -1, START_MS)
    assert found.previous_producer_id == FIRST_PRODUCER_ID  # as Kafka writes it
    assert runtime.timers == {}


def test_epoch_is_bumped_when_a_producer_starts_again() -> None:
    runtime = Runtime()
    assert [runtime.init().producer_epoch for _ in range(3)] == [0, 1, 2]
    assert runtime.init("refunds") == given(FIRST_PRODUCER_ID + 1, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_init_is_refused_when_the_timeout_is_out_of_bounds(timeout_ms: int) -> None:
    assert Runtime().init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_init_is_accepted_when_the_timeout_is_at_a_bound(timeout_ms: int) -> None:
    assert Runtime().init(timeout_ms=timeout_ms).error is ErrorCode.NONE


def test_init_is_refused_when_the_transactional_id_is_empty() -> None:
    assert Runtime().init("").error is ErrorCode.INVALID_REQUEST


def test_two_phase_commit_is_refused_when_it_is_not_enabled() -> None:
    error = Runtime().init(enable_two_phase_commit=True).error
    assert error is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_transaction_has_no_timeout_when_it_takes_part_in_a_two_phase_commit() -> None:
    runtime = Runtime(TransactionSettings(two_phase_commit_enable=True))
    assert runtime.init(timeout_ms=0, enable_two_phase_commit=True).error is ErrorCode.NONE
    assert runtime.transaction().timeout_ms == NO_TIMEOUT_MS
    assert runtime.add(FIRST_PRODUCER_ID, 0, ORDERS_0) is ErrorCode.NONE
    assert runtime.timers == {}


def test_init_is_refused_when_a_prepared_transaction_should_be_kept() -> None:
    assert Runtime().init(keep_prepared_transaction=True).error is ErrorCode.UNSUPPORTED_VERSION


def test_client_is_told_why_when_there_is_no_producer_id() -> None:
    runtime = Runtime()
    runtime.has_producer_ids = False
    assert runtime.init() == InitProducerIdResult(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert runtime.log == []
    assert (
        runtime.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).error
        is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )


# ------------------------------------------------------------------------------------------------- fencing


def test_open_transaction_is_aborted_when_another_producer_starts() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    assert runtime.init() == CONCURRENT
    assert runtime.states() == ("PrepareAbort", producer_id, epoch + 1)
    (markers,) = runtime.markers
    assert (markers.producer_id, markers.producer_epoch, markers.is_commit) == (producer_id, epoch + 1, False)
    assert runtime.init() == CONCURRENT  # until the markers are written
    runtime.write_markers()
    assert runtime.states() == ("CompleteAbort", producer_id, epoch + 1)
    assert runtime.init() == given(producer_id, epoch + 2)
    assert runtime.end(producer_id, epoch).error is ErrorCode.PRODUCER_FENCED


def test_open_transaction_is_fenced_by_a_bump_of_its_own_when_the_cluster_has_no_bump_per_transaction() -> None:
    runtime = Runtime(TransactionSettings(transaction_version=1))
    producer_id, epoch = runtime.ongoing(version=0)
    assert runtime.init() == CONCURRENT
    assert runtime.states() == ("PrepareAbort", producer_id, epoch + 1)
    assert runtime.transaction().client_transaction_version == 0
    assert runtime.end(producer_id, epoch, version=0).error is ErrorCode.PRODUCER_FENCED
    runtime.write_markers()
    assert runtime.init() == given(producer_id, epoch + 2)


def test_nothing_is_fenced_when_the_fence_cannot_be_written() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert runtime.init().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runtime.markers == []
    assert runtime.end(producer_id, epoch).error is ErrorCode.NONE


# ------------------------------------------------------------------------------------- recovery (KIP-360)


def test_epoch_is_bumped_when_a_producer_recovers() -> None:
    runtime = Runtime()
    runtime.init()
    assert runtime.init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=0) == given(
        FIRST_PRODUCER_ID, 1
    )


def test_same_epoch_is_given_when_a_recovery_is_repeated() -> None:
    runtime = Runtime()
    runtime.init()
    for _ in range(2):
        result = runtime.init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=0)
        assert result == given(FIRST_PRODUCER_ID, 1)


def test_recovery_is_fenced_when_another_producer_came_in_between() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.init()
    assert runtime.init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=0) == FENCED


def test_recovery_is_fenced_when_the_producer_id_is_another() -> None:
    runtime = Runtime()
    runtime.init()
    assert runtime.init(expected_producer_id=7, expected_producer_epoch=0) == FENCED


def test_old_clients_hear_of_an_invalid_epoch_when_they_are_fenced() -> None:
    runtime = Runtime()
    runtime.init()
    result = runtime.init(expected_producer_id=7, expected_producer_epoch=0, accepts_producer_fenced=False)
    assert result.error is ErrorCode.INVALID_PRODUCER_EPOCH


def test_producer_gets_a_new_id_when_the_coordinator_has_forgotten_it() -> None:
    assert Runtime().init(expected_producer_id=7, expected_producer_epoch=3) == given(FIRST_PRODUCER_ID, 0)


def test_recovery_is_idempotent_when_the_end_of_the_last_transaction_bumped_the_epoch() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch)
    runtime.write_markers()
    result = runtime.init(expected_producer_id=producer_id, expected_producer_epoch=epoch)
    assert result == given(producer_id, epoch + 1)


def test_repeated_recovery_is_fenced_when_the_coordinator_restarted() -> None:
    """The last epoch is not in the log."""
    runtime = Runtime()
    runtime.init()
    runtime.init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=0)
    assert runtime.restarted().init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=0) == FENCED


# ----------------------------------------------------------------------------------------- exhausted epochs


def test_new_producer_id_is_given_when_the_epochs_are_exhausted() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    assert runtime.init() == given(FIRST_PRODUCER_ID + 1, 0)
    assert runtime.transaction().previous_producer_id == FIRST_PRODUCER_ID


def test_last_epoch_is_given_when_one_is_left() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.with_epoch(MAX_CLIENT_EPOCH - 1)
    assert runtime.init() == given(FIRST_PRODUCER_ID, MAX_CLIENT_EPOCH)


def test_same_new_producer_id_is_given_when_a_recovery_with_exhausted_epochs_is_repeated() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    for _ in range(2):
        result = runtime.init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=MAX_CLIENT_EPOCH)
        assert result == given(FIRST_PRODUCER_ID + 1, 0)


def test_recovery_is_fenced_when_the_epochs_are_exhausted_by_others() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    assert runtime.init(expected_producer_id=FIRST_PRODUCER_ID, expected_producer_epoch=5) == FENCED


@pytest.mark.parametrize("transaction_version", [1, 2])
def test_producer_id_changes_when_the_fence_takes_the_last_epoch(transaction_version: int) -> None:
    runtime = Runtime(TransactionSettings(transaction_version=transaction_version))
    runtime.ongoing(version=2 if transaction_version == 2 else 0)
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    assert runtime.init() == CONCURRENT
    assert runtime.markers[0].producer_epoch == MAX_CLIENT_EPOCH + 1
    assert runtime.markers[0].producer_id == FIRST_PRODUCER_ID
    runtime.write_markers()
    result = runtime.init()
    assert (result.error, result.producer_id) == (ErrorCode.NONE, FIRST_PRODUCER_ID + 1)
