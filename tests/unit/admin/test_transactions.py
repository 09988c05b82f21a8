"""Transactions: every broker lists its own, and describes them."""

from __future__ import annotations

import asyncio

from penstock.admin import ErrorCode, ListedTransaction, TopicPartition, TransactionState
from penstock.protocol.messages import describe_transactions as described
from penstock.protocol.messages import list_transactions as listed
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
