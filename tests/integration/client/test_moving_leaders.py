"""The client of a whole cluster while brokers stop and come back: leaders, coordinators and the controller move."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import penstock
from penstock.client.batch_producer import BatchProducer, NewRecord
from penstock.client.brokers import CoordinatorKind
from penstock.client.consumer_protocol import CONSUMER, RANGE, assign_by_range, read_assignment, write_subscription
from penstock.client.membership import GroupProtocol, Member, MemberTimes
from penstock.client.partition_fetch import fetch
from penstock.client.transactional_writer import TransactionalWriter
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.integration.client.support import Events, brokers_of, read_values

CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[penstock.Cluster]:
    with penstock.Cluster(3, store="memory", config=CONFIG) as running:
        yield running


async def restart_all(cluster: penstock.Cluster) -> None:
    """One after the other: everything moves at least once."""
    for node_id in (1, 2, 3):
        await asyncio.to_thread(cluster.stop_broker, node_id)
        await asyncio.to_thread(cluster.wait_until_ready)
        await asyncio.to_thread(cluster.start_broker, node_id)
        await asyncio.to_thread(cluster.wait_until_in_sync)


async def write_batches(cluster: penstock.Cluster, moving: asyncio.Task[None]) -> int:
    async with brokers_of(cluster.bootstrap_servers) as brokers:
        producer = BatchProducer(brokers)
        count = 0
        while not moving.done():
            calls = (producer.produce("batches", 0, [NewRecord(value=b"%d" % (count + each))]) for each in range(8))
            places = await asyncio.gather(*calls)
            assert [place.base_offset for place in places] == list(range(count, count + 8))
            count += 8
            await asyncio.sleep(0.005)
        await producer.close()
        return count


async def write_transactions(cluster: penstock.Cluster, moving: asyncio.Task[None]) -> int:
    async with brokers_of(cluster.bootstrap_servers) as brokers:
        writer = TransactionalWriter(brokers, "writer", "transactions", 0)
        await writer.begin()
        count = position = 0
        while not moving.done():
            position = await writer.write([NewRecord(value=b"%d" % count)])
            count += 1
            await asyncio.sleep(0.005)
        offset, seen = 0, 0
        while offset < position:
            fetched = await fetch(brokers, "transactions", 0, offset)
            seen, offset = seen + len(fetched.records), fetched.next_offset
        assert seen == count
        return count


async def stay_a_member(cluster: penstock.Cluster, moving: asyncio.Task[None]) -> None:
    async with brokers_of(cluster.bootstrap_servers) as brokers:
        events = Events()
        protocols = [GroupProtocol(RANGE, write_subscription(["shared"]))]
        member = Member(brokers, "group", CONSUMER, lambda: protocols, assign_by_range(brokers), events, MemberTimes())
        member.start()
        assert len(read_assignment((await events.next("assigned")).assignment)) == 2
        await asyncio.wait([moving])
        member.rejoin()
        assert len(read_assignment((await events.next("assigned")).assignment)) == 2
        await member.close()


def test_all_goes_on_when_every_broker_is_restarted(cluster: penstock.Cluster) -> None:
    for name in ("batches", "transactions", "shared"):
        cluster.create_topic(name, partitions=2, replication_factor=3)

    async def run() -> tuple[int, int]:
        async with brokers_of(cluster.bootstrap_servers) as brokers:
            moving = asyncio.create_task(restart_all(cluster))
            counts = await asyncio.gather(
                write_batches(cluster, moving), write_transactions(cluster, moving), stay_a_member(cluster, moving)
            )
            await moving
            coordinator_key = OffsetFetchRequestGroup(group_id="group", topics=None)
            offsets = OffsetFetchRequest(group_id="group", groups=[coordinator_key])
            answer = await brokers.ask_coordinator(CoordinatorKind.GROUP, "group", offsets, retry=True)
            assert answer.groups[0].error_code == ErrorCode.NONE
            return counts[0], counts[1]

    batches, transactions = asyncio.run(run())
    assert read_values(cluster.bootstrap_servers, "batches", batches) == [b"%d" % each for each in range(batches)]
    expected = [b"%d" % each for each in range(transactions)]
    assert read_values(cluster.bootstrap_servers, "transactions", transactions) == expected


def test_controller_is_found_again_when_it_has_moved(cluster: penstock.Cluster) -> None:
    async def run() -> None:
        async with brokers_of(cluster.bootstrap_servers) as brokers:
            await brokers.metadata([])
            controller = await asyncio.to_thread(cluster.controller_id)
            await asyncio.to_thread(cluster.stop_broker, controller)
            topic = CreatableTopic(name="by-another", num_partitions=1, replication_factor=2)
            answer = await brokers.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
            assert answer.topics[0].error_code == ErrorCode.NONE
            assert await brokers.partitions("by-another") == 1
            await asyncio.to_thread(cluster.restore)

    asyncio.run(run())
