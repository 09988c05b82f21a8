"""A change of topics that the disk or the store refuses: each item is answered, and nothing of the change remains."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from penstock.cluster.store.interface import Operation, Result, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore
from penstock.core.types import TopicPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import alter_configs as full
from penstock.protocol.messages import incremental_alter_configs as incremental
from penstock.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.testing.disks.faulty_files import Fault, FaultyFiles
from tests.unit.broker.served import Served, serving

TOPIC = 2  # the type of a resource
REFUSED = ErrorCode.KAFKA_STORAGE_ERROR


class FullStore(MemoryStore):
    is_full = False

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.is_full:
            raise StoreError(StoreErrorKind.NOT_WRITABLE, "/", "database or disk is full")
        return await super().transaction(operations)


def with_broker(directory: Path, use: Callable[[Served, FaultyFiles, FullStore], Awaitable[None]]) -> None:
    async def run() -> None:
        files, store = FaultyFiles(is_synced=False), FullStore()
        async with serving(directory, files=files, store=store) as served:
            await served.create("orders", 2)
            await use(served, files, store)
            files.heal()
            store.is_full = False

    asyncio.run(run())


async def create(served: Served, *names: str, partitions: int = 2) -> list[ErrorCode]:
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
    answer = await served.ask(CreateTopicsRequest(topics=topics), 7)
    assert all(topic.error_message for topic in answer.topics if topic.error_code)
    return [ErrorCode(topic.error_code) for topic in answer.topics]


async def delete(served: Served, *names: str) -> list[ErrorCode]:
    answer = await served.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names]), 6)
    return [ErrorCode(topic.error_code) for topic in answer.responses]


async def grow(served: Served, name: str, count: int) -> ErrorCode:
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None)]
    (answer,) = (await served.ask(CreatePartitionsRequest(topics=topics), 3)).results
    return ErrorCode(answer.error_code)


async def alter(served: Served, name: str) -> list[ErrorCode]:
    """By both APIs."""
    settings = [full.AlterableConfig(name="retention.ms", value="77")]
    resource = full.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=settings)
    changes = [incremental.AlterableConfig(name="retention.ms", config_operation=0, value="78")]
    changed = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=changes)
    (first,) = (await served.ask(full.AlterConfigsRequest(resources=[resource]), 2)).responses
    (second,) = (await served.ask(incremental.IncrementalAlterConfigsRequest(resources=[changed]), 1)).responses
    return [ErrorCode(first.error_code), ErrorCode(second.error_code)]


def names_on_disk(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if path.is_dir()}


def test_each_item_is_refused_and_nothing_changes_when_the_store_is_full(tmp_path: Path) -> None:
    async def use(served: Served, _files: FaultyFiles, store: FullStore) -> None:
        image = served.broker.metadata.image
        store.is_full = True
        assert await create(served, "a", "b") == [REFUSED, REFUSED]
        assert await delete(served, "orders", "nothing") == [REFUSED, REFUSED]
        assert await grow(served, "orders", 4) == REFUSED
        assert await alter(served, "orders") == [REFUSED, REFUSED]
        assert served.broker.metadata.image is image
        assert set(served.broker.directories.logs) == {TopicPartition("orders", index) for index in (0, 1)}
        assert names_on_disk(tmp_path) == {"orders-0", "orders-1"}
        store.is_full = False
        assert await create(served, "a", "b") == [ErrorCode.NONE, ErrorCode.NONE]
        assert await grow(served, "orders", 4) == ErrorCode.NONE
        assert await alter(served, "orders") == [ErrorCode.NONE, ErrorCode.NONE]
        assert await delete(served, "orders", "a") == [ErrorCode.NONE, ErrorCode.NONE]

    with_broker(tmp_path, use)


@pytest.mark.parametrize("operation", ["make_directory", "write_file", "create"])
def test_no_topic_is_made_when_the_disk_has_no_room_for_one_of_its_partitions(tmp_path: Path, operation: str) -> None:
    async def use(served: Served, files: FaultyFiles, _store: FullStore) -> None:
        files.fail(Fault.on(operation, "/new-1", errno.ENOSPC))
        assert await create(served, "new") == [REFUSED]
        assert set(served.broker.metadata.image.topics) == {"orders"}
        assert len(served.broker.partitions) == 2
        assert names_on_disk(tmp_path) == {"orders-0", "orders-1"}
        files.fail(Fault.on(operation, "/orders-2", errno.ENOSPC))
        assert await grow(served, "orders", 4) == REFUSED
        assert len(served.broker.metadata.image.topics["orders"].partitions) == 2
        assert names_on_disk(tmp_path) == {"orders-0", "orders-1"}
        files.heal()
        assert await create(served, "new") == [ErrorCode.NONE]
        assert await grow(served, "orders", 4) == ErrorCode.NONE
        assert not served.broker.directories.offline
        assert all(partition.is_online for partition in served.broker.partitions)

    with_broker(tmp_path, use)


@pytest.mark.parametrize("refused", ["/refused-", "/refused-1"])  # none of its partitions is made, or one
def test_no_settings_stay_behind_when_topics_are_refused(tmp_path: Path, refused: str) -> None:
    async def use(served: Served, files: FaultyFiles, store: FullStore) -> None:
        def in_use() -> tuple[int, int]:
            return len(served.broker.partitions.settings_in_use), served.server.housekeeping._flush_interval_ms()

        before = in_use()
        settings = [CreatableTopicConfig(name="flush.ms", value="1")]
        topic = CreatableTopic(name="refused", num_partitions=2, replication_factor=1, configs=settings)
        files.fail(Fault.on("make_directory", refused, errno.ENOSPC))
        answer = await served.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert answer.topics[0].error_code == REFUSED
        assert in_use() == before
        files.heal()
        store.is_full = True
        answer = await served.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert answer.topics[0].error_code == REFUSED
        assert in_use() == before
        store.is_full = False
        answer = await served.ask(CreateTopicsRequest(topics=[topic]), 7)
        assert answer.topics[0].error_code == ErrorCode.NONE
        assert in_use()[0] == before[0] + 1
        assert in_use()[1] < before[1]

    with_broker(tmp_path, use)


def test_many_prepared_partitions_go_when_the_last_one_is_refused(tmp_path: Path) -> None:
    async def use(served: Served, files: FaultyFiles, _store: FullStore) -> None:
        files.fail(Fault.on("make_directory", "/new-129", errno.ENOSPC))
        assert await create(served, "new", partitions=130) == [REFUSED]
        assert names_on_disk(tmp_path) == {"orders-0", "orders-1"}
        assert len(served.broker.directories.logs) == 2

    with_broker(tmp_path, use)


def test_topic_is_refused_in_the_metadata_when_it_cannot_be_auto_created(tmp_path: Path) -> None:
    async def use(served: Served, _files: FaultyFiles, store: FullStore) -> None:
        store.is_full = True
        topics = [MetadataRequestTopic(name=name) for name in ("orders", "new")]
        answer = await served.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=True), 9)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE, REFUSED]
        coordinator = await served.ask(FindCoordinatorRequest(coordinator_keys=["group"]), 4)
        assert coordinator.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    with_broker(tmp_path, use)
