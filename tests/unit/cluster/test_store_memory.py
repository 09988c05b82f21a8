from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.cluster.store.interface import Check, Create, StoreError
from penstock.cluster.store.memory import MemoryStore, MemoryTree

MANY = [Create("/a"), *(Create(f"/a/{number}") for number in range(2_000))]


async def others_turns(work: asyncio.Future[Any]) -> int:
    turns = 0
    while not work.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_others_get_their_turns_and_see_all_or_nothing_when_a_transaction_is_large() -> None:
    async def run() -> None:
        tree = MemoryTree()
        store, reader = MemoryStore(tree), MemoryStore(tree)
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        reading = asyncio.ensure_future(reader.children("/a"))
        assert await others_turns(writing) >= 5
        assert len(await reading) == 2_000

    asyncio.run(run())


def test_nothing_is_left_when_a_large_transaction_fails_or_is_cancelled() -> None:
    async def run() -> None:
        store = MemoryStore()
        with pytest.raises(StoreError):
            await store.transaction([*MANY, Check("/nothing", 0)])
        assert await store.children("/") == []
        writing = asyncio.ensure_future(store.transaction(MANY))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert await store.children("/") == []
        await store.transaction(MANY)

    asyncio.run(run())
