"""What clients of groups and transactions are told by a broker that coordinates only some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.cluster.image import NO_LEADER
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import describe_producers, offset_commit
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.messages.describe_transactions import DescribeTransactionsRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.list_transactions import ListTransactionsRequest
from tests.unit.broker.served import Served
from tests.unit.broker.two_brokers import ONE, TWO, TwoBrokers, led, two_brokers

GROUP, TRANSACTION = 0, 1


def run(directory: Path, scenario: Callable[[TwoBrokers], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with two_brokers(directory) as brokers:
            brokers.show(led("orders", TWO), led(CONSUMER_OFFSETS, ONE), led(TRANSACTION_STATE, TWO))
            await scenario(brokers)

    asyncio.run(whole())


async def find(served: Served, key_type: int) -> tuple[int, str, int]:
    """(error, host, node)"""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["mine"])
    (found,) = (await served.ask(request, 4)).coordinators
    return found.error_code, found.host, found.node_id


async def commit(served: Served) -> int:
    asked = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = offset_commit.OffsetCommitRequestTopic(name="orders", partitions=[asked])
    request = offset_commit.OffsetCommitRequest(group_id="mine", generation_id_or_member_epoch=-1, topics=[topic])
    code: int = (await served.ask(request, 8)).topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize(("key_type", "node"), [(GROUP, ONE), (TRANSACTION, TWO)])
def test_leader_of_the_partition_is_the_coordinator_when_either_broker_is_asked(
    tmp_path: Path, key_type: int, node: int
) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        for served in (brokers.one, brokers.two):
            assert await find(served, key_type) == (ErrorCode.NONE, f"host-{node}", node)

    run(tmp_path, scenario)


def test_no_coordinator_is_available_when_nobody_leads_or_the_leader_is_not_on_the_listener(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        unavailable = (ErrorCode.COORDINATOR_NOT_AVAILABLE, "", -1)
        brokers.show(led(CONSUMER_OFFSETS, NO_LEADER, 1))
        assert await find(brokers.one, GROUP) == unavailable
        (endpoint,) = brokers.brokers[TWO].endpoints
        brokers.brokers[TWO] = brokers.brokers[TWO]._replace(endpoints=(endpoint._replace(name="INTERNAL"),))
        brokers.show()
        assert await find(brokers.one, TRANSACTION) == unavailable

    run(tmp_path, scenario)


def test_groups_and_transactions_are_those_led_here_when_they_are_described_or_listed(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        one, two = brokers.one, brokers.two
        assert await commit(one) == ErrorCode.NONE
        assert await commit(two) == ErrorCode.NOT_COORDINATOR
        init = InitProducerIdRequest(transactional_id="mine", transaction_timeout_ms=1_000)
        assert (await one.ask(init, 4)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await two.ask(init, 4)).error_code == ErrorCode.NONE

        described = [(await each.ask(DescribeGroupsRequest(groups=["mine"]), 5)).groups[0] for each in (one, two)]
        assert [each.error_code for each in described] == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]
        listed = [(await each.ask(ListGroupsRequest(), 4)) for each in (one, two)]
        assert [[group.group_id for group in each.groups] for each in listed] == [["mine"], []]
        request = DescribeTransactionsRequest(transactional_ids=["mine"])
        states = [(await each.ask(request, 0)).transaction_states[0] for each in (one, two)]
        assert [each.error_code for each in states] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
        found = [(await each.ask(ListTransactionsRequest(), 1)) for each in (one, two)]
        assert [[each.transactional_id for each in answer.transaction_states] for answer in found] == [[], ["mine"]]

    run(tmp_path, scenario)


def test_offset_is_committed_when_another_broker_alone_has_the_partition(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        elsewhere = led("orders", TWO)
        (state,) = elsewhere.partitions
        brokers.show(elsewhere._replace(topic_id=b"2" * 16, partitions=(state._replace(replicas=(TWO,)),)))
        assert brokers.one.broker.partitions.find("orders", 0) is None
        assert await commit(brokers.one) == ErrorCode.NONE

    run(tmp_path, scenario)


def test_producers_are_described_by_every_broker_with_a_replica(tmp_path: Path) -> None:
    async def scenario(brokers: TwoBrokers) -> None:
        topic = describe_producers.TopicRequest(name="orders", partition_indexes=[0])
        request = describe_producers.DescribeProducersRequest(topics=[topic])

        async def codes() -> list[int]:
            answers = [await each.ask(request, 0) for each in brokers.served.values()]
            return [answer.topics[0].partitions[0].error_code for answer in answers]

        assert await codes() == [ErrorCode.NONE, ErrorCode.NONE]
        (state,) = (elsewhere := led("orders", TWO)).partitions
        brokers.show(elsewhere._replace(topic_id=b"2" * 16, partitions=(state._replace(replicas=(TWO,)),)))
        assert await codes() == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]

    run(tmp_path, scenario)
