"""Transactions whose partitions, or whose coordinator, are on another broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.broker import Broker
from penstock.cluster.image import NO_LEADER
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.log_settings import LogSettings
from penstock.core.types import TopicPartition
from penstock.groups.operations.table import COMMIT_IN_TRANSACTION, FETCH_OFFSETS
from penstock.groups.requests import OffsetFetchRequest, OffsetToCommit, TransactionalCommitRequest
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.protocol.records import Record, build_batch
from penstock.transactions.operations import ADD_PARTITIONS, DESCRIBE_TRANSACTION, END_TRANSACTION, INIT_PRODUCER_ID
from penstock.transactions.requests import (
    AddPartitionsRequest,
    DescribeTransactionRequest,
    EndTransactionRequest,
    InitProducerIdRequest,
)
from tests.own_time import pass_time, run_in_own_time
from tests.unit.broker.served import Served
from tests.unit.broker.two_brokers import BOTH, ONE, TWO, TwoBrokers, led, two_brokers
from tests.waiting import until

HERE, THERE = TopicPartition("here", 0), TopicPartition("there", 0)
OFFSETS = TopicPartition(CONSUMER_OFFSETS, 0)


def run(directory: Path, scenario: Callable[[TwoBrokers], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with two_brokers(directory) as brokers:
            brokers.show(
                led("here", ONE), led("there", TWO), led(CONSUMER_OFFSETS, TWO), led(TRANSACTION_STATE, ONE, 3)
            )
            await brokers.one.broker.producer_ids.ensure()
            await scenario(brokers)

    run_in_own_time(whole())


class Producer:
    def __init__(self, brokers: TwoBrokers, transactional_id: str = "mine") -> None:
        self.brokers = brokers
        self.transactional_id = transactional_id
        self.id, self.epoch = -1, -1

    def write(self, topic: str, node_id: int) -> None:
        batch = build_batch(
            [Record(b"k", b"v", timestamp=1)],
            producer_id=self.id,
            producer_epoch=self.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self.brokers.partition(topic, node_id).append(batch, -1, 1)

    async def begin(self, *partitions: TopicPartition) -> None:
        runtime = self.brokers.one.broker.transactions
        begun = await runtime.submit(INIT_PRODUCER_ID, InitProducerIdRequest(self.transactional_id, 60_000))
        self.id, self.epoch = begun.producer_id, begun.producer_epoch
        request = AddPartitionsRequest(self.transactional_id, self.id, self.epoch, partitions)
        await runtime.submit(ADD_PARTITIONS, request)

    async def end(self, broker: Broker, is_commit: bool = True) -> ErrorCode:
        request = EndTransactionRequest(self.transactional_id, self.id, self.epoch, is_commit)
        return ErrorCode((await broker.transactions.submit(END_TRANSACTION, request)).error)


def state(broker: Broker, transactional_id: str = "mine") -> str:
    return broker.transactions.shards.read(DESCRIBE_TRANSACTION, DescribeTransactionRequest(transactional_id)).state


def ends(brokers: TwoBrokers) -> tuple[int, int]:
    """(stable, end) of the partition on the other broker."""
    log = brokers.partition("there", TWO).log
    return log.last_stable_offset, log.log_end_offset


def test_markers_are_written_by_the_leaders_when_these_are_other_brokers(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(HERE, THERE, OFFSETS)
        producer.write("here", ONE)
        producer.write("there", TWO)
        groups = brokers.two.broker.groups
        commit = TransactionalCommitRequest("g", producer.id, producer.epoch, [OffsetToCommit("here", 0, 7)])
        await groups.submit(COMMIT_IN_TRANSACTION, commit)
        assert await producer.end(brokers.one.broker) is ErrorCode.NONE
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")
        assert brokers.partition("here", ONE).log.last_stable_offset == 2
        assert ends(brokers) == (2, 2)
        fetched = groups.shards.read(FETCH_OFFSETS, OffsetFetchRequest("g", [HERE]))
        assert fetched.partitions[0].offset == 7
        assert brokers.wire.count(WriteTxnMarkersRequest) == 1  # for both partitions of the other broker
        (entry,) = brokers.partition("there", TWO).log.producers.active()
        assert entry.coordinator_epoch == 3  # the leader epoch of the coordinator's partition

    run(tmp_path, scenario)


def test_marker_is_sent_again_when_the_other_broker_cannot_be_reached(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        brokers.wire.cut_off.add(TWO)
        await producer.end(brokers.one.broker)
        await until(lambda: brokers.wire.count(WriteTxnMarkersRequest) == 1)
        await asyncio.sleep(0)
        assert state(brokers.one.broker) == "PrepareCommit"
        assert brokers.one.broker.transactions.waiting_markers == 1
        brokers.wire.cut_off.clear()
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")
        assert brokers.one.broker.transactions.waiting_markers == 0

    run(tmp_path, scenario)


@pytest.mark.parametrize("meanwhile", [NO_LEADER, TWO])
def test_marker_finds_the_new_leader_when_the_partition_moves(tmp_path: Path, meanwhile: int) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        brokers.show(led("there", meanwhile, 1))
        if meanwhile == TWO:  # the other broker knows already that it does not lead, and we do not
            brokers.topics["there"] = led("there", ONE, 2)
            brokers.show_to(TWO)
        await producer.end(brokers.one.broker)
        await pass_time(0.01)
        assert state(brokers.one.broker) == "PrepareCommit"
        brokers.show(led("there", ONE, 2))
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")
        assert brokers.partition("there", ONE).log.log_end_offset == 1
        assert brokers.partition("there", TWO).log.log_end_offset == 0

    run(tmp_path, scenario)


def test_marker_does_not_wait_for_the_end_of_its_pause_when_the_partition_has_a_leader_again(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        brokers.show(led("there", NO_LEADER, 1))
        await producer.end(brokers.one.broker)
        await until(lambda: brokers.one.broker.transactions.waiting_markers == 1)
        brokers.show(led("there", ONE, 2))
        for _ in range(5):
            await asyncio.sleep(0)
        assert state(brokers.one.broker) == "CompleteCommit"
        assert brokers.one.broker.transactions.waiting_markers == 0

    run(tmp_path, scenario)


def test_other_transactions_end_when_the_replicas_of_one_partition_hang(tmp_path: Path) -> None:
    """Their markers waited for 30 s behind those of the partition."""

    async def scenario(brokers: TwoBrokers) -> None:
        brokers.show(led("there", TWO, 1, isr=BOTH), led("elsewhere", TWO))
        hanging, other = Producer(brokers), Producer(brokers, "other")
        await hanging.begin(THERE)
        await other.begin(TopicPartition("elsewhere", 0))
        assert await hanging.end(brokers.one.broker) is ErrorCode.NONE
        await until(lambda: brokers.wire.count(WriteTxnMarkersRequest) == 1)
        assert await other.end(brokers.one.broker) is ErrorCode.NONE
        await until(lambda: state(brokers.one.broker, "other") == "CompleteCommit")
        assert state(brokers.one.broker) == "PrepareCommit"
        brokers.show(led("there", TWO, 2))
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")

    run(tmp_path, scenario)


def test_transaction_completes_when_the_other_broker_has_a_newer_epoch_or_the_topic_is_gone(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        producer.epoch += 1
        producer.write("there", TWO)
        producer.epoch -= 1
        await producer.end(brokers.one.broker)
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")
        assert ends(brokers) == (0, 1)
        await producer.begin(THERE)
        del brokers.topics["there"]
        brokers.show()
        await producer.end(brokers.one.broker)
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")

    run(tmp_path, scenario)


def test_new_coordinator_completes_the_transaction_when_the_old_one_has_decided(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(HERE, THERE)
        producer.write("there", TWO)
        brokers.wire.cut_off.add(TWO)
        await producer.end(brokers.one.broker)
        await until(lambda: brokers.wire.count(WriteTxnMarkersRequest) == 1)
        assert ends(brokers) == (0, 1)
        await brokers.move(TRANSACTION_STATE, ONE, TWO, leader_epoch=4)
        assert brokers.one.broker.transactions.waiting_markers == 0
        await until(lambda: state(brokers.two.broker) == "CompleteCommit")
        assert ends(brokers) == (2, 2)
        (entry,) = brokers.partition("there", TWO).log.producers.active()
        assert entry.coordinator_epoch == 4
        assert await producer.end(brokers.one.broker) is ErrorCode.NOT_COORDINATOR
        assert await producer.end(brokers.two.broker) is ErrorCode.NONE  # a retry

    run(tmp_path, scenario)


def test_late_answer_does_nothing_when_the_coordinator_is_another_by_then(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        brokers.wire.gate.clear()
        await producer.end(brokers.one.broker)
        await until(lambda: ends(brokers)[1] == 1)
        await brokers.move(TRANSACTION_STATE, ONE, TWO, leader_epoch=4)
        await until(lambda: state(brokers.two.broker) == "CompleteCommit")
        await brokers.move(TRANSACTION_STATE, TWO, ONE, leader_epoch=5)
        end = brokers.partition(TRANSACTION_STATE, ONE).log.log_end_offset
        brokers.wire.gate.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert brokers.partition(TRANSACTION_STATE, ONE).log.log_end_offset == end
        assert state(brokers.one.broker) == "CompleteCommit"

    run(tmp_path, scenario)


async def write_marker(served: Served, coordinator_epoch: int, topic: str = "there") -> int:
    marker = WritableTxnMarker(
        producer_id=1000,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    answer = await served.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    code: int = answer.markers[0].topics[0].partitions[0].error_code
    return code


def test_marker_is_refused_when_it_comes_to_the_wrong_broker_or_from_an_old_coordinator(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        assert await write_marker(brokers.one, 4) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await write_marker(brokers.two, 4, "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await write_marker(brokers.two, 4) == ErrorCode.NONE
        assert await write_marker(brokers.two, 3) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert ends(brokers) == (1, 1)

    run(tmp_path, scenario)


def test_answer_to_a_marker_waits_when_a_replica_does_not_have_the_marker_yet(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        brokers.show(led("there", TWO, 0, BOTH))
        writing = asyncio.ensure_future(write_marker(brokers.two, 4))
        await until(lambda: ends(brokers)[1] == 1)
        await asyncio.sleep(0)
        assert not writing.done()
        brokers.replicate("there", TWO)
        assert await writing == ErrorCode.NONE
        again = asyncio.ensure_future(write_marker(brokers.two, 4))
        await until(lambda: ends(brokers)[1] == 2)
        await asyncio.sleep(0)
        brokers.show(led("there", ONE, 1))
        brokers.partition("there", TWO).wake_all()
        assert await again == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, scenario)


def test_open_transaction_keeps_its_deadline_when_its_coordinator_moves(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        brokers.two.clock.advance(59_000)
        await brokers.move(TRANSACTION_STATE, ONE, TWO, leader_epoch=4)
        await pass_time(0.01)
        assert state(brokers.two.broker) == "Ongoing"
        brokers.one.clock.advance(60_001)
        await brokers.move(TRANSACTION_STATE, TWO, ONE, leader_epoch=5)
        await until(lambda: state(brokers.one.broker) == "CompleteAbort")
        assert ends(brokers) == (1, 1)

    run(tmp_path, scenario)


def test_transactional_id_keeps_its_age_when_its_coordinator_moves(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        producer = Producer(brokers)
        await producer.begin(THERE)
        await producer.end(brokers.one.broker)
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")
        await brokers.move(TRANSACTION_STATE, ONE, TWO, leader_epoch=4)
        transactions = brokers.two.broker.transactions
        brokers.two.clock.advance(transactions.shards.settings.transactional_id_expiration_ms - 1)
        await transactions.expire()
        assert state(brokers.two.broker) == "CompleteCommit"
        brokers.two.clock.advance(1)
        await transactions.expire()
        assert not transactions.coordinator.transaction_counts()

    run(tmp_path, scenario)


def test_marker_waits_for_in_sync_replicas_when_these_are_too_few(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        log = brokers.partition("there", TWO).log
        log.update_settings(LogSettings(min_insync_replicas=2))
        assert await write_marker(brokers.two, 4) == ErrorCode.NOT_ENOUGH_REPLICAS
        producer = Producer(brokers)
        await producer.begin(THERE)
        await producer.end(brokers.one.broker)
        await until(lambda: brokers.wire.count(WriteTxnMarkersRequest) == 1)
        assert ends(brokers) == (0, 0)
        log.update_settings(LogSettings())
        await until(lambda: state(brokers.one.broker) == "CompleteCommit")

    run(tmp_path, scenario)
