from __future__ import annotations

import pytest

from penstock.core.steps import finish
from penstock.protocol.errors import ErrorCode
from penstock.transactions.coordinator import TransactionCoordinator
from penstock.transactions.operations import (
    ADD_OFFSETS,
    ADD_PARTITIONS,
    DESCRIBE_TRANSACTION,
    END_TRANSACTION,
    INIT_PRODUCER_ID,
    VERIFY_PARTITIONS,
)
from penstock.transactions.outcome import TimerKey, TimerKind, TransactionOutcome
from penstock.transactions.requests import (
    AddOffsetsRequest,
    AddPartitionsRequest,
    DescribeTransactionRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
)
from penstock.transactions.results import AddPartitionsResult
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import TransactionState
from tests.unit.coordinators.tokens import NOBODY, error_of
from tests.unit.transactions.harness import ID, ORDERS_0, ORDERS_1, START_MS, TIMEOUT_MS, Runtime


def errors_of_everything(transactions: TransactionCoordinator) -> set[ErrorCode]:
    outcomes = [
        transactions.shards.perform(INIT_PRODUCER_ID, NOBODY, InitProducerIdRequest(ID, TIMEOUT_MS), START_MS),
        transactions.shards.perform(ADD_PARTITIONS, NOBODY, AddPartitionsRequest(ID, 1, 0, (ORDERS_0,)), START_MS),
        transactions.shards.perform(ADD_OFFSETS, NOBODY, AddOffsetsRequest(ID, 1, 0, 0), START_MS),
        transactions.shards.perform(END_TRANSACTION, NOBODY, EndTransactionRequest(ID, 1, 0, True), START_MS),
    ]
    results = [reply.result for outcome in outcomes for reply in outcome.replies]
    results.append(transactions.shards.read(VERIFY_PARTITIONS, AddPartitionsRequest(ID, 1, 0, (ORDERS_0,))))
    assert all(not outcome.records for outcome in outcomes)
    return {
        result.partitions[0].error if isinstance(result, AddPartitionsResult) else error_of(result)
        for result in results
    } | {transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).error}


def test_client_is_sent_elsewhere_when_the_partition_is_not_here() -> None:
    transactions = TransactionCoordinator(TransactionSettings(), 1, lambda: 1)
    assert errors_of_everything(transactions) == {ErrorCode.NOT_COORDINATOR}
    assert finish(transactions.list_transactions(ListTransactionsRequest(), START_MS)).error is ErrorCode.NONE


def test_client_has_to_wait_when_the_partition_is_being_loaded() -> None:
    transactions = TransactionCoordinator(TransactionSettings(), 1, lambda: 1)
    transactions.shards.begin_loading(0, 0)
    assert errors_of_everything(transactions) == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    listed = finish(transactions.list_transactions(ListTransactionsRequest(), START_MS))
    assert listed.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_nothing_happens_when_a_timer_or_an_expiry_is_of_a_partition_that_is_gone() -> None:
    transactions = TransactionCoordinator(TransactionSettings(), 1, lambda: 1)
    key = TimerKey(TimerKind.TRANSACTION_TIMEOUT, 0, ID)
    assert transactions.shards.on_timer(key, START_MS) == TransactionOutcome(0)
    assert transactions.expire_transactional_ids(0, START_MS) == TransactionOutcome(0)
    assert list(transactions.shards.unload_in_steps(0, START_MS)) == []


def test_transactional_ids_are_spread_as_in_kafka_when_there_are_many_partitions() -> None:
    transactions = TransactionCoordinator(TransactionSettings(), 50, lambda: 1)
    assert transactions.shards.partition_for("my-consumer") == 23
    assert transactions.shards.active_partitions() == []


def test_state_is_the_same_when_another_coordinator_takes_over() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0, ORDERS_1)
    runtime.init("refunds")
    after = runtime.restarted()
    assert after.transaction() == runtime.transaction()
    assert after.transaction("refunds") == runtime.transaction("refunds")
    assert after.timers == {TimerKey(TimerKind.TRANSACTION_TIMEOUT, 0, ID): START_MS + TIMEOUT_MS + 1}
    assert after.end(producer_id, epoch).error is ErrorCode.NONE
    assert after.transactions.transaction_counts() == {
        TransactionState.PREPARE_COMMIT: 1,
        TransactionState.EMPTY: 1,
    }


def test_transaction_times_out_at_once_when_its_deadline_passed_before_loading() -> None:
    runtime = Runtime()
    runtime.ongoing()
    runtime.now_ms += TIMEOUT_MS + 100
    after = runtime.restarted()
    after.advance(0)
    assert after.state() == "PrepareAbort"


@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_asked_for_again_when_another_coordinator_takes_over(is_commit: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0, ORDERS_1)
    runtime.end(producer_id, epoch, is_commit)
    (asked,) = runtime.markers
    after = runtime.restarted()
    assert after.markers == [asked._replace(coordinator_epoch=1)]
    after.run(after.transactions.on_markers_written(asked, START_MS))  # of the coordinator before
    assert after.state().startswith("Prepare")
    after.write_markers()
    assert after.state() == ("CompleteCommit" if is_commit else "CompleteAbort")


def test_transaction_is_completed_when_it_was_decided_without_partitions() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.init()[1:]
    runtime.end(producer_id, epoch, False)
    runtime.log.pop()  # a coordinator that wrote the decision alone
    after = runtime.restarted()
    assert after.state() == "PrepareAbort"
    assert after.markers == []
    after.advance(0)
    assert after.states() == ("CompleteAbort", producer_id, epoch + 1)


def test_timers_are_cancelled_when_the_partition_goes_elsewhere() -> None:
    runtime = Runtime()
    runtime.ongoing()
    for abandoned in runtime.transactions.shards.unload_in_steps(0, START_MS):
        runtime.run(abandoned)
    assert runtime.timers == {}
    assert errors_of_everything(runtime.transactions) == {ErrorCode.NOT_COORDINATOR}


def test_request_fails_when_the_partition_goes_elsewhere_during_the_append() -> None:
    runtime = Runtime()
    token = runtime.token()
    outcome = runtime.transactions.shards.perform(
        INIT_PRODUCER_ID, token, InitProducerIdRequest(ID, TIMEOUT_MS), START_MS
    )
    for abandoned in runtime.transactions.shards.unload_in_steps(0, START_MS):
        runtime.run(abandoned)
    runtime.run(runtime.transactions.shards.on_append_failed(outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER, START_MS))
    assert error_of(runtime.replies[token].failed(ErrorCode.NONE)) is ErrorCode.NONE
    assert error_of(runtime.replies[token]) is ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("append_error", "expected"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_client_gets_an_error_it_knows_when_an_append_fails(append_error: ErrorCode, expected: ErrorCode) -> None:
    runtime = Runtime()
    runtime.fail_next_append_with = append_error
    assert runtime.init().error is expected
    assert runtime.init().error is ErrorCode.NONE


def test_mistake_of_the_runtime_is_found_when_records_were_not_replayed() -> None:
    runtime = Runtime()
    runtime.transactions.shards.perform(INIT_PRODUCER_ID, NOBODY, InitProducerIdRequest(ID, TIMEOUT_MS), START_MS)
    with pytest.raises(AssertionError):
        runtime.transactions.expire_transactional_ids(0, START_MS)


def test_settings_hold_everywhere_when_they_change() -> None:
    runtime = Runtime(TransactionSettings(transaction_version=1))
    runtime.ongoing(version=0)
    runtime.transactions.shards.change_settings(TransactionSettings(transaction_version=2, max_timeout_ms=5))
    assert runtime.init().error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    runtime.advance(TIMEOUT_MS + 1)
    assert runtime.transaction().client_transaction_version == 2
