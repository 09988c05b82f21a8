from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.broker import Broker
from penstock.broker.topic_creation import create_topic, delete_topic
from penstock.cluster.decisions.decision import IncrementalChange, RequestedChange
from penstock.cluster.store.memory import MemoryTree
from penstock.core.config.resources import ConfigResourceType
from penstock.core.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ApiError, ErrorCode
from tests.unit.server.composed import DATA, Ground

SET = 0  # the operation of IncrementalAlterConfigs


def with_broker(use: Callable[[Broker], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Ground().broker() as broker:
            await use(broker)

    asyncio.run(run())


async def alter(broker: Broker, resource: ConfigResourceType, name: str, key: str, value: str) -> None:
    change = RequestedChange(key, SET, value)
    (result,) = await broker.metadata.incremental_alter_configs([IncrementalChange(resource, name, (change,))])
    assert result.code is ErrorCode.NONE, result.message


def test_partitions_are_there_when_a_topic_was_created_and_gone_when_it_was_deleted() -> None:
    async def use(broker: Broker) -> None:
        await create_topic(broker.metadata, "orders", 2, {})
        assert broker.partitions.find("orders", 1) is not None
        await delete_topic(broker.metadata, "orders")
        assert broker.partitions.find("orders", 1) is None

    with_broker(use)


def test_groups_know_the_topic_when_it_was_created_or_has_grown() -> None:
    async def use(broker: Broker) -> None:
        before = broker.groups.coordinator.topics.version
        await create_topic(broker.metadata, "orders", 2, {})
        assert broker.groups.coordinator.topics.version == before + 1

    with_broker(use)


def test_coordinators_are_loaded_when_their_topics_appear_and_unloaded_when_these_go() -> None:
    async def use(broker: Broker) -> None:
        assert not list(broker.groups.shards.active_partitions())
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            await broker.topic_creation.ensure(name)
        assert list(broker.groups.shards.active_partitions()) == [0, 1]
        assert list(broker.transactions.shards.active_partitions()) == [0, 1]
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            await delete_topic(broker.metadata, name)
        assert not list(broker.groups.shards.active_partitions())
        assert not list(broker.transactions.shards.active_partitions())

    with_broker(use)


def test_settings_of_all_groups_and_of_one_change_when_the_image_says_so() -> None:
    async def use(broker: Broker) -> None:
        await alter(broker, ConfigResourceType.BROKER, "", "group.consumer.assignment.interval.ms", "50")
        assert broker.config.groups.group_consumer_assignment_interval_ms == 50
        await alter(broker, ConfigResourceType.GROUP, "slow", "consumer.assignment.interval.ms", "55")
        coordinator = broker.groups.coordinator
        assert coordinator.shards.settings.consumer_assignment_interval_ms == 50
        assert {name: each.consumer_assignment_interval_ms for name, each in coordinator.settings_by_group.items()} == {
            "slow": 55
        }

    with_broker(use)


def test_log_is_set_aside_at_the_start_when_the_store_has_forgotten_its_topic() -> None:
    async def run() -> None:
        ground = Ground()
        async with ground.broker() as broker:
            await create_topic(broker.metadata, "orders", 1, {})
        assert "orders-0" in ground.files.list_names(DATA)
        ground.tree = MemoryTree()
        async with ground.broker() as broker:
            assert TopicPartition("orders", 0) not in broker.directories.logs
            (renamed,) = [name for name in ground.files.list_names(DATA) if name.startswith("orders-0")]
            assert renamed.endswith("-stray")

    asyncio.run(run())


def test_creating_a_topic_fails_with_its_code_when_it_exists_but_deleting_a_missing_one_does_not() -> None:
    async def use(broker: Broker) -> None:
        await create_topic(broker.metadata, "orders", 1, {"retention.ms": "5"})
        with pytest.raises(ApiError) as failure:
            await create_topic(broker.metadata, "orders", 1, {})
        assert failure.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
        await delete_topic(broker.metadata, "nothing")

    with_broker(use)
