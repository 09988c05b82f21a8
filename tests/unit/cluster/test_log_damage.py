"""Damage to the log and its snapshot that an election, a change or a start would meet much later."""

from __future__ import annotations

import asyncio

import pytest

from penstock.cluster.controller.lost_log import mend_log
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.loading import load_image
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, CompareAndSet, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from tests.unit.cluster.brokers import TestBroker, agreed, until
from tests.unit.cluster.harness import run

HASTY_S = 0.05


async def make_topics(broker: TestBroker, *names: str) -> None:
    for name in names:
        (result,) = await broker.metadata.create_topics([NewTopic(name, 1, 1)])
        assert not result.code


async def fence_of(store: MemoryStore) -> Check:
    node = await store.read(znodes.CONTROLLER_EPOCH)
    assert node is not None
    return Check(znodes.CONTROLLER_EPOCH, node.version)


@pytest.mark.parametrize("damage", ["deleted and made again", "a child below it"])
def test_changes_go_on_and_a_broker_starts_when_somebody_was_among_the_deltas(damage: str) -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start(inspection_s=HASTY_S)
        await make_topics(broker, "a", "b")
        stranger, path = MemoryStore(tree), znodes.delta_path(2)
        if damage == "a child below it":
            await stranger.create(f"{path}/child")
        else:
            await stranger.delete(path)
            await stranger.create(path, b"nothing")
            await until(lambda: broker.metadata.image.number > 1_000)
        await until(lambda: broker.metadata.is_controller)
        await make_topics(broker, "c")
        newcomer = await TestBroker(tree, 2).start()
        assert newcomer.metadata.image.topics.keys() == {"a", "b", "c"}
        await newcomer.stop()
        await broker.stop()

    run(main())


def test_acknowledged_changes_stay_when_the_elected_broker_is_behind_and_the_position_is_unreadable() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await make_topics(broker, "old")
        behind = broker.metadata.image
        await make_topics(broker, "acknowledged")
        store = MemoryStore(tree)
        await store.transaction([CompareAndSet(znodes.LOG, b"nonsense")])
        await mend_log(store, await fence_of(store), behind, 3)
        assert (await load_image(store)).topics.keys() == {"old", "acknowledged"}
        await broker.store.close()

    run(main())


def test_nothing_is_written_when_the_elected_broker_is_behind_and_a_delta_is_missing() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await make_topics(broker, "old")
        behind = broker.metadata.image
        await make_topics(broker, "acknowledged", "later")
        store = MemoryStore(tree)
        await store.delete(znodes.delta_path(behind.number + 1))
        for is_readable in (True, False):
            if not is_readable:
                await store.transaction([CompareAndSet(znodes.LOG, b"nonsense")])
            before = tree.entries[znodes.LOG].data
            with pytest.raises(StoreError, match="which this broker has not seen") as raised:
                await mend_log(store, await fence_of(store), behind, 3)
            assert raised.value.kind is StoreErrorKind.CORRUPT
            assert tree.entries[znodes.LOG].data == before
        await broker.store.close()

    run(main())


def test_another_broker_is_elected_when_the_first_one_does_not_know_what_is_missing() -> None:
    async def main() -> None:
        tree = MemoryTree()
        first, knowing, behind = [await TestBroker(tree, node_id).start() for node_id in (1, 2, 3)]
        await agreed(first, knowing, behind)
        async with behind.metadata.publisher.turn:  # it does not follow
            await make_topics(first, "t")
            await until(lambda: "t" in knowing.metadata.image.topics)
            await MemoryStore(tree).delete(znodes.delta_path(first.metadata.image.number))
            async with knowing.metadata.publisher.turn:  # it takes no office
                await first.metadata.leave()
                await asyncio.sleep(0.05)
        await until(lambda: knowing.metadata.is_controller)
        await until(lambda: "t" in behind.metadata.image.topics)
        for broker in (knowing, behind):
            await broker.stop()

    run(main())
