"""The stores that the contract's tests run against."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.cluster.store.interface import Create, Store, StoreError, StoreErrorKind, TransactionLimit
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.cluster.store.sqlite import SqliteStore
from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
from penstock.cluster.store.zookeeper.store import ZooKeeperStore
from penstock.core.limits import MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS

# So many that others get their turns before all of it is done.
MANY = [Create("/a"), *(Create(f"/a/{number}") for number in range(1_000))]

LIMIT = TransactionLimit(MAX_STORE_TRANSACTION_BYTES, MAX_STORE_TRANSACTION_OPERATIONS)

# Opens a session on the same store each time it is called.
Opener = Callable[[], Awaitable[Store]]


def local_opener(kind: str, tmp_path: Path) -> Opener:
    tree = MemoryTree()

    async def open_memory() -> Store:
        return MemoryStore(tree, transaction_limit=LIMIT)

    async def open_sqlite() -> Store:
        return await SqliteStore.open(tmp_path / "metadata.db")

    return {"memory": open_memory, "sqlite": open_sqlite}[kind]


def zookeeper_opener(settings: ZooKeeperSettings) -> Opener:
    async def open_zookeeper() -> Store:
        return await ZooKeeperStore.open(settings)

    return open_zookeeper


def with_store(opener: Opener, test: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await opener()
        try:
            await test(store)
        finally:
            await store.close()

    asyncio.run(main())


async def refused(kind: StoreErrorKind, call: Awaitable[object]) -> str:
    with pytest.raises(StoreError) as error:
        await call
    assert error.value.kind is kind
    return error.value.path
