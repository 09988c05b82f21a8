"""Reads parts of the store's tree as a whole, some nodes at a time: a tree may have hundreds of thousands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from penstock.cluster.store.interface import Node, Store, StoreError, StoreErrorKind

# The number of nodes to read, and of requests for children in flight: some 2 ms of the loop.
AT_ONCE = 500

Read = Callable[[Sequence[str]], Awaitable[Mapping[str, Node]]]
Names = Callable[[str], Awaitable[Sequence[str]]]


async def walk(
    store: Store,
    *roots: str,
    skipped: frozenset[str] = frozenset(),
    has_children: Callable[[str], bool] = lambda _: True,
) -> Mapping[str, Node]:
    """All nodes from the roots down, parents first. Nodes that are created or deleted meanwhile may be in it or not."""
    found: dict[str, Node] = {}
    parts = walk_parts(partial(read_present, store), partial(names_below, store), roots, skipped, has_children)
    async for part in parts:
        found.update(part)
    return found


async def walk_parts(
    read: Read, names: Names, roots: Iterable[str], skipped: frozenset[str], has_children: Callable[[str], bool]
) -> AsyncIterator[Mapping[str, Node]]:
    """As `walk` does, in parts that the caller need not keep."""
    level = iter(roots)
    while True:
        below: list[tuple[str, Sequence[str]]] = []
        while paths := list(islice(level, AT_ONCE)):
            present = await read(paths)
            yield present
            parents = [path for path, node in present.items() if node.owner is None and has_children(path)]
            below += zip(parents, await asyncio.gather(*map(names, parents)), strict=True)
        if not below:
            return
        level = _paths(below, skipped)


def _paths(below: Iterable[tuple[str, Sequence[str]]], skipped: frozenset[str]) -> Iterator[str]:
    for parent, names in below:
        for name in names:
            path = f"{parent.rstrip('/')}/{name}"
            if path not in skipped:
                yield path


async def read_present(store: Store, paths: Sequence[str]) -> dict[str, Node]:
    """The existing nodes."""
    nodes = await store.read_many(paths)
    return {path: node for path, node in zip(paths, nodes, strict=True) if node is not None}


async def names_below(store: Store, path: str) -> Sequence[str]:
    """The names of a node's children; none where there is no such node."""
    try:
        return await store.children(path)
    except StoreError as error:
        if error.kind is StoreErrorKind.NO_NODE:
            return ()
        raise


class AllowedReads:
    """Reads the nodes that the store lets us read, and reports the others."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # The reasons, by path.
        self.refused: dict[str, str] = {}

    async def read(self, paths: Sequence[str]) -> dict[str, Node]:
        try:
            return await read_present(self._store, paths)
        except StoreError as error:
            self._check(error)
        if len(paths) == 1:
            return {}
        present: dict[str, Node] = {}
        for path in paths:
            present |= await self.read([path])
        return present

    async def names(self, path: str) -> Sequence[str]:
        try:
            return await names_below(self._store, path)
        except StoreError as error:
            self._check(error)
            return ()

    def _check(self, error: StoreError) -> None:
        if not error.is_refusal:
            raise error
        self.refused[error.path] = str(error)
