"""Nobody learns of a coordinator's state before all in-sync replicas have it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.broker.runtimes.group_runtime import GroupRuntime
from penstock.broker.runtimes.transaction_runtime import TransactionRuntime
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.groups.operations.table import COMMIT_OFFSETS, FETCH_OFFSETS
from penstock.groups.requests import OffsetCommitRequest, OffsetFetchRequest, OffsetToCommit
from penstock.protocol.errors import ErrorCode
from penstock.transactions.operations import ADD_PARTITIONS, DESCRIBE_TRANSACTION, END_TRANSACTION, INIT_PRODUCER_ID
from penstock.transactions.requests import (
    AddPartitionsRequest,
    DescribeTransactionRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
)
from tests.unit.broker.two_brokers import BOTH, ONE, TWO, TwoBrokers, led, two_brokers
from tests.waiting import turns, until

ORDERS = TopicPartition("orders", 0)


def run(
    directory: Path, scenario: Callable[[TwoBrokers], Awaitable[None]], properties: dict[str, str] | None = None
) -> None:
    async def whole() -> None:
        async with two_brokers(directory, properties) as brokers:
            brokers.show(led("orders", ONE), led(CONSUMER_OFFSETS, ONE, 0, BOTH), led(TRANSACTION_STATE, ONE, 0, BOTH))
            await scenario(brokers)

    asyncio.run(whole())


async def commit(groups: GroupRuntime, offset: int) -> ErrorCode:
    request = OffsetCommitRequest("g", [OffsetToCommit("orders", 0, offset)])
    (entry,) = (await groups.submit(COMMIT_OFFSETS, request)).partitions
    return entry.error


async def fetch(groups: GroupRuntime) -> int | ErrorCode:
    request = OffsetFetchRequest("g", [ORDERS])
    result = await groups.read(["g"], lambda: groups.shards.read(FETCH_OFFSETS, request))
    return result.error or result.partitions[0].offset


async def begun(work: Awaitable[Any]) -> asyncio.Future[Any]:
    future = asyncio.ensure_future(work)
    await turns(10)
    return future


def test_commit_and_fetch_wait_when_a_replica_does_not_have_the_offset_yet(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        committing, fetching = await begun(commit(groups, 7)), await begun(fetch(groups))
        assert not committing.done()
        assert not fetching.done()
        brokers.replicate(CONSUMER_OFFSETS, ONE)
        assert await committing is ErrorCode.NONE
        assert await fetching == 7

    run(tmp_path, scenario)


def test_clients_are_sent_away_when_the_leadership_ends_before_the_replicas_have_it(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        committing, fetching = await begun(commit(groups, 7)), await begun(fetch(groups))
        brokers.show(led(CONSUMER_OFFSETS, TWO, 1))
        assert await committing is ErrorCode.NOT_COORDINATOR
        assert await fetching == ErrorCode.NOT_COORDINATOR
        assert await fetch(brokers.two.broker.groups) == -1

    run(tmp_path, scenario)


def test_old_coordinator_tells_nothing_when_it_leads_again_before_its_answer_was_due(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        committing = await begun(commit(groups, 7))
        brokers.partition(CONSUMER_OFFSETS, ONE).log.truncate_to(0)
        brokers.show(led(CONSUMER_OFFSETS, ONE, 2))
        assert await committing is ErrorCode.NOT_COORDINATOR
        assert await fetch(groups) == -1

    run(tmp_path, scenario)


def test_client_is_told_to_try_again_when_replicas_take_too_long_and_the_offset_counts_later(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        assert await commit(groups, 7) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        brokers.replicate(CONSUMER_OFFSETS, ONE)
        assert await fetch(groups) == 7

    run(tmp_path, scenario, {"offsets.commit.timeout.ms": "1"})


def test_client_is_told_to_try_again_when_in_sync_replicas_are_too_few(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        groups = brokers.one.broker.groups
        needs_two = {"min.insync.replicas": "2"}
        brokers.show(led(CONSUMER_OFFSETS, ONE, 0, BOTH)._replace(configs=needs_two))
        committing = await begun(commit(groups, 7))
        brokers.show(led(CONSUMER_OFFSETS, ONE, 0, isr=(ONE,))._replace(configs=needs_two))
        brokers.replicate(CONSUMER_OFFSETS, ONE)
        assert await committing is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await commit(groups, 8) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(tmp_path, scenario, {"offsets.commit.timeout.ms": "100"})


def test_refusal_does_not_wait_when_the_partition_is_followed_here(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        committing = await begun(commit(brokers.one.broker.groups, 7))
        brokers.copy(CONSUMER_OFFSETS, ONE)  # the follower does not know yet that all have it
        assert await commit(brokers.two.broker.groups, 8) is ErrorCode.NOT_COORDINATOR
        brokers.replicate(CONSUMER_OFFSETS, ONE)
        await committing

    run(tmp_path, scenario)


class Producer:
    """A transactional producer of one partition, at one coordinator."""

    def __init__(self, transactions: TransactionRuntime) -> None:
        self.transactions = transactions
        self.id, self.epoch = -1, -1

    async def init(self) -> None:
        result = await self.transactions.submit(INIT_PRODUCER_ID, InitProducerIdRequest("mine", 60_000))
        self.id, self.epoch = result.producer_id, result.producer_epoch

    async def add(self) -> None:
        await self.transactions.submit(ADD_PARTITIONS, AddPartitionsRequest("mine", self.id, self.epoch, (ORDERS,)))

    async def end(self) -> ErrorCode:
        request = EndTransactionRequest("mine", self.id, self.epoch, is_commit=True)
        return ErrorCode((await self.transactions.submit(END_TRANSACTION, request)).error)

    @property
    def state(self) -> str:
        return self.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest("mine")).state


async def replicated(brokers: TwoBrokers, work: Awaitable[Any]) -> None:
    future = await begun(work)
    brokers.replicate(TRANSACTION_STATE, ONE)
    await future


async def begin(brokers: TwoBrokers) -> Producer:
    await brokers.one.broker.producer_ids.ensure()
    producer = Producer(brokers.one.broker.transactions)
    await replicated(brokers, producer.init())
    await replicated(brokers, producer.add())
    return producer


def test_no_marker_is_written_when_the_decision_is_not_replicated_yet(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = await begin(brokers)
        ending = await begun(producer.end())
        orders = brokers.partition("orders", ONE).log
        assert producer.state == "PrepareCommit"
        assert not ending.done()
        assert orders.log_end_offset == 0
        brokers.replicate(TRANSACTION_STATE, ONE)
        assert await ending is ErrorCode.NONE
        await until(lambda: orders.log_end_offset == 1)
        assert producer.state == "CompleteCommit"

    run(tmp_path, scenario)


def test_decision_is_not_carried_out_by_the_old_coordinator_when_another_broker_leads(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = await begin(brokers)
        ending = await begun(producer.end())
        brokers.show(led(TRANSACTION_STATE, TWO, 1))  # without the decision
        assert await ending is ErrorCode.NOT_COORDINATOR
        await brokers.settled()
        assert brokers.partition("orders", ONE).log.log_end_offset == 0
        assert Producer(brokers.two.broker.transactions).state == "Ongoing"

    run(tmp_path, scenario)


def test_transaction_is_not_complete_when_its_marker_is_not_replicated_yet(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        brokers.show(led("orders", ONE, 0, BOTH))
        producer = await begin(brokers)
        ending = await begun(producer.end())
        brokers.replicate(TRANSACTION_STATE, ONE)
        await ending
        await turns(10)
        assert brokers.partition("orders", ONE).log.log_end_offset == 1
        assert producer.state == "PrepareCommit"
        brokers.replicate("orders", ONE)
        await until(lambda: producer.state == "CompleteCommit")

    run(tmp_path, scenario)
