from __future__ import annotations

import gc
import tracemalloc

import pytest

from penstock.core.steps import finish
from penstock.core.types import NO_TIMESTAMP
from penstock.protocol.errors import ErrorCode
from penstock.transactions.operations import DESCRIBE_TRANSACTION
from penstock.transactions.requests import DescribeTransactionRequest, ListTransactionsRequest
from penstock.transactions.results import DescribedTransaction
from penstock.transactions.settings import TransactionSettings
from tests.unit.transactions.harness import FIRST_PRODUCER_ID, ID, ORDERS_0, ORDERS_1, START_MS, TIMEOUT_MS, Runtime

DAY_MS = 24 * 3_600_000


def test_transaction_is_described_when_it_is_open() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_1, ORDERS_0)
    assert runtime.transactions.shards.read(
        DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)
    ) == DescribedTransaction(
        ErrorCode.NONE, ID, "Ongoing", TIMEOUT_MS, START_MS, producer_id, epoch, (ORDERS_0, ORDERS_1)
    )


def test_transactional_id_is_described_when_it_has_no_transaction() -> None:
    runtime = Runtime()
    runtime.init()
    found = runtime.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID))
    assert (found.state, found.start_time_ms, found.partitions) == ("Empty", NO_TIMESTAMP, ())


def test_error_says_so_when_a_transactional_id_is_unknown_or_empty() -> None:
    transactions = Runtime().transactions
    assert (
        transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).error
        is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    assert (
        transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest("")).error
        is ErrorCode.INVALID_REQUEST
    )


@pytest.fixture
def runtime() -> Runtime:
    """Three ids, one with a transaction of ten seconds."""
    runtime = Runtime()
    runtime.ongoing()
    runtime.now_ms += 10_000
    runtime.init("refunds")
    runtime.init("refunds-2")
    runtime.add(FIRST_PRODUCER_ID + 2, 0, ORDERS_0, transactional_id="refunds-2")
    return runtime


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (ListTransactionsRequest(), {ID, "refunds", "refunds-2"}),
        (ListTransactionsRequest(states=("Ongoing",)), {ID, "refunds-2"}),
        (ListTransactionsRequest(states=("Empty", "Ongoing")), {ID, "refunds", "refunds-2"}),
        (ListTransactionsRequest(producer_ids=(FIRST_PRODUCER_ID + 1, 7)), {"refunds"}),
        (ListTransactionsRequest(states=("Ongoing",), producer_ids=(FIRST_PRODUCER_ID + 1,)), set()),
        (ListTransactionsRequest(states=("Ongoing",), duration_ms=0), {ID}),
        (ListTransactionsRequest(states=("Ongoing",), duration_ms=9_999), {ID}),
        (ListTransactionsRequest(states=("Ongoing",), duration_ms=10_000), set()),
        (ListTransactionsRequest(duration_ms=10_000), {"refunds"}),  # never began
        (ListTransactionsRequest(transactional_id_pattern="refunds"), {"refunds"}),
        (ListTransactionsRequest(transactional_id_pattern="ref.*"), {"refunds", "refunds-2"}),
        (ListTransactionsRequest(transactional_id_pattern=""), {ID, "refunds", "refunds-2"}),
    ],
)
def test_transactions_are_listed_when_they_pass_every_filter(
    runtime: Runtime, request_: ListTransactionsRequest, expected: set[str]
) -> None:
    result = finish(runtime.transactions.list_transactions(request_, runtime.now_ms))
    assert result.error is ErrorCode.NONE
    assert {listed.transactional_id for listed in result.transactions} == expected


def test_unknown_states_are_named_when_they_are_asked_for(runtime: Runtime) -> None:
    result = finish(
        runtime.transactions.list_transactions(ListTransactionsRequest(states=("Open", "Empty")), runtime.now_ms)
    )
    assert result.unknown_state_filters == ("Open",)
    assert [listed.transactional_id for listed in result.transactions] == ["refunds"]
    nothing = finish(runtime.transactions.list_transactions(ListTransactionsRequest(states=("Open",)), runtime.now_ms))
    assert (nothing.error, nothing.transactions) == (ErrorCode.NONE, ())


def test_list_is_refused_when_the_pattern_is_no_regular_expression(runtime: Runtime) -> None:
    result = finish(
        runtime.transactions.list_transactions(ListTransactionsRequest(transactional_id_pattern="("), runtime.now_ms)
    )
    assert result.error is ErrorCode.INVALID_REGULAR_EXPRESSION


# --------------------------------------------------------------------------------------------------- expiry


def expire(runtime: Runtime) -> None:
    runtime.run(runtime.transactions.expire_transactional_ids(0, runtime.now_ms))


def test_transactional_id_expires_when_nobody_has_used_it_for_a_week() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.now_ms += 7 * DAY_MS - 1
    expire(runtime)
    assert runtime.state() == "Empty"
    runtime.now_ms += 1
    expire(runtime)
    assert runtime.log[-1].value is None
    assert (
        runtime.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).error
        is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    after = runtime.restarted()
    assert (
        after.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).error
        is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    )
    assert runtime.end(FIRST_PRODUCER_ID, 0).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert runtime.init().producer_id == FIRST_PRODUCER_ID + 1


def test_many_ids_may_expire_in_several_batches_when_there_are_many() -> None:
    runtime = Runtime(TransactionSettings(transactional_id_expiration_ms=5))
    for number in range(3):
        runtime.init(f"id-{number}")
    runtime.now_ms += 5
    outcome = runtime.transactions.expire_transactional_ids(0, runtime.now_ms)
    assert len(outcome.records) == 3
    assert not outcome.is_atomic
    runtime.run(outcome)
    assert not runtime.transactions.transaction_counts()


@pytest.mark.parametrize("is_prepared", [True, False])
def test_transactional_id_stays_when_its_transaction_is_not_complete(is_prepared: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    if is_prepared:
        runtime.end(producer_id, epoch)
    runtime.now_ms += 30 * DAY_MS
    expire(runtime)
    assert runtime.transaction().partitions == {ORDERS_0}


def test_transactional_id_stays_when_its_tombstone_cannot_be_written() -> None:
    runtime = Runtime()
    runtime.init()
    runtime.now_ms += 7 * DAY_MS
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    expire(runtime)
    assert runtime.state() == "Empty"
    expire(runtime)
    assert runtime.state() == ""


def test_list_is_quick_when_a_pattern_would_backtrack_for_years() -> None:
    runtime = Runtime()
    runtime.init("x" * 60)
    listed = finish(
        runtime.transactions.list_transactions(
            ListTransactionsRequest(transactional_id_pattern="(x+x+)+y"), runtime.now_ms
        )
    )
    assert listed.transactions == ()


def test_no_memory_is_held_when_many_patterns_were_asked_for(runtime: Runtime) -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            request = ListTransactionsRequest(transactional_id_pattern=f"{number:04}" * 1_000)
            assert not finish(runtime.transactions.list_transactions(request, runtime.now_ms)).transactions
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1 << 18  # one pattern of these takes more
    finally:
        tracemalloc.stop()
