"""Reads parts of the store's tree as a whole, in as few turns as the tree is deep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from penstock.cluster.store.interface import Node, Store, StoreError, StoreErrorKind

# Questions for children that are on their way at once.
_AT_ONCE = 200


async def walk(
    store: Store,
    *roots: str,
    skipped: frozenset[str] = frozenset(),
    has_children: Callable[[str], bool] = lambda _: True,
) -> Mapping[str, Node]:
    """All nodes from the roots down, parents first. Nodes that come or go meanwhile may be there or not."""
    found: dict[str, Node] = {}
    level = list(roots)
    while level:
        nodes = await store.read_many(level)
        present = {path: node for path, node in zip(level, nodes, strict=True) if node is not None}
        found.update(present)
        parents = [path for path, node in present.items() if node.owner is None and has_children(path)]
        level = []
        for start in range(0, len(parents), _AT_ONCE):
            part = parents[start : start + _AT_ONCE]
            below = await asyncio.gather(*(names_below(store, path) for path in part))
            for path, names in zip(part, below, strict=True):
                children = (f"{path.rstrip('/')}/{name}" for name in names)
                level += [child for child in children if child not in skipped]
    return found


async def names_below(store: Store, path: str) -> Sequence[str]:
    """The names of a node's children; none where there is no such node."""
    try:
        return await store.children(path)
    except StoreError as error:
        if error.kind is StoreErrorKind.NO_NODE:
            return ()
        raise
