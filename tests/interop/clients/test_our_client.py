"""Our own client of a whole cluster against Apache Kafka, and against Penstock."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.batch_producer import Appended, BatchProducer, NewRecord
from penstock.client.brokers import CoordinatorKind
from penstock.client.consumer_protocol import CONSUMER, RANGE, assign_by_range, read_assignment, write_subscription
from penstock.client.membership import GroupProtocol, Member, MemberTimes
from penstock.client.partition_fetch import EARLIEST, LATEST, fetch, offset_of
from penstock.client.transactional_writer import FencedError, TransactionalWriter
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from penstock.testing.processes import ServerProcess
from tests.integration.client.support import Events, brokers_of, read_values
from tests.interop.conftest import MakeTopic

TIMES = MemberTimes(session_timeout_ms=6_000, rebalance_timeout_ms=10_000)


def test_requests_find_their_broker(broker: ServerProcess, make_topic: MakeTopic) -> None:
    make_topic("our-client-asks", 3)

    async def run() -> None:
        async with brokers_of(broker.bootstrap_servers) as brokers:
            assert await brokers.partitions("our-client-asks") == 3
            cluster = await brokers.ask_controller(DescribeClusterRequest())
            assert cluster.error_code == ErrorCode.NONE
            groups = [OffsetFetchRequestGroup(group_id="nobody", topics=None)]
            request = OffsetFetchRequest(group_id="nobody", groups=groups)
            answer = await brokers.ask_coordinator(CoordinatorKind.GROUP, "nobody", request)
            assert answer.groups[0].error_code == ErrorCode.NONE
            assert answer.groups[0].topics == []
            with pytest.raises(ApiError) as refused:
                await brokers.partitions("our-client-has-no-such")
            assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    asyncio.run(run())


def test_batches_are_written_in_order_and_each_refusal_is_its_own(broker: ServerProcess, make_topic: MakeTopic) -> None:
    make_topic("our-client-produces", max_message_bytes="1000")

    async def run() -> list[Appended | BaseException]:
        async with brokers_of(broker.bootstrap_servers) as brokers:
            producer = BatchProducer(brokers)
            calls = (
                producer.produce(
                    "our-client-produces",
                    0,
                    [NewRecord(b"k", bytes(2_000) if number % 7 == 3 else b"%d" % number, (("h", b"1"),))],
                    compression=Codec.NONE if number % 7 == 3 else list(Codec)[number % 5],
                )
                for number in range(40)
            )
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            found, offset = [], 0
            while offset < await offset_of(brokers, "our-client-produces", 0, LATEST):
                fetched = await fetch(brokers, "our-client-produces", 0, offset)
                found += [record.value for record in fetched.records]
                offset = fetched.next_offset
            assert found == [b"%d" % number for number in range(40) if number % 7 != 3]
            assert await offset_of(brokers, "our-client-produces", 0, EARLIEST) == 0
            return outcomes

    outcomes = asyncio.run(run())
    refused = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, Appended)]
    assert refused == list(range(3, 40, 7))
    for number in refused:
        error = outcomes[number]
        assert isinstance(error, ApiError)
        assert error.code == ErrorCode.MESSAGE_TOO_LARGE
    values = [b"%d" % number for number in range(40) if number not in refused]
    assert read_values(broker.bootstrap_servers, "our-client-produces", len(values)) == values


def test_later_writer_fences_the_earlier_one(broker: ServerProcess, make_topic: MakeTopic) -> None:
    topic = "our-client-writes"
    make_topic(topic, max_message_bytes="1000")

    async def run() -> None:
        async with brokers_of(broker.bootstrap_servers) as brokers:
            first, second = (TransactionalWriter(brokers, "our-writer", topic, 0) for _ in range(2))
            await first.begin()
            for number in range(10):
                await first.write([NewRecord(b"k", b"%d" % number)])
            with pytest.raises(ApiError) as refused:
                await first.write([NewRecord(b"k", bytes(2_000))])
            assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
            await first.write([NewRecord(b"k", b"10")])
            await second.begin()
            with pytest.raises(FencedError):
                await first.write([NewRecord(b"k", b"too late")])
            position = await second.write([NewRecord(b"k", b"11")])
            offset, found = 0, []
            while offset < position:
                fetched = await fetch(brokers, topic, 0, offset)
                found += [record.value for record in fetched.records]
                offset = fetched.next_offset
            assert found == [b"%d" % number for number in range(12)]

    asyncio.run(run())
    assert read_values(broker.bootstrap_servers, topic, 12) == [b"%d" % number for number in range(12)]


def test_members_share_partitions_and_hand_them_over(broker: ServerProcess, make_topic: MakeTopic) -> None:
    make_topic("our-client-joins", 3)

    async def run() -> None:
        async with brokers_of(broker.bootstrap_servers) as brokers:
            protocols = [GroupProtocol(RANGE, write_subscription(["our-client-joins"]))]
            first, second = Events(), Events()
            one, two = (
                Member(brokers, "our-group", CONSUMER, lambda: protocols, assign_by_range(brokers), events, TIMES)
                for events in (first, second)
            )
            one.start()
            assert len(read_assignment((await first.next("assigned")).assignment)) == 3
            two.start()
            ours, theirs = await first.next("assigned"), await second.next("assigned")
            parts = read_assignment(ours.assignment) + read_assignment(theirs.assignment)
            assert sorted(each.partition for each in parts) == [0, 1, 2]
            await one.close()
            assert len(read_assignment((await second.next("assigned")).assignment)) == 3
            await two.close()

    asyncio.run(run())
