"""Memory and SQLite answer every sequence of operations alike."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cluster.store.interface import Check, CompareAndSet, Create, Delete, Operation, Store, StoreError
from penstock.cluster.store.memory import MemoryStore
from penstock.cluster.store.sqlite import SqliteStore

PATHS = ["/a", "/b", "/a/a", "/a/b", "/a/b/c"]
PATH = st.sampled_from(PATHS)
VERSION = st.one_of(st.none(), st.integers(0, 2))
OPERATION = st.one_of(
    st.builds(Create, PATH, st.binary(max_size=3), st.booleans(), st.booleans()),
    st.builds(CompareAndSet, PATH, st.binary(max_size=3), VERSION),
    st.builds(Delete, PATH, VERSION),
    st.builds(Check, PATH, st.integers(0, 2)),
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(OPERATION, min_size=1, max_size=4), max_size=8))
def test_stores_agree_when_given_the_same_transactions(transactions: list[list[Operation]]) -> None:
    async def main(directory: str) -> None:
        stores: list[Store] = [
            MemoryStore(),
            await SqliteStore.open(Path(directory) / "metadata.db", durable=False),
        ]
        told: list[list[str]] = [[], []]
        for store, heard in zip(stores, told, strict=True):
            for path in ("/", *PATHS):
                store.watch(path, heard.append)
        try:
            for operations in transactions:
                first, second = [await outcome(store, operations) for store in stores]
                assert first == second
                assert await content(stores[0], "/") == await content(stores[1], "/")
            assert told[0] == told[1]
        finally:
            await stores[1].close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(directory))


async def outcome(store: Store, operations: list[Operation]) -> object:
    try:
        return list(await store.transaction(operations))
    except StoreError as error:
        return error.kind, error.path


async def content(store: Store, path: str) -> object:
    prefix = "" if path == "/" else path
    children = [await content(store, f"{prefix}/{name}") for name in await store.children(path)]
    node = await store.read(path)
    # Each store has a session of its own, so the owners have different names.
    return path, node and (node.data, node.version, node.owner == store.session_id), children
