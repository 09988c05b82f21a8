"""What is known of a store in memory: lag, who waits, when it is too old to go on."""

from __future__ import annotations

import asyncio

import pytest

from penstock.streams.stores.followed_store import Followed, store_of, topic_of
from penstock.streams.stores.storage import Applied, ChangelogBatch, Saved


def followed(position: dict[int, int], restoring: list[int] | None = None) -> Followed:
    return Followed.of(Saved(1, "counts", b"", position, restoring or [], 0, 0, 0), "shop-counts-changelog")


def change(partition: int, offset: int, is_at_end: bool = True) -> list[ChangelogBatch]:
    return [ChangelogBatch(partition, (), offset, is_at_end)]


def test_a_topic_names_its_store_when_it_is_a_changelog_of_the_application() -> None:
    assert store_of("shop", topic_of("shop", "per-day")) == "per-day"
    for topic in ("shop-x-repartition", "shops-x-changelog", "shop--changelog", "shop-changelog", "x"):
        assert store_of("shop", topic) is None


def test_the_lag_is_unknown_when_a_partition_has_not_been_heard_of() -> None:
    store = followed({0: 5, 1: 5})
    store.note_end(0, 9, 0)
    assert store.lag is None
    store.note_end(1, 5, 0)
    assert store.lag == 4


def test_whoever_waits_goes_on_when_the_store_is_there() -> None:
    async def run() -> None:
        store = followed({0: 0}, restoring=[0])
        waiting = asyncio.create_task(store.wait_for({0: 3}))
        await asyncio.sleep(0)
        for offset, is_at_end in ((2, True), (3, True)):
            assert not waiting.done()
            store.applied(change(0, offset, is_at_end), Applied(0, 0))
            await asyncio.sleep(0)
        assert waiting.done()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await store.wait_for({7: 1})

    asyncio.run(run())


def test_a_store_is_complete_as_of_an_end_when_it_has_come_there_however_much_is_written_since() -> None:
    store = followed({0: 0})
    store.note_end(0, 10, 1_000)
    store.applied(change(0, 5, False), Applied(0, 0))
    store.note_end(0, 20, 2_000)
    assert store.at_end_ms == 0
    store.applied(change(0, 12, False), Applied(0, 0))
    assert store.at_end_ms == 1_000


def test_a_store_is_outdated_when_deletions_since_may_be_gone() -> None:
    store = followed({0: 5})
    assert not store.is_outdated(86_400_000)
    assert store.is_outdated(86_400_001)
    store.retention_ms = 0  # compaction itself takes its time
    assert not store.is_outdated(60_000)
    assert store.is_outdated(60_001)
