"""No answer shows what the disk may lose: whoever asks while an fsync is under way waits for it, and whoever asks when
it fails is not told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.log_settings import LogSettings
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages import (
    add_partitions_to_txn,
    consumer_group_describe,
    consumer_group_heartbeat,
    describe_groups,
    describe_transactions,
    find_coordinator,
    init_producer_id,
    list_groups,
    list_transactions,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
)
from tests.unit.broker.harness import GatedFiles
from tests.unit.broker.served import Served, serving

ID = "payments"
NOT_COORDINATOR = ErrorCode.NOT_COORDINATOR


class Question(NamedTuple):
    request: Message
    version: int
    answer: Any  # of a response: what is told
    if_known: object
    if_lost: object


GROUP_QUESTIONS = {
    "OffsetFetch": Question(
        offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]),
        8,
        lambda response: response.groups[0].error_code or response.groups[0].topics[0].partitions[0].committed_offset,
        7,
        NOT_COORDINATOR,
    ),
    "DescribeGroups": Question(
        describe_groups.DescribeGroupsRequest(groups=["g"]),
        5,
        lambda response: response.groups[0].error_code or response.groups[0].group_state,
        "Empty",
        NOT_COORDINATOR,
    ),
    "DescribeGroups of many": Question(
        describe_groups.DescribeGroupsRequest(groups=[*(f"group-{number}" for number in range(9)), "g"]),
        5,
        lambda response: response.groups[9].error_code or response.groups[9].group_state,
        "Empty",
        NOT_COORDINATOR,
    ),
    "ListGroups": Question(
        list_groups.ListGroupsRequest(), 4, lambda response: [each.group_id for each in response.groups], ["g"], []
    ),
}
CONSUMER_GROUP_QUESTIONS = {
    "ConsumerGroupDescribe": Question(
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=["g"]),
        0,
        lambda response: response.groups[0].error_code or response.groups[0].group_state,
        "Stable",
        NOT_COORDINATOR,
    ),
    "ListGroups": Question(
        list_groups.ListGroupsRequest(),
        5,
        lambda response: [each.group_type for each in response.groups],
        ["consumer"],
        [],
    ),
}
TRANSACTION_QUESTIONS = {
    "DescribeTransactions": Question(
        describe_transactions.DescribeTransactionsRequest(transactional_ids=[ID]),
        0,
        lambda response: response.transaction_states[0].error_code or response.transaction_states[0].transaction_state,
        "Ongoing",
        NOT_COORDINATOR,
    ),
    "ListTransactions": Question(
        list_transactions.ListTransactionsRequest(),
        0,
        lambda response: [each.transaction_state for each in response.transaction_states],
        ["Ongoing"],
        [],
    ),
}


@asynccontextmanager
async def gated(directory: Path, topic: str) -> AsyncIterator[tuple[Served, GatedFiles]]:
    """A broker whose `topic`, a coordinator's, has one partition and flushes every message, once the test lets it."""
    files = GatedFiles()
    counts = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    async with serving(directory, counts, files) as served:
        await served.create("orders")
        for key_type in (0, 1):
            await served.ask(find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]), 4)
        partition = served.broker.partitions.find(topic, 0)
        assert partition is not None
        try:
            yield served, files
        finally:
            files.let_pass()


def flush_every_message(served: Served, topic: str) -> None:
    partition = served.broker.partitions.find(topic, 0)
    assert partition is not None
    partition.log.update_settings(LogSettings(flush_messages=1))


async def ask_meanwhile(
    served: Served, files: GatedFiles, change: tuple[Message, int], question: Question, fails: bool
) -> tuple[object, Any]:
    """(what is told of a change whose fsync is under way when the question comes, the answer to the change)"""
    changing = asyncio.create_task(served.ask(*change))
    assert await asyncio.to_thread(files.arrived.acquire, timeout=30)
    asking = asyncio.create_task(served.ask(question.request, question.version))
    for _ in range(50):
        await asyncio.sleep(0)
    assert not asking.done()
    if fails:
        files.error = OSError(5, "Input/output error")
    files.let_pass()
    told = question.answer(await asking)
    return told, await changing


def commit() -> offset_commit.OffsetCommitRequest:
    partition = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = offset_commit.OffsetCommitRequestTopic(name="orders", partitions=[partition])
    return offset_commit.OffsetCommitRequest(group_id="g", topics=[topic])


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("question", GROUP_QUESTIONS.values(), ids=GROUP_QUESTIONS)
def test_group_is_told_only_when_the_disk_has_it(tmp_path: Path, question: Question, fails: bool) -> None:
    async def run() -> None:
        async with gated(tmp_path, CONSUMER_OFFSETS) as (served, files):
            flush_every_message(served, CONSUMER_OFFSETS)
            told, changed = await ask_meanwhile(served, files, (commit(), 8), question, fails)
            assert told == (question.if_lost if fails else question.if_known)
            assert bool(changed.topics[0].partitions[0].error_code) is fails

    asyncio.run(run())


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("question", CONSUMER_GROUP_QUESTIONS.values(), ids=CONSUMER_GROUP_QUESTIONS)
def test_consumer_group_is_told_only_when_the_disk_has_it(tmp_path: Path, question: Question, fails: bool) -> None:
    joining = consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )

    async def run() -> None:
        async with gated(tmp_path, CONSUMER_OFFSETS) as (served, files):
            flush_every_message(served, CONSUMER_OFFSETS)
            told, changed = await ask_meanwhile(served, files, (joining, 0), question, fails)
            assert told == (question.if_lost if fails else question.if_known)
            assert bool(changed.error_code) is fails

    asyncio.run(run())


async def init(served: Served) -> tuple[int, int]:
    request = init_producer_id.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    response = await served.ask(request, 4)
    assert not response.error_code
    return response.producer_id, response.producer_epoch


def add(producer_id: int, epoch: int) -> add_partitions_to_txn.AddPartitionsToTxnRequest:
    """By the client."""
    topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name="orders", partitions=[0])
    return add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic],
    )


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("question", TRANSACTION_QUESTIONS.values(), ids=TRANSACTION_QUESTIONS)
def test_transaction_is_told_only_when_the_disk_has_it(tmp_path: Path, question: Question, fails: bool) -> None:
    async def run() -> None:
        async with gated(tmp_path, TRANSACTION_STATE) as (served, files):
            producer = await init(served)
            flush_every_message(served, TRANSACTION_STATE)
            told, changed = await ask_meanwhile(served, files, (add(*producer), 3), question, fails)
            assert told == (question.if_lost if fails else question.if_known)
            added = changed.results_by_topic_v3_and_below[0].results_by_partition[0]
            assert bool(added.partition_error_code) is fails

    asyncio.run(run())


@pytest.mark.parametrize("fails", [False, True])
def test_partition_is_verified_only_when_the_disk_has_it(tmp_path: Path, fails: bool) -> None:
    async def run() -> None:
        async with gated(tmp_path, TRANSACTION_STATE) as (served, files):
            producer_id, epoch = await init(served)
            flush_every_message(served, TRANSACTION_STATE)
            verify = add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=ID,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=True,
                topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name="orders", partitions=[0])],
            )
            question = Question(
                add_partitions_to_txn.AddPartitionsToTxnRequest(transactions=[verify]),
                4,
                lambda response: (
                    response.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
                ),
                ErrorCode.NONE,
                NOT_COORDINATOR,
            )
            told, _ = await ask_meanwhile(served, files, (add(producer_id, epoch), 3), question, fails)
            assert told == (question.if_lost if fails else question.if_known)

    asyncio.run(run())


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("version", [3, 5], ids=["verified", "added"])
def test_write_is_admitted_only_when_the_disk_has_the_transaction(tmp_path: Path, version: int, fails: bool) -> None:
    """From version 5 on the write adds its partition to the transaction, before the client has done so."""

    async def run() -> None:
        async with gated(tmp_path, TRANSACTION_STATE) as (served, files):
            producer_id, epoch = await init(served)
            flush_every_message(served, TRANSACTION_STATE)
            offset = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
            write = txn_offset_commit.TxnOffsetCommitRequest(
                transactional_id=ID,
                group_id="g",
                producer_id=producer_id,
                producer_epoch=epoch,
                topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name="orders", partitions=[offset])],
            )
            offsets = served.broker.partitions.find(CONSUMER_OFFSETS, 0)
            assert offsets is not None
            question = Question(
                write,
                version,
                lambda response: (response.topics[0].partitions[0].error_code, offsets.log.log_end_offset),
                # What was only verified was never added by the client.
                (ErrorCode.NONE, 1) if version == 5 else (ErrorCode.INVALID_TXN_STATE, 0),
                (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0),
            )
            told, _ = await ask_meanwhile(served, files, (add(producer_id, epoch), 3), question, fails)
            assert told == (question.if_lost if fails else question.if_known)

    asyncio.run(run())
