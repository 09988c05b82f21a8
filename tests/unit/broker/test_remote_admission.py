"""Writes into transactions whose coordinator is another broker (KIP-890)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.cluster.image import NO_LEADER, PartitionState, TopicImage
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import produce, txn_offset_commit
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.records import Record, build_batch
from penstock.transactions.operations import ADD_PARTITIONS, DESCRIBE_TRANSACTION, END_TRANSACTION, INIT_PRODUCER_ID
from penstock.transactions.requests import (
    AddPartitionsRequest,
    DescribeTransactionRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
)
from tests.unit.broker.two_brokers import BOTH, ONE, TWO, TwoBrokers, led, two_brokers
from tests.waiting import until

THERE = TopicPartition("there", 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)
VERIFIES, KNOWS_ABORTABLE, ADDS = 9, 11, 12  # versions of Produce


def run(directory: Path, scenario: Callable[[Producer], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with two_brokers(directory) as brokers:
            brokers.show(led("there", TWO), led(CONSUMER_OFFSETS, TWO), led(TRANSACTION_STATE, ONE))
            await brokers.one.broker.producer_ids.ensure()
            producer = Producer(brokers)
            await producer.begin()
            await scenario(producer)

    asyncio.run(whole())


class Producer:
    """Its coordinator is the first broker, its partition the second's."""

    def __init__(self, brokers: TwoBrokers) -> None:
        self.brokers = brokers
        self.coordinator = brokers.one.broker.transactions
        self.id, self.epoch, self.sequence = -1, -1, 0

    async def begin(self) -> None:
        begun = await self.coordinator.submit(INIT_PRODUCER_ID, InitProducerIdRequest("mine", 60_000))
        self.id, self.epoch = begun.producer_id, begun.producer_epoch

    async def add(self, partition: TopicPartition = THERE) -> None:
        await self.coordinator.submit(ADD_PARTITIONS, AddPartitionsRequest("mine", self.id, self.epoch, (partition,)))

    async def end(self) -> None:
        await self.coordinator.submit(END_TRANSACTION, EndTransactionRequest("mine", self.id, self.epoch, True))

    @property
    def partitions(self) -> list[TopicPartition]:
        request = DescribeTransactionRequest("mine")
        return list(self.coordinator.shards.read(DESCRIBE_TRANSACTION, request).partitions)

    async def write(self, version: int = VERIFIES) -> int:
        batch = build_batch(
            [Record(b"k", b"v", timestamp=1)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=True,
        )
        data = produce.PartitionProduceData(index=0, records=batch)
        topic = produce.TopicProduceData(name="there", partition_data=[data])
        request = produce.ProduceRequest(transactional_id="mine", acks=-1, timeout_ms=1_000, topic_data=[topic])
        code: int = (await self.brokers.two.ask(request, version)).responses[0].partition_responses[0].error_code
        self.sequence += not code
        return code

    async def commit_offset(self, version: int = 3) -> int:
        asked = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7)
        topic = txn_offset_commit.TxnOffsetCommitRequestTopic(name="there", partitions=[asked])
        request = txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="mine", group_id="g", producer_id=self.id, producer_epoch=self.epoch, topics=[topic]
        )
        code: int = (await self.brokers.two.ask(request, version)).topics[0].partitions[0].error_code
        return code

    @property
    def questions(self) -> int:
        return self.brokers.wire.count(AddPartitionsToTxnRequest)

    @property
    def end_offset(self) -> int:
        return self.brokers.partition("there", TWO).log.log_end_offset


def test_first_write_is_verified_by_the_other_broker_and_later_ones_are_not_when_a_transaction_is_open(
    tmp_path: Path,
) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.add()
        assert [await producer.write() for _ in range(3)] == [ErrorCode.NONE] * 3
        assert producer.questions == 1

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("version", "code"),
    [(VERIFIES, ErrorCode.INVALID_TXN_STATE), (KNOWS_ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_write_is_refused_when_the_partition_was_not_added(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.add(TopicPartition(CONSUMER_OFFSETS, 0))
        assert await producer.write(version) == code
        assert producer.end_offset == 0

    run(tmp_path, scenario)


def test_write_of_a_fenced_producer_is_refused_in_words_that_it_knows(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.add()
        producer.epoch -= 1
        assert await producer.write() == ErrorCode.INVALID_PRODUCER_EPOCH

    run(tmp_path, scenario)


def test_write_adds_the_partition_at_the_other_broker_when_the_client_leaves_that_to_it(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        assert await producer.write(ADDS) == ErrorCode.NONE
        assert producer.partitions == [THERE]
        assert await producer.commit_offset(5) == ErrorCode.NONE
        assert producer.partitions == [OFFSETS, THERE]

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_cut_off", [True, False])
def test_producer_is_told_to_try_again_when_the_coordinator_cannot_be_asked(tmp_path: Path, is_cut_off: bool) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.add()
        await producer.add(OFFSETS)
        if is_cut_off:
            producer.brokers.wire.cut_off.add(ONE)
        else:
            producer.brokers.show(led(TRANSACTION_STATE, NO_LEADER, 1))
        assert await producer.write() == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await producer.commit_offset() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        producer.brokers.wire.cut_off.clear()
        producer.brokers.show(led(TRANSACTION_STATE, ONE, 2))
        await producer.brokers.settled(ONE)
        assert await producer.write() == ErrorCode.NONE
        assert await producer.commit_offset() == ErrorCode.NONE

    run(tmp_path, scenario)


def test_producer_is_told_to_try_again_when_the_replicas_of_the_coordinator_hang(tmp_path: Path) -> None:
    """Writes of all transactions of that coordinator waited, for 10 s at a time."""

    async def scenario(producer: Producer) -> None:
        producer.brokers.show(led(TRANSACTION_STATE, ONE, isr=BOTH))
        adding = asyncio.ensure_future(producer.add())
        await asyncio.sleep(0)
        assert await producer.write() == ErrorCode.NOT_ENOUGH_REPLICAS
        producer.brokers.replicate(TRANSACTION_STATE, ONE)
        await adding
        assert await producer.write() == ErrorCode.NONE

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_for_ever", [False, True])
def test_questions_have_one_deadline_when_more_hang_than_are_begun_in_one_turn(
    tmp_path: Path, is_for_ever: bool
) -> None:
    """Each piece of 50 took a second of its own: whoever asked about 1,000 gave up, and all of them failed."""

    def led_in_halves(isr: tuple[int, ...]) -> TopicImage:
        """`isr` is that of the first partition. The other one never waits."""
        states = (PartitionState(0, BOTH, isr, ONE, 0), PartitionState(1, BOTH, (ONE,), ONE, 0))
        return led(TRANSACTION_STATE, ONE)._replace(partitions=states)

    async def whole() -> None:
        async with two_brokers(tmp_path, {"transaction.state.log.num.partitions": "2"}) as brokers:
            brokers.show(led("there", TWO), led_in_halves((ONE,)))
            coordinator, shards = brokers.one.broker.transactions, brokers.one.broker.transactions.shards
            ids = sorted((f"id-{number}" for number in range(240)), key=shards.partition_for)
            hanging = [each for each in ids if shards.partition_for(each) == 0]
            assert 50 < len(hanging) < len(ids) - 50

            def is_added(transactional_id: str) -> bool:
                request = DescribeTransactionRequest(transactional_id)
                return shards.read(DESCRIBE_TRANSACTION, request).state == "Ongoing"

            request = AddPartitionsToTxnRequest(transactions=[])
            await brokers.one.broker.producer_ids.ensure()
            for each in ids:
                begun = await coordinator.submit(INIT_PRODUCER_ID, InitProducerIdRequest(each, 60_000))
                asked = AddPartitionsToTxnTransaction(
                    transactional_id=each,
                    producer_id=begun.producer_id,
                    producer_epoch=begun.producer_epoch,
                    topics=[AddPartitionsToTxnTopic(name="there", partitions=[0])],
                )
                request.transactions.append(asked)
            brokers.show(led_in_halves(BOTH))
            asking = asyncio.ensure_future(brokers.one.ask(request, 5))
            await until(lambda: all(map(is_added, ids)))
            if not is_for_ever:
                brokers.replicate(TRANSACTION_STATE, ONE)
            answers = {
                each.transactional_id: each.topic_results[0].results_by_partition[0].partition_error_code
                for each in (await asking).results_by_transaction
            }
            late = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_for_ever else ErrorCode.NONE
            assert answers == {each: late if each in hanging else ErrorCode.NONE for each in ids}

    asyncio.run(whole())


def test_others_are_served_when_a_write_waits_for_the_coordinator(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.add()
        producer.brokers.wire.gate.clear()
        writing = asyncio.ensure_future(producer.write())
        await until(lambda: producer.questions == 1)
        batch = build_batch([Record(b"k", b"v", timestamp=1)])
        data = produce.PartitionProduceData(index=0, records=batch)
        topic = produce.TopicProduceData(name="there", partition_data=[data])
        request = produce.ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[topic])
        other = await producer.brokers.two.ask(request, VERIFIES)
        assert other.responses[0].partition_responses[0].error_code == ErrorCode.NONE
        assert not writing.done()
        producer.brokers.wire.gate.set()
        assert await writing == ErrorCode.NONE

    run(tmp_path, scenario)


def test_late_write_opens_no_transaction_when_its_own_ended_between_the_answer_and_the_write(tmp_path: Path) -> None:
    async def scenario(producer: Producer) -> None:
        await producer.add()
        producer.brokers.wire.gate.clear()
        writing = asyncio.ensure_future(producer.write())
        await until(lambda: producer.questions == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        await producer.end()
        await until(lambda: producer.end_offset == 1)  # the marker
        producer.brokers.wire.gate.set()
        assert await writing == ErrorCode.NOT_ENOUGH_REPLICAS
        await until(lambda: not producer.partitions)
        assert await producer.write() == ErrorCode.INVALID_TXN_STATE
        assert producer.end_offset == 1

    run(tmp_path, scenario)
