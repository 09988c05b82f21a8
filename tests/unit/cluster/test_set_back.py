"""A store that comes back with an older state: who has seen more says so, and nobody deletes what it does not know."""

from __future__ import annotations

import pytest

from penstock.cluster.controller.catching_up import catch_up
from penstock.cluster.decisions.decision import NewTopic
from penstock.cluster.deltas.position import decode_position, encode_position
from penstock.cluster.metadata import Disks
from penstock.cluster.snapshots.restoration import read_restoration
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import StoreError
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.memory_tree import MemoryTree
from tests.unit.cluster.brokers import TestBroker, agreed
from tests.unit.cluster.harness import run


def test_the_store_is_marked_when_a_broker_starts_that_has_seen_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        tree = MemoryTree()
        running = await TestBroker(tree, 1).start()
        seen = running.metadata.image.number + 1
        first = await TestBroker(tree, 2).start(disks=Disks((), are_empty=False, metadata_number=seen))
        mark = await read_restoration(MemoryStore(tree))
        assert mark is not None
        assert first.metadata.restoration_id == mark.restoration_id
        assert f"this broker has seen {seen}: the store was set back" in caplog.text
        await running.stop()
        # Whoever comes next finds the mark, and has nothing to say.
        next_one = await TestBroker(tree, 1).start(disks=Disks((), are_empty=False, metadata_number=0))
        assert next_one.metadata.restoration_id == mark.restoration_id
        await agreed(first, next_one)
        await first.stop()
        await next_one.stop()

    run(main())


def test_nothing_is_marked_when_a_broker_has_seen_as_much_as_the_store() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        number = broker.metadata.image.number
        other = await TestBroker(tree, 2).start(disks=Disks((), are_empty=False, metadata_number=number))
        assert await read_restoration(MemoryStore(tree)) is None
        await other.stop()
        await broker.stop()

    run(main())


def test_a_broker_follows_no_other_log_when_it_ran_while_the_store_was_set_back() -> None:
    async def main() -> None:
        tree = MemoryTree()
        broker = await TestBroker(tree, 1).start()
        await broker.metadata.create_topics([NewTopic("t", 1, 1)])
        newest = broker.metadata.image.number
        stranger = MemoryStore(tree)
        position = decode_position(tree.entries[znodes.LOG].data)

        def at(number: int) -> bytes:
            return encode_position(position._replace(number=number), 3)

        async with broker.metadata.publisher.turn:  # it looks at nothing meanwhile
            await stranger.delete(znodes.delta_path(newest))
            await broker.store.compare_and_set(
                znodes.LOG, encode_position(position._replace(number=newest - 1), 3), None
            )
            with pytest.raises(StoreError, match="the store has lost changes"):
                await catch_up(stranger, broker.metadata.publisher, 3)
            # Another broker has written meanwhile.
            await broker.store.compare_and_set(
                znodes.LOG, encode_position(position._replace(number=newest + 1), 3), None
            )
            with pytest.raises(StoreError, match="restart the brokers"):
                await catch_up(stranger, broker.metadata.publisher, 3)
        await broker.store.close()

    run(main())
