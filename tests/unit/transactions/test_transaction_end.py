from __future__ import annotations

import pytest

from penstock.protocol.errors import ErrorCode
from penstock.transactions.operations import DESCRIBE_TRANSACTION
from penstock.transactions.outcome import Markers, TimerKey, TimerKind
from penstock.transactions.requests import DescribeTransactionRequest
from penstock.transactions.results import EndTransactionResult
from penstock.transactions.settings import TransactionSettings
from penstock.transactions.state import MAX_CLIENT_EPOCH, MAX_EPOCH
from tests.unit.transactions.harness import (
    FIRST_PRODUCER_ID,
    ID,
    ITEMS_0,
    ORDERS_0,
    ORDERS_1,
    START_MS,
    TIMEOUT_MS,
    Runtime,
)

DONE = {True: "CompleteCommit", False: "CompleteAbort"}
PREPARED = {True: "PrepareCommit", False: "PrepareAbort"}


def ended(producer_id: int, producer_epoch: int) -> EndTransactionResult:
    return EndTransactionResult(ErrorCode.NONE, producer_id, producer_epoch)


# ---------------------------------------------------------- clients with an epoch for each transaction (v5)


@pytest.mark.parametrize("is_commit", [True, False])
def test_next_epoch_is_given_when_a_transaction_ends(is_commit: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_1, ORDERS_0, ITEMS_0)
    assert runtime.end(producer_id, epoch, is_commit) == ended(producer_id, epoch + 1)
    assert runtime.states() == (PREPARED[is_commit], producer_id, epoch + 1)
    assert runtime.markers == [Markers(0, ID, producer_id, epoch + 1, 0, is_commit, (ITEMS_0, ORDERS_0, ORDERS_1), 2)]
    runtime.write_markers()
    assert runtime.states() == (DONE[is_commit], producer_id, epoch + 1)
    assert runtime.transaction().partitions == frozenset()


@pytest.mark.parametrize("is_commit", [True, False])
def test_same_answer_is_given_when_the_end_is_repeated(is_commit: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch, is_commit)
    assert runtime.end(producer_id, epoch, is_commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert runtime.end(producer_id, epoch, not is_commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
    runtime.write_markers()
    count = len(runtime.log)
    assert runtime.end(producer_id, epoch, is_commit) == ended(producer_id, epoch + 1)
    assert runtime.end(producer_id, epoch, not is_commit).error is ErrorCode.INVALID_TXN_STATE
    assert len(runtime.log) == count
    assert runtime.restarted().end(producer_id, epoch, is_commit) == ended(producer_id, epoch + 1)


def test_retry_is_fenced_when_the_next_transaction_has_begun() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch)
    runtime.write_markers()
    runtime.add(producer_id, epoch + 1, ORDERS_0)
    assert runtime.end(producer_id, epoch).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("before", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_transaction_is_aborted_without_markers_when_it_has_no_partitions(before: str) -> None:
    """The client cannot know whether its first write arrived, so its abort must fence that write."""
    runtime = Runtime()
    producer_id, epoch = runtime.init()[1:]
    if before != "Empty":
        runtime.add(producer_id, epoch, ORDERS_0)
        runtime.end(producer_id, epoch, before == "CompleteCommit")
        runtime.write_markers()
        epoch += 1
    assert runtime.state() == before
    runtime.now_ms += 7
    count = len(runtime.log)
    assert runtime.end(producer_id, epoch, False) == ended(producer_id, epoch + 1)
    assert runtime.markers == []
    assert len(runtime.log) == count + 2  # the decision is written, too
    assert runtime.states() == ("CompleteAbort", producer_id, epoch + 1)
    assert runtime.transaction().start_timestamp_ms == START_MS + 7


@pytest.mark.parametrize("before", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_commit_is_refused_when_there_is_nothing_to_commit(before: str) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.init()[1:]
    if before != "Empty":
        runtime.add(producer_id, epoch, ORDERS_0)
        epoch = runtime.end(producer_id, epoch, before == "CompleteCommit").producer_epoch
        runtime.write_markers()
    assert runtime.end(producer_id, epoch, True).error is ErrorCode.INVALID_TXN_STATE


def test_end_is_refused_when_the_producer_is_not_the_current_one() -> None:
    runtime = Runtime()
    assert runtime.end(7, 0).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    runtime.init()
    runtime.init()
    producer_id, epoch = runtime.ongoing()
    assert runtime.end(7, epoch).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    for wrong in (epoch - 1, epoch - 2, epoch + 1):
        assert runtime.end(producer_id, wrong).error is ErrorCode.PRODUCER_FENCED
        assert runtime.end(producer_id, wrong, accepts_producer_fenced=False) == EndTransactionResult(
            ErrorCode.INVALID_PRODUCER_EPOCH
        )
    assert runtime.end(producer_id, epoch, transactional_id="").error is ErrorCode.INVALID_REQUEST
    assert runtime.state() == "Ongoing"


def test_zombie_is_not_told_of_success_when_the_transaction_was_of_an_old_client() -> None:
    """Its epoch is one behind as a retry's would be, but such a client's end does not bump the epoch."""
    runtime = Runtime()
    producer_id, zombie = runtime.init()[1:]
    producer_id, epoch = runtime.ongoing(version=0)
    runtime.end(producer_id, epoch, version=0)
    runtime.write_markers()
    assert runtime.end(producer_id, zombie).error is ErrorCode.PRODUCER_FENCED


# ------------------------------------------------------------------------------------- exhausted epochs


def test_next_producer_id_takes_over_when_a_transaction_ends_with_the_last_epoch() -> None:
    runtime = Runtime()
    old, _ = runtime.ongoing()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    assert runtime.end(old, MAX_CLIENT_EPOCH) == ended(old + 1, 0)
    assert runtime.states() == ("PrepareCommit", old, MAX_EPOCH)
    assert (runtime.markers[0].producer_id, runtime.markers[0].producer_epoch) == (old, MAX_EPOCH)
    assert runtime.end(old, MAX_CLIENT_EPOCH).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert runtime.end(old + 1, 0).error is ErrorCode.CONCURRENT_TRANSACTIONS
    runtime.write_markers()
    assert runtime.states() == ("CompleteCommit", old + 1, 0)
    for who in (runtime, runtime.restarted()):
        assert who.end(old, MAX_CLIENT_EPOCH) == ended(old + 1, 0)
        assert who.end(old, MAX_CLIENT_EPOCH, False).error is ErrorCode.INVALID_TXN_STATE
        assert who.end(old, MAX_CLIENT_EPOCH - 1).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert who.end(old, MAX_EPOCH).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert runtime.add(old + 1, 0, ORDERS_0) is ErrorCode.NONE
    assert runtime.end(old, MAX_CLIENT_EPOCH).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_promised_producer_id_takes_over_when_the_coordinator_restarts_in_between() -> None:
    runtime = Runtime()
    old, _ = runtime.ongoing()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    promised = runtime.end(old, MAX_CLIENT_EPOCH)
    after = runtime.restarted()
    after.write_markers()
    assert after.states() == ("CompleteCommit", promised.producer_id, promised.producer_epoch)


def test_end_is_refused_when_there_is_no_producer_id_to_go_on_with() -> None:
    runtime = Runtime()
    producer_id, _ = runtime.ongoing()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    runtime.has_producer_ids = False
    assert runtime.end(producer_id, MAX_CLIENT_EPOCH).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert runtime.state() == "Ongoing"


# -------------------------------------------------------------------------------- older clients (v0 to v4)


@pytest.mark.parametrize("is_commit", [True, False])
def test_epoch_stays_when_an_old_client_ends_its_transaction(is_commit: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(version=0)
    assert runtime.end(producer_id, epoch, is_commit, version=0) == EndTransactionResult(ErrorCode.NONE)
    assert runtime.markers[0].transaction_version == 0
    assert runtime.end(producer_id, epoch, is_commit, version=0).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert runtime.end(7, epoch, is_commit, version=0).error is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert runtime.end(producer_id, epoch - 1, is_commit, version=0).error is ErrorCode.PRODUCER_FENCED
    runtime.write_markers()
    assert runtime.states() == (DONE[is_commit], producer_id, epoch)
    assert runtime.end(producer_id, epoch, is_commit, version=0) == EndTransactionResult(ErrorCode.NONE)
    assert runtime.end(producer_id, epoch, not is_commit, version=0).error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_commit", [True, False])
def test_old_client_cannot_end_when_nothing_has_begun(is_commit: bool) -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.init()[1:]
    assert runtime.end(producer_id, epoch, is_commit, version=0).error is ErrorCode.INVALID_TXN_STATE


# -------------------------------------------------------------------------------------------------- markers


def test_transaction_is_complete_when_the_last_marker_is_written() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing(ORDERS_0, ORDERS_1)
    runtime.end(producer_id, epoch)
    (markers,) = runtime.markers
    for _ in range(2):
        runtime.run(runtime.transactions.on_markers_written(markers._replace(partitions=(ORDERS_1,)), START_MS))
        assert runtime.state() == "PrepareCommit"
    assert runtime.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(ID)).partitions == (
        ORDERS_0,
    )
    runtime.run(runtime.transactions.on_markers_written(markers._replace(partitions=(ORDERS_0,)), START_MS))
    assert runtime.state() == "CompleteCommit"
    count = len(runtime.log)
    runtime.run(runtime.transactions.on_markers_written(markers, START_MS))
    assert len(runtime.log) == count


def test_report_of_markers_says_nothing_when_it_is_of_something_else() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch)
    (markers,) = runtime.markers
    for stale in (
        markers._replace(transactional_id="refunds"),
        markers._replace(producer_id=7),
        markers._replace(producer_epoch=epoch),
        markers._replace(coordinator_epoch=9),
        markers._replace(is_commit=False),
        markers._replace(state_partition=3),
        markers._replace(partitions=(ITEMS_0,)),
    ):
        runtime.run(runtime.transactions.on_markers_written(stale, START_MS))
        assert runtime.state() == "PrepareCommit"


def test_completion_is_tried_again_when_it_cannot_be_written() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch)
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    runtime.write_markers()
    assert runtime.state() == "PrepareCommit"
    runtime.fail_next_append_with = ErrorCode.NOT_ENOUGH_REPLICAS
    runtime.advance(1_000)
    assert runtime.state() == "PrepareCommit"
    runtime.advance(1_000)
    assert runtime.state() == "CompleteCommit"


def test_transaction_stays_open_when_its_end_cannot_be_written() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.fail_next_append_with = ErrorCode.MESSAGE_TOO_LARGE
    assert runtime.end(producer_id, epoch) == EndTransactionResult(ErrorCode.UNKNOWN_SERVER_ERROR)
    assert runtime.markers == []
    assert runtime.states() == ("Ongoing", producer_id, epoch)
    assert runtime.end(producer_id, epoch, False).error is ErrorCode.NONE


# ------------------------------------------------------------------------------------------------- timeouts


def test_transaction_is_aborted_and_its_producer_fenced_when_it_times_out() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.advance(TIMEOUT_MS)
    assert runtime.state() == "Ongoing"
    runtime.advance(1)
    assert runtime.states() == ("PrepareAbort", producer_id, epoch + 1)
    runtime.write_markers()
    assert runtime.add(producer_id, epoch, ORDERS_0) is ErrorCode.PRODUCER_FENCED
    assert runtime.end(producer_id, epoch).error is ErrorCode.INVALID_TXN_STATE
    assert runtime.timers == {}


def test_old_producer_is_fenced_when_its_transaction_times_out() -> None:
    runtime = Runtime(TransactionSettings(transaction_version=1))
    producer_id, epoch = runtime.ongoing(version=0)
    runtime.advance(TIMEOUT_MS + 1)
    assert runtime.states() == ("PrepareAbort", producer_id, epoch + 1)
    runtime.write_markers()
    assert runtime.end(producer_id, epoch, version=0).error is ErrorCode.PRODUCER_FENCED


def test_later_transaction_keeps_its_own_deadline_when_the_timer_of_an_earlier_one_fires() -> None:
    runtime = Runtime()
    producer_id, epoch = runtime.ongoing()
    runtime.end(producer_id, epoch)
    runtime.write_markers()
    runtime.advance(TIMEOUT_MS - 1)
    runtime.add(producer_id, epoch + 1, ORDERS_0)
    early = TimerKey(TimerKind.TRANSACTION_TIMEOUT, 0, ID)
    runtime.timers.clear()
    runtime.run(runtime.transactions.shards.on_timer(early, runtime.now_ms + 2))
    assert runtime.state() == "Ongoing"
    assert early in runtime.timers


def test_the_timer_looks_again_after_one_timeout_when_the_clock_was_set_back() -> None:
    runtime = Runtime()
    runtime.ongoing()
    key = TimerKey(TimerKind.TRANSACTION_TIMEOUT, 0, ID)
    runtime.timers.clear()
    runtime.now_ms -= 3_600_000
    runtime.run(runtime.transactions.shards.on_timer(key, runtime.now_ms))
    assert runtime.timers[key] == runtime.now_ms + TIMEOUT_MS + 1


def test_abort_is_tried_again_when_the_timeout_cannot_be_written() -> None:
    runtime = Runtime()
    runtime.ongoing()
    runtime.fail_next_append_with = ErrorCode.KAFKA_STORAGE_ERROR
    runtime.advance(TIMEOUT_MS + 1)
    assert runtime.state() == "Ongoing"
    runtime.advance(1_000)
    assert runtime.state() == "PrepareAbort"


def test_abort_is_tried_again_when_there_is_no_producer_id_at_the_timeout() -> None:
    runtime = Runtime()
    runtime.ongoing()
    runtime.with_epoch(MAX_CLIENT_EPOCH)
    runtime.has_producer_ids = False
    runtime.advance(TIMEOUT_MS + 1)
    assert runtime.state() == "Ongoing"
    runtime.has_producer_ids = True
    runtime.advance(1_000)
    assert runtime.state() == "PrepareAbort"
    runtime.write_markers()
    assert runtime.states() == ("CompleteAbort", FIRST_PRODUCER_ID + 1, 0)


def test_abort_goes_through_when_not_even_the_highest_epoch_is_left() -> None:
    runtime = Runtime()
    runtime.ongoing()
    runtime.with_epoch(MAX_EPOCH)
    runtime.advance(TIMEOUT_MS + 1)
    assert runtime.states() == ("PrepareAbort", FIRST_PRODUCER_ID, MAX_EPOCH)
    runtime.write_markers()
    assert runtime.states() == ("CompleteAbort", FIRST_PRODUCER_ID + 1, 0)
