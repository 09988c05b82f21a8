"""Transactions: every broker lists its own, and describes them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.admin import (
    ApiError,
    ErrorCode,
    ListedTransaction,
    OpenTransaction,
    TopicPartition,
    TransactionState,
)
from penstock.protocol.messages import describe_producers as producers
from penstock.protocol.messages import describe_transactions as described
from penstock.protocol.messages import list_transactions as listed
from penstock.protocol.messages import write_txn_markers as markers
from tests.unit.admin.scripted import ScriptedBrokers


def listing(*ids: str, code: int = 0, unknown: str = "") -> listed.ListTransactionsResponse:
    return listed.ListTransactionsResponse(
        error_code=code,
        unknown_state_filters=[unknown] if unknown else [],
        transaction_states=[
            listed.TransactionState(transactional_id=each, producer_id=7, transaction_state="Ongoing") for each in ids
        ],
    )


def test_every_broker_is_asked_when_transactions_are_looked_for() -> None:
    brokers = ScriptedBrokers({listed.ListTransactionsRequest: [listing("b"), listing("a")]}, brokers=(1, 2))
    found, failures = asyncio.run(
        brokers.admin.transactions.find(states=["Ongoing"], producer_ids=[7], open_for_ms=10, pattern=".*")
    )
    assert found == {"a": ListedTransaction("a", "Ongoing", 7, 2), "b": ListedTransaction("b", "Ongoing", 7, 1)}
    assert failures == ()
    request = brokers.sent[0][1]
    assert (request.state_filters, request.producer_id_filters) == (["Ongoing"], [7])
    assert (request.duration_filter, request.transactional_id_pattern) == (10, ".*")


def test_failures_tell_the_broker_when_one_is_loading_and_one_is_silent() -> None:
    brokers = ScriptedBrokers(
        {
            listed.ListTransactionsRequest: [
                listing(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
                listing("a", unknown="Sleeping"),
            ]
        },
        brokers=(1, 2, 3),
    )
    brokers.refusing = {3}
    found, failures = asyncio.run(brokers.admin.transactions.find())
    assert list(found) == ["a"]
    assert {(each.node_id, each.code) for each in failures} == {
        (1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (2, ErrorCode.INVALID_REQUEST),
        (3, None),
    }


@pytest.mark.parametrize(
    ("condition", "version", "word"),
    [({"open_for_ms": 10}, 0, "age"), ({"pattern": "a.*"}, 1, "pattern"), ({"pattern": "a.*"}, 0, "pattern")],
)
def test_broker_is_not_asked_when_it_does_not_know_a_condition(
    condition: dict[str, Any], version: int, word: str
) -> None:
    brokers = ScriptedBrokers({listed.ListTransactionsRequest: [listing("a")]}, brokers=(1, 2, 3))
    brokers.listing_versions = {1: version}
    brokers.refusing = {3}
    found, failures = asyncio.run(brokers.admin.transactions.find(**condition))
    assert list(found) == ["a"]
    assert brokers.ways == ["any 2"]
    assert {(each.node_id, each.code) for each in failures} == {(1, ErrorCode.UNSUPPORTED_VERSION), (3, None)}
    assert word in next(each.reason for each in failures if each.node_id == 1)


def test_old_broker_is_asked_when_it_knows_all_conditions() -> None:
    brokers = ScriptedBrokers({listed.ListTransactionsRequest: [listing("a")]})
    brokers.listing_versions = {1: 0}
    found, failures = asyncio.run(brokers.admin.transactions.find(states=["Ongoing"], producer_ids=[7]))
    assert (list(found), failures) == (["a"], ())


def test_transactions_are_described_by_their_coordinator_when_one_is_not_there() -> None:
    rows = [
        described.TransactionState(
            transactional_id="a",
            transaction_state="Ongoing",
            transaction_timeout_ms=60,
            transaction_start_time_ms=5,
            producer_id=7,
            producer_epoch=2,
            topics=[described.TopicData(topic="t", partitions=[1, 0])],
        ),
        described.TransactionState(transactional_id="b", transaction_state="Empty", transaction_start_time_ms=-1),
        described.TransactionState(transactional_id="c", error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ]
    brokers = ScriptedBrokers(
        {
            listed.ListTransactionsRequest: [listing(), listing("a", "b", "c", "other")],
            described.DescribeTransactionsRequest: described.DescribeTransactionsResponse(transaction_states=rows),
        },
        brokers=(1, 2),
    )
    found, failures = asyncio.run(brokers.admin.transactions.describe(["a", "b", "c", "d"]))
    places = (TopicPartition("t", 0), TopicPartition("t", 1))
    assert found["a"] == TransactionState("a", "Ongoing", 7, 2, 2, 60, 5, places)
    assert found["b"].started_ms is None
    assert {(each.subject, each.code) for each in failures} == {
        ("transaction c", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("transaction d", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
    }
    way, request = brokers.sent[-1]
    assert (way, request.transactional_ids) == ("any 2", ["a", "b", "c"])


PLACE = TopicPartition("t", 1)


def producers_of(*rows: producers.ProducerState, code: int = 0) -> producers.DescribeProducersResponse:
    partition = producers.PartitionResponse(partition_index=1, error_code=code, active_producers=list(rows))
    return producers.DescribeProducersResponse(topics=[producers.TopicResponse(name="t", partitions=[partition])])


def test_leader_tells_what_is_open_when_a_partition_is_asked_about() -> None:
    idle = producers.ProducerState(producer_id=6, current_txn_start_offset=-1)
    busy = producers.ProducerState(
        producer_id=7, producer_epoch=2, coordinator_epoch=-1, current_txn_start_offset=40, last_timestamp=5
    )
    brokers = ScriptedBrokers({producers.DescribeProducersRequest: producers_of(idle, busy)})
    assert asyncio.run(brokers.admin.transactions.open_in(PLACE)) == [OpenTransaction(7, 2, -1, 40)]
    ((way, request),) = brokers.sent
    assert way == "leader of t-1"
    assert [(topic.name, topic.partition_indexes) for topic in request.topics] == [("t", [1])]


def test_refusal_is_raised_when_a_partition_may_not_be_asked_about() -> None:
    answer = producers_of(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    brokers = ScriptedBrokers({producers.DescribeProducersRequest: answer})
    with pytest.raises(ApiError) as caught:
        asyncio.run(brokers.admin.transactions.open_in(PLACE))
    assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def markers_of(code: int = 0) -> markers.WriteTxnMarkersResponse:
    row = markers.WritableTxnMarkerPartitionResult(partition_index=1, error_code=code)
    topic = markers.WritableTxnMarkerTopicResult(name="t", partitions=[row])
    return markers.WriteTxnMarkersResponse(markers=[markers.WritableTxnMarkerResult(producer_id=7, topics=[topic])])


def test_abort_is_sent_once_to_the_leader_when_no_coordinator_has_written_there() -> None:
    brokers = ScriptedBrokers({markers.WriteTxnMarkersRequest: markers_of()})
    asyncio.run(brokers.admin.transactions.abort(PLACE, OpenTransaction(7, 2, -1, 40)))
    ((way, request),) = brokers.sent
    assert way == "leader of t-1"
    assert brokers.retried == set()
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 2, 0)
    assert not marker.transaction_result
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [1])]


def test_refusal_is_raised_when_an_abort_comes_too_late() -> None:
    answer = markers_of(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    brokers = ScriptedBrokers({markers.WriteTxnMarkersRequest: answer})
    with pytest.raises(ApiError) as caught:
        asyncio.run(brokers.admin.transactions.abort(PLACE, OpenTransaction(7, 2, 3, 40)))
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
