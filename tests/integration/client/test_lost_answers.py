"""A request is carried out, its answer is lost with the connection, and the request is sent again below the caller.

What is found then is the caller's own work, and not somebody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self, cast

import pytest

import penstock
from penstock.admin import NewTopic, connect
from penstock.client.retries import Outlook, Retrying, RetryPolicy
from penstock.cluster.image import MetadataImage
from penstock.local_cluster.memory_members import MemoryBroker
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.testing.tcp_proxy import TcpProxy
from tests.integration.client.support import WAIT_S, ProxiedBroker, proxied_broker

CONFIG = {"retention.ms": "123456"}


def with_broker(scene: Callable[[ProxiedBroker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(WAIT_S), proxied_broker() as rig:
            await scene(rig)

    asyncio.run(run())


async def losing_the_answer(rig: ProxiedBroker, ask: Awaitable[Any], is_done: Callable[[MetadataImage], bool]) -> Any:
    """What is told in the end. The first answer goes with its connection, once the change is there."""
    made = asyncio.Event()
    metadata = rig.broker.server.broker.metadata
    leave = metadata.subscribe(lambda _, image: made.set() if is_done(image) else None)
    rig.proxy.hold_answers()
    asked = asyncio.ensure_future(ask)
    try:
        await made.wait()
    finally:
        leave()
    rig.proxy.reset()
    rig.proxy.heal()
    return await asked


def has(name: str, partitions: int = 2) -> Callable[[MetadataImage], bool]:
    return lambda image: name in image.topics and len(image.topics[name].partitions) == partitions


def lacks(name: str) -> Callable[[MetadataImage], bool]:
    return lambda image: name not in image.topics


class Administrator:
    """As `penstock.Cluster`, the rounds of `proof` and programs ask."""

    def __init__(self, rig: ProxiedBroker) -> None:
        self._admin = connect([("127.0.0.1", rig.proxy.port)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    async def connect(self) -> None:
        """The connection is kept, and the next question goes by it."""
        await asyncio.to_thread(self._admin.topics)

    async def create(self, name: str, partitions: int = 2, config: Mapping[str, str] = CONFIG) -> None:
        refused = await asyncio.to_thread(self._admin.create_topics, [NewTopic(name, partitions, 1, config)])
        if refused:
            raise refused[name]

    async def delete(self, name: str) -> None:
        assert await asyncio.to_thread(self._admin.delete_topics, [name]) == {}


class TestOfTheAdministration:
    def test_topic_is_created_when_the_answer_is_lost(self) -> None:
        async def scene(rig: ProxiedBroker) -> None:
            with Administrator(rig) as administrator:
                await administrator.connect()
                await losing_the_answer(rig, administrator.create("orders"), has("orders"))
                with pytest.raises(ApiError) as refused:  # the next caller's answer is not lost
                    await administrator.create("orders")
                assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

        with_broker(scene)

    @pytest.mark.parametrize(
        ("partitions", "config"),
        [(3, CONFIG), (2, {"retention.ms": "5"}), (2, {**CONFIG, "segment.ms": "7000"})],
    )
    def test_topic_is_somebody_elses_when_it_is_another_than_was_asked_for(
        self, partitions: int, config: dict[str, str]
    ) -> None:
        async def scene(rig: ProxiedBroker) -> None:
            await rig.broker.create_topic("orders", 2, CONFIG)
            with Administrator(rig) as administrator:
                await administrator.connect()
                rig.proxy.reset()  # whether the first sending arrived is not known
                with pytest.raises(ApiError) as refused:
                    await administrator.create("orders", partitions, config)
                assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

        with_broker(scene)

    def test_topic_is_deleted_when_the_answer_is_lost(self) -> None:
        async def scene(rig: ProxiedBroker) -> None:
            with Administrator(rig) as administrator:
                await administrator.create("orders")
                await losing_the_answer(rig, administrator.delete("orders"), lacks("orders"))
                assert "orders" not in rig.broker.server.broker.metadata.image.topics

        with_broker(scene)


class TestOfACluster:
    def test_topic_is_created_when_the_answer_is_lost(self) -> None:
        """What goes to the controller goes through a proxy; what is looked at does not."""

        async def run() -> None:
            cluster = penstock.Cluster(1, store="memory")
            cluster.prepare()
            (broker,) = cluster.brokers
            async with asyncio.timeout(WAIT_S), TcpProxy(broker.port) as proxy:
                cast("MemoryBroker", broker)._properties["advertised.listeners"] = f"PLAINTEXT://127.0.0.1:{proxy.port}"
                await asyncio.to_thread(cluster.start)
                try:
                    await asyncio.to_thread(cluster.create_topic, "first")  # the connection is kept
                    proxy.hold_answers()
                    asked = asyncio.ensure_future(asyncio.to_thread(cluster.create_topic, "orders", 2, 1))
                    await asyncio.to_thread(wait_for_topic, cluster, "orders")
                    proxy.reset()
                    proxy.heal()
                    await asked
                    assert [state and state.topics["orders"] for state in cluster.states().values()] == [2]
                finally:
                    await asyncio.to_thread(cluster.stop)

        asyncio.run(run())


def wait_for_topic(cluster: penstock.Cluster, name: str) -> None:
    def look() -> None:
        if not all(state and name in state.topics for state in cluster.states().values()):
            raise LookupError(name)

    Retrying(RetryPolicy(WAIT_S, 0.02, 0.02)).run(look, LookupError, lambda _: Outlook.PASSING)


def creation(name: str, partitions: int = 2) -> CreateTopicsRequest:
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in CONFIG.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
    return CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


class TestOfAnyController:
    """By the client that the REST proxy and the registry have."""

    def test_topic_is_created_when_the_answer_is_lost(self) -> None:
        async def scene(rig: ProxiedBroker) -> None:
            await rig.brokers.metadata()
            answer = await losing_the_answer(
                rig, rig.brokers.ask_controller(creation("orders"), retry=True), has("orders")
            )
            (made,) = answer.topics
            topic = rig.broker.server.broker.metadata.image.topics["orders"]
            assert (made.error_code, made.error_message) == (ErrorCode.NONE, None)
            assert (made.topic_id, made.num_partitions, made.replication_factor) == (topic.topic_id, 2, 1)
            again = await rig.brokers.ask_controller(creation("orders"), retry=True)
            assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS

        with_broker(scene)

    def test_topic_has_its_partitions_when_the_answer_is_lost(self) -> None:
        async def scene(rig: ProxiedBroker) -> None:
            await rig.broker.create_topic("orders", 2)
            await rig.brokers.metadata()
            request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=5, assignments=None)])
            answer = await losing_the_answer(rig, rig.brokers.ask_controller(request, retry=True), has("orders", 5))
            assert answer.results[0].error_code == ErrorCode.NONE

        with_broker(scene)

    def test_topic_is_deleted_when_the_answer_is_lost(self) -> None:
        async def scene(rig: ProxiedBroker) -> None:
            await rig.broker.create_topic("orders", 2)
            await rig.brokers.metadata()
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], topic_names=["orders"])
            answer = await losing_the_answer(rig, rig.brokers.ask_controller(request, retry=True), lacks("orders"))
            assert answer.responses[0].error_code == ErrorCode.NONE
            again = await rig.brokers.ask_controller(request, retry=True)
            assert again.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        with_broker(scene)
