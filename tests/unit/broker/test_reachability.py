"""What clients are told of brokers that come and go, of leaders that are away, and of listeners that others lack."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.session import Session
from penstock.cluster.image import BrokerRegistration, PartitionState, TopicImage
from penstock.core.listeners import Endpoint
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.peers.pair import overlay
from tests.unit.broker.served import Served, serving

NONE, NOT_FOUND = ErrorCode.NONE, ErrorCode.LISTENER_NOT_FOUND
AWAY, NO_REPLICA = ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REPLICA_NOT_AVAILABLE

TOPIC_ID = b"t" * 16
BROKERS = {
    1: BrokerRegistration(
        1, (Endpoint("PLAINTEXT", "one", 1, "PLAINTEXT"), Endpoint("INSIDE", "one", 11, "PLAINTEXT")), epoch=1
    ),
    2: BrokerRegistration(
        2,
        (Endpoint("PLAINTEXT", "two", 2, "PLAINTEXT"), Endpoint("INSIDE", "two", 22, "PLAINTEXT")),
        rack="r",
        epoch=2,
    ),
    3: BrokerRegistration(3, (Endpoint("INSIDE", "three", 33, "PLAINTEXT"),), epoch=3),
}
# Broker 1 is the one that is asked, and has none of the partitions. Broker 4 is not registered.
PARTITIONS = (
    PartitionState(0, (2,), (2,), 2, leader_epoch=5),
    PartitionState(1, (4, 2), (2,), 2),
    PartitionState(2, (4, 2), (4,), 4, leader_epoch=7),
    PartitionState(3, (3, 2), (3, 2), 3),
    PartitionState(4, (4,), (4,), -1, leader_epoch=9),
)


def with_cluster(directory: Path, scene: Callable[[Served], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(directory) as served:
            topic = TopicImage("t", TOPIC_ID, PARTITIONS)
            overlay(served, brokers=BROKERS, controller_id=2, topics={"t": topic})
            await scene(served)

    asyncio.run(run())


async def ask(served: Served, version: int) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    first = await served.ask(request, version)
    assert await served.ask(request, version) == first
    return first


def rows(response: Any) -> list[tuple[int, int, list[int]]]:
    return [(each.error_code, each.leader_id, each.offline_replicas) for each in response.topics[0].partitions]


@pytest.mark.parametrize("version", [6, 9, 12, 13])
def test_leaders_and_offline_replicas_are_those_of_the_listener(tmp_path: Path, version: int) -> None:
    async def scene(served: Served) -> None:
        response = await ask(served, version)
        assert rows(response) == [
            (NONE, 2, []),
            (NONE, 2, [4]),
            (AWAY, -1, [4]),
            (NOT_FOUND, -1, [3]),
            (AWAY, -1, [4]),
        ]
        assert [each.leader_epoch for each in response.topics[0].partitions] == (
            [5, 0, 7, 0, 9] if version >= 7 else [-1] * 5
        )
        assert [(each.node_id, each.host, each.port) for each in response.brokers] == [(1, "one", 1), (2, "two", 2)]
        assert response.controller_id == 2
        served.session = Session("1", "10.0.0.1", "INSIDE")
        response = await ask(served, version)
        assert rows(response)[3] == (NONE, 3, [])
        assert [(each.node_id, each.port) for each in response.brokers] == [(1, 11), (2, 22), (3, 33)]

    with_cluster(tmp_path, scene)


def test_older_clients_are_told_what_they_understand(tmp_path: Path) -> None:
    async def scene(served: Served) -> None:
        assert [code for code, _, _ in rows(await ask(served, 5))] == [NONE, NONE, AWAY, AWAY, AWAY]
        oldest = await ask(served, 0)
        assert [code for code, _, _ in rows(oldest)] == [NONE, NO_REPLICA, AWAY, AWAY, AWAY]
        assert [each.replica_nodes for each in oldest.topics[0].partitions] == [[2], [2], [2], [2], []]
        assert [each.isr_nodes for each in oldest.topics[0].partitions] == [[2], [2], [], [2], []]

    with_cluster(tmp_path, scene)


def test_described_partitions_have_no_leader_and_no_error_when_it_is_away(tmp_path: Path) -> None:
    async def scene(served: Served) -> None:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
        response = await served.ask(request, 0)
        assert rows(response) == [(NONE, 2, []), (NONE, 2, [4]), (NONE, -1, [4]), (NONE, -1, [3]), (NONE, -1, [4])]

    with_cluster(tmp_path, scene)


def test_described_cluster_names_the_controller_and_the_brokers_of_the_listener(tmp_path: Path) -> None:
    async def scene(served: Served) -> None:
        response = await served.ask(DescribeClusterRequest(), 2)
        assert response.controller_id == 2
        assert [(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers] == [
            (1, "one", 1, None, False),
            (2, "two", 2, "r", False),
        ]

    with_cluster(tmp_path, scene)


def test_brokers_that_are_away_are_described_when_a_client_asks_for_fenced_ones(tmp_path: Path) -> None:
    away = {
        5: BrokerRegistration(5, (Endpoint("PLAINTEXT", "five", 5, "PLAINTEXT"),), rack="q", epoch=5),
        6: BrokerRegistration(6, (Endpoint("INSIDE", "six", 66, "PLAINTEXT"),), epoch=6),
    }

    async def scene(served: Served) -> None:
        overlay(served, brokers=BROKERS, away=away, directories={2: ("two",), 7: ("seven",)})
        request = DescribeClusterRequest(include_fenced_brokers=True)
        fenced = [each for each in (await served.ask(request, 2)).brokers if each.is_fenced]
        assert [(each.broker_id, each.host, each.port, each.rack) for each in fenced] == [
            (7, "", -1, None),  # an earlier version kept nothing but its directories
            (5, "five", 5, "q"),
        ]
        for unasked in (await served.ask(DescribeClusterRequest(), 2), await served.ask(request, 1)):
            assert [each.broker_id for each in unasked.brokers] == [1, 2]
        assert [each.node_id for each in (await ask(served, 12)).brokers] == [1, 2]

    with_cluster(tmp_path, scene)


def test_kept_answer_is_not_told_when_a_broker_came_or_the_controller_changed(tmp_path: Path) -> None:
    async def scene(served: Served) -> None:
        topic = TopicImage("t", TOPIC_ID, PARTITIONS[:1])
        overlay(served, topics={"t": topic})
        assert [each.node_id for each in (await ask(served, 12)).brokers] == [1, 2]
        assert len(served.broker.metadata_answers) == 1
        third = BROKERS[3]._replace(endpoints=(Endpoint("PLAINTEXT", "three", 3, "PLAINTEXT"),))
        overlay(served, brokers={**BROKERS, 3: third})
        assert [each.node_id for each in (await ask(served, 12)).brokers] == [1, 2, 3]
        overlay(served, controller_id=3)
        assert (await ask(served, 12)).controller_id == 3
        overlay(served, brokers={1: BROKERS[1]})
        gone = await ask(served, 12)
        assert [each.node_id for each in gone.brokers] == [1]
        assert rows(gone) == [(AWAY, -1, [2])]

    with_cluster(tmp_path, scene)
