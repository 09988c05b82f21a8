"""Metadata about one topic is answered from a store: the answers are those of the usual way, and never yesterday's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

import pytest

from penstock.broker import metadata_answers
from penstock.broker.peers.peers import Peers
from penstock.broker.peers.presence import Presence
from penstock.broker.peers.tcp_connect import connect_by_tcp
from penstock.broker.session import Session
from penstock.broker.topic_creation import delete_topic
from penstock.client.security import ClientSecurity
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from tests.unit.broker.served import Served, serving

VERSIONS = range(10, 14)


def with_broker(directory: Path, use: Callable[[Served], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(directory) as served:
            await served.create("orders", 2)
            await use(served)

    asyncio.run(run())


def about(*names: str, may_create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=may_create)


async def describe(served: Served, name: str, version: int = 12) -> MetadataResponseTopic:
    """Asks twice, so that the second answer is the one that was kept."""
    first = await served.ask(about(name), version)
    second = await served.ask(about(name), version)
    assert first == second
    topic: MetadataResponseTopic = second.topics[0]
    return topic


@pytest.mark.parametrize("version", VERSIONS)
def test_answer_is_that_of_the_usual_way_when_it_is_kept(tmp_path: Path, version: int) -> None:
    async def use(served: Served) -> None:
        # A topic that is named twice is answered once, and not by the shortcut.
        usual = await served.send(about("orders", "orders"), version)
        assert len(served.broker.metadata_answers) == 0
        assert usual is not None
        for may_create in (False, True, False):
            reply = await served.send(about("orders", may_create=may_create), version)
            assert reply is not None
            assert reply == usual
        assert len(served.broker.metadata_answers) == 1

    with_broker(tmp_path, use)


def test_new_partitions_and_a_deletion_are_told_when_an_answer_was_kept(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        assert len((await describe(served, "orders")).partitions) == 2
        more = CreatePartitionsTopic(name="orders", count=3, assignments=None)
        await served.ask(CreatePartitionsRequest(topics=[more], timeout_ms=1000), 3)
        assert len((await describe(served, "orders")).partitions) == 3
        await delete_topic(served.broker.metadata, "orders")
        assert (await describe(served, "orders")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_broker(tmp_path, use)


def test_offline_partition_is_told_when_an_answer_was_kept(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        assert [each.error_code for each in (await describe(served, "orders")).partitions] == [0, 0]
        partition = served.broker.partitions.find("orders", 1)
        assert partition is not None
        partition.log.go_offline("the disk failed")
        told = (await describe(served, "orders")).partitions
        assert [each.error_code for each in told] == [0, ErrorCode.LEADER_NOT_AVAILABLE]
        assert told[1].leader_id == -1

    with_broker(tmp_path, use)


def test_each_listener_is_told_its_own_address_when_an_answer_was_kept(tmp_path: Path) -> None:
    async def run() -> None:
        listeners = {
            "listeners": "INSIDE://127.0.0.1:19092,OUTSIDE://127.0.0.1:19093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }
        async with serving(tmp_path, listeners) as served:
            await served.create("orders")
            for name, port in (("INSIDE", 19092), ("OUTSIDE", 19093), ("INSIDE", 19092)):
                served.session = Session("1", "10.0.0.1", name)
                told = await served.ask(about("orders"), 12)
                assert [broker.port for broker in told.brokers] == [port]

    asyncio.run(run())


def test_nothing_is_kept_when_the_topic_does_not_exist(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        for number in range(20):
            told = await describe(served, f"nothing-{number}")
            assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(served.broker.metadata_answers) == 0

    with_broker(tmp_path, use)


def test_store_stays_within_its_bound_when_many_topics_are_asked_for(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        names = [f"topic-{number}" for number in range(metadata_answers.MAX_ANSWERS // len(VERSIONS) + 5)]
        for name in names:
            await served.create(name)
        for name in names:
            for version in VERSIONS:
                assert (await describe(served, name, version)).name == name
                assert len(served.broker.metadata_answers) <= metadata_answers.MAX_ANSWERS

    with_broker(tmp_path, use)


class _PresenceKnownOnce(Presence):
    """Known at the first look, and not at the next: a sign of life gets too old between two looks."""

    looks = 0

    @property
    def is_known(self) -> bool:
        self.looks += 1
        return self.looks == 1


def test_answer_is_prepared_at_once_when_the_signs_of_life_get_old_meanwhile(tmp_path: Path) -> None:
    async def use(served: Served) -> None:
        peers = Peers(1, lambda _: None, connect_by_tcp(ClientSecurity), Random(1).random)
        presence = _PresenceKnownOnce(1, peers, lambda: served.broker.metadata.image, lambda: None)
        served.broker.presence = presence
        told = await served.ask(about("orders"), 12)
        assert len(told.topics[0].partitions) == 2
        assert presence.looks == 1
        assert len(served.broker.metadata_answers) == 1

    with_broker(tmp_path, use)
