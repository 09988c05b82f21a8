"""How changes stand in the store: large ones, what a crash leaves, what a start costs, stores without a log."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.cluster.controller.registration import Term
from penstock.cluster.controller.writer import Writer
from penstock.cluster.decisions.decision import NewTopic, TopicSelector
from penstock.cluster.image import MetadataImage, PartitionState, TopicImage
from penstock.cluster.image_loader import load, load_image
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.interface import (
    Node,
    Operation,
    Result,
    Store,
    StoreError,
    StoreErrorKind,
    TransactionLimit,
)
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.protocol.errors import ErrorCode
from tests.unit.cluster.brokers import WITH_NODES, TestBroker, agreed, emptied, opened_with_nodes, started
from tests.unit.cluster.harness import ENDPOINTS, FixedClock, choices, config, run
from tests.waiting import until

ZOOKEEPER = TransactionLimit(512 * 1024, 2_000)
SMALL = TransactionLimit(512 * 1024, 22)


class CrashingStore(MemoryStore):
    """Refuses transactions after so many, and counts them."""

    allowed: int | None = None
    operations: list[Sequence[Operation]]

    async def transaction(self, operations: Sequence[Operation]) -> Sequence[Result]:
        if self.allowed == 0:
            raise StoreError(StoreErrorKind.UNAVAILABLE, "/")
        results = await super().transaction(operations)
        if self.allowed is not None:
            self.allowed -= 1
        self.operations = [*getattr(self, "operations", []), operations]
        return results


class SlowStore(MemoryStore):
    """Others have many turns between two of its reads."""

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().read_many(paths)


def test_ten_thousand_partitions_come_and_go_when_transactions_are_limited() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, second = await started(tree, 1, 2, limit=ZOOKEEPER)
        (result,) = await first.metadata.create_topics([NewTopic("large", 10_000, 2)])
        assert result.code is ErrorCode.NONE
        await agreed(first, second)
        assert await load_image(second.store) == first.metadata.image
        await second.stop()  # each partition's state changes
        await until(lambda: 2 not in first.metadata.image.brokers)
        second = await TestBroker(tree, 2, ZOOKEEPER).start()
        await agreed(first, second)
        assert first.metadata.image.topics["large"].partitions[9_999].isr == (1,)
        assert await load_image(second.store) == first.metadata.image
        await first.metadata.delete_topics([TopicSelector("large")])
        await agreed(first, second)
        await emptied(second.store, "/brokers/topics", "/config/topics")

    run(main())


@pytest.mark.parametrize("crash_after", range(1, 8))
def test_next_controller_completes_a_change_when_the_first_died_between_its_parts(crash_after: int) -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1, limit=SMALL, levels=WITH_NODES)
        await first.stop()
        dying = CrashingStore(tree, transaction_limit=SMALL)
        metadata = await opened_with_nodes(dying)
        dying.allowed = crash_after
        (result,) = await metadata.create_topics([NewTopic("a", 40, 1)])
        assert result.code is ErrorCode.NONE
        assert len(metadata.image.topics["a"].partitions) == 40
        reader = MemoryStore(tree)
        assert await load_image(reader) == metadata.image, "whoever loads sees the change"
        await dying.close()
        second = await TestBroker(tree, 2, SMALL, WITH_NODES).start()
        topic = second.metadata.image.topics["a"]
        assert [state.partition for state in topic.partitions] == list(range(40))
        assert not (await load(reader)).stored.position.is_unwritten
        assert await load_image(reader) == second.metadata.image
        await second.metadata.delete_topics([TopicSelector("a")])
        assert await load_image(reader) == second.metadata.image

    run(main())


def test_nothing_of_a_change_is_there_when_its_first_part_was_refused() -> None:
    async def main() -> None:
        tree = MemoryTree()
        store = CrashingStore(tree, transaction_limit=SMALL)
        metadata = await Metadata.open(store, config(), ENDPOINTS, FixedClock(), choices=choices())
        before = metadata.image
        store.allowed = 0
        with pytest.raises(Exception, match="refused the change"):
            await metadata.create_topics([NewTopic("a", 40, 1)])
        assert metadata.image is before
        store.allowed = None
        assert await load_image(store) == before
        await metadata.create_topics([NewTopic("a", 40, 1)])
        assert await load_image(store) == metadata.image

    run(main())


def test_same_controller_completes_its_change_when_the_store_is_back() -> None:
    async def main() -> None:
        store = CrashingStore(transaction_limit=SMALL)
        metadata = await opened_with_nodes(store)
        store.allowed = 3
        await metadata.create_topics([NewTopic("a", 40, 1)])
        assert (await load(store)).stored.position.is_unwritten
        store.allowed = None
        await metadata.create_topics([NewTopic("b", 40, 1)])
        assert not (await load(store)).stored.position.is_unwritten
        assert await load_image(store) == metadata.image

    run(main())


def test_image_is_of_one_moment_when_it_is_loaded_beside_changes() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1, limit=SMALL)
        seen: dict[int, MetadataImage] = {first.metadata.image.number: first.metadata.image}
        first.metadata.subscribe(lambda _old, new: seen.update({new.number: new}))
        stop = asyncio.Event()

        async def change() -> None:
            for turn in range(20):
                await first.metadata.create_topics([NewTopic("a", 30, 1), NewTopic(f"b{turn}", 3, 1)])
                await first.metadata.delete_topics([TopicSelector("a")])
            stop.set()

        changing = asyncio.ensure_future(change())
        reader = SlowStore(tree)
        loaded: list[MetadataImage] = []
        while not stop.is_set():
            loaded.append(await load_image(reader))
        await changing
        assert len(loaded) > 3
        assert all(image == seen[image.number] for image in loaded)

    run(main())


def test_damage_is_told_from_a_race_when_a_node_is_missing() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1, levels=WITH_NODES)
        await first.metadata.create_topics([NewTopic("a", 2, 1)])
        await first.store.delete("/brokers/topics/a/partitions/1/state")
        with pytest.raises(StoreError, match="/brokers/topics/a/partitions/1/state: the node is missing") as error:
            await load_image(first.store)
        assert error.value.kind is StoreErrorKind.CORRUPT

    run(main())


def test_start_takes_two_transactions_and_changes_no_partition_when_the_end_was_clean() -> None:
    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        await first.metadata.create_topics([NewTopic("a", 5, 1)])
        epoch = first.metadata.broker_epoch
        await first.stop()
        store = CrashingStore(tree)
        again = await Metadata.open(store, config(), ENDPOINTS, FixedClock(), previous_epoch=epoch, choices=choices())
        assert len(store.operations) == 2
        paths = [operation.path for each in store.operations for operation in each]
        assert [path for path in paths if path.startswith("/brokers/topics")] == []
        assert again.image.topics == first.metadata.image.topics

    run(main())


@pytest.mark.parametrize(("mark", "leader_epoch"), [(-1, 0), (None, 1)])
def test_store_without_a_log_is_taken_over_when_an_earlier_version_made_it(
    tmp_path: Path, mark: int | None, leader_epoch: int
) -> None:
    """The mark of a clean shutdown had no epoch then."""

    async def make() -> None:
        store = await SqliteStore.open(tmp_path / "metadata.db")
        metadata = await opened_with_nodes(store)
        await metadata.create_topics([NewTopic("a", 2, 1)])
        await metadata.close()
        for name in await store.children("/penstock/log"):
            await store.delete(f"/penstock/log/{name}")
        for path in ("/penstock/log", "/penstock/brokers", "/penstock"):
            await store.delete(path)
        await store.close()

    async def take_over(previous_epoch: int | None) -> MetadataImage:
        store = await SqliteStore.open(tmp_path / "metadata.db")
        metadata = await Metadata.open(
            store, config(), ENDPOINTS, FixedClock(), previous_epoch=previous_epoch, choices=choices()
        )
        assert await load_image(store) == metadata.image
        await metadata.close()
        await store.close()
        return metadata.image

    run(make())
    image = run(take_over(mark))
    assert image.number == 1
    assert {state.leader_epoch for state in image.topics["a"].partitions} == {leader_epoch}
    again = run(take_over(image.brokers[1].epoch))
    assert (again.number, again.topics) == (2, image.topics)


def test_writer_is_fenced_when_another_wrote_the_log() -> None:
    """By the position of the log, also where the controller's epoch is the same."""

    async def main() -> None:
        tree = MemoryTree()
        (first,) = await started(tree, 1)
        store: Store = MemoryStore(tree)
        image, stored = await load(store)
        node = await store.read("/controller_epoch")
        assert node is not None
        late = Writer(store, Term(1, node.version).fence, stored, lambda: "late")
        await first.metadata.create_topics([NewTopic("a", 1, 1)])
        topic = TopicImage("late", b"l" * 16, (PartitionState(0, (1,), (1,), 1),))
        (change,) = late.plan(image, image.with_topics({"late": topic}))
        with pytest.raises(StoreError) as error:
            await late.write(change)
        assert late.is_fenced_by(error.value)
        with pytest.raises(StoreError) as error:
            await late.is_made(change)
        assert late.is_fenced_by(error.value)

    run(main())
