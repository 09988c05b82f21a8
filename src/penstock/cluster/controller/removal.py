"""Removes nodes of the log, also where another program has changed them."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cluster.store.interface import Check, Delete, Operation, Store, StoreError, StoreErrorKind
from penstock.cluster.store.transactions import in_transactions
from penstock.cluster.store.tree_walk import walk

_OF_STRANGERS = (StoreErrorKind.NO_NODE, StoreErrorKind.NOT_EMPTY)


async def remove_nodes(store: Store, fence: Check, paths: Sequence[str]) -> None:
    """Removes in this order. A missing node, or a node with foreign nodes below, does not stop the others. Raises
    StoreError, with the fence's path where another controller was elected.
    """
    try:
        await _delete(store, fence, paths)
    except StoreError as error:
        if error.kind not in _OF_STRANGERS or error.path == fence.path:
            raise
        found = await walk(store, *paths)
        order = {path: number for number, path in enumerate(paths)}
        await _delete(store, fence, sorted(found, key=lambda path: (-path.count("/"), order.get(path, 0), path)))


async def _delete(store: Store, fence: Check, paths: Sequence[str]) -> None:
    operations: list[Operation] = [Delete(path) for path in paths]
    for part in in_transactions(operations, store.transaction_limit, fence):
        await store.transaction(part)
