"""Access lists for existing nodes: the lists that new nodes get by `zookeeper.set.acl`.

Kafka has `zookeeper-security-migration` for this. Brokers may run: the nodes that they make meanwhile have their lists.
"""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.cluster.store.tree_walk import walk
from penstock.cluster.store.zookeeper.connection import Question
from penstock.cluster.store.zookeeper.store import ZooKeeperStore

Answer = TypeVar("Answer")

_PATHS = (
    *znodes.PERSISTENT_PATHS,
    *security_nodes.ROOTS,
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.FEATURES,
    znodes.PRODUCER_ID_BLOCK,
)
# The node where ZooKeeper keeps quotas, which everybody may fill.
_ZOOKEEPERS_OWN = ("/zookeeper", "/zookeeper/quota")
# The highest nodes that brokers make. Without a chroot other programs may have nodes beside them, and the node above
# them is the ensemble's.
_ROOTS = tuple(dict.fromkeys(f"/{path.split('/')[1]}" for path in _PATHS))


async def give_access_lists(store: ZooKeeperStore) -> int:
    """Returns the number of nodes that got a list. Raises StoreError."""
    paths = list(await walk(store, *_ROOTS))
    # Children first: after an interruption the next run finds the parents unchanged, and begins again.
    ordered = [*reversed(paths), *(["/"] if store.paths.root else [])]
    return sum([await _give(store, path) for path in ordered])


async def guard_ensemble(store: ZooKeeperStore) -> int:
    """Gives lists to all nodes of a ZooKeeper that serves this cluster alone, with its highest node: a client that may
    change a node can delete its children. Returns the number of nodes that got a list: 0 where that was done before.

    The highest node is closed to all others first, so that they add nothing behind our back. It gets its own list last:
    an interruption leaves the node without it, and the next run begins again. Raises StoreError.
    """
    if await _ask(store, "/", lambda client: client.is_guarded("/"), is_change=False):
        return 0
    await _ask(store, "/", lambda client: client.close_access("/"), is_change=True)
    count = sum([await _give_whole(store, path) for path in _ZOOKEEPERS_OWN])
    count += await give_access_lists(store)
    return count + await _give_whole(store, "/")


async def _give_whole(store: ZooKeeperStore, whole: str) -> bool:
    return await _set(store, whole, lambda client: client.set_access(whole, "/"))


async def _give(store: ZooKeeperStore, path: str) -> bool:
    """The list that the node would get if it were made now. False where it is gone."""
    whole = store.paths.whole(path)
    return await _set(store, path, lambda client: client.set_access(whole, path))


async def _set(store: ZooKeeperStore, path: str, question: Question[Any]) -> bool:
    try:
        await _ask(store, path, question, is_change=True)
    except StoreError as error:
        if error.kind is StoreErrorKind.NO_NODE:
            return False
        raise
    return True


async def _ask(store: ZooKeeperStore, path: str, question: Question[Answer], *, is_change: bool) -> Answer:
    with store.connection.call(path):
        return await store.connection.ask(path, question, is_change=is_change, is_contact=is_change)
