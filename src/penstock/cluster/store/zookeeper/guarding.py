"""Access lists for nodes that are there already: those that new ones get by `zookeeper.set.acl`.

Kafka has `zookeeper-security-migration` for this. Brokers may run: what they make meanwhile has its list by itself.
"""

from __future__ import annotations

from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import StoreError, StoreErrorKind
from penstock.cluster.store.walking import walk
from penstock.cluster.store.zookeeper.store import ZooKeeperStore

_PATHS = (
    *znodes.PERSISTENT_PATHS,
    *security_nodes.ROOTS,
    znodes.CONTROLLER,
    znodes.CONTROLLER_EPOCH,
    znodes.FEATURES,
    znodes.PRODUCER_ID_BLOCK,
)
# The highest nodes that brokers make. Where there is no chroot, others may have nodes beside them, and the node above
# them is the ensemble's.
_ROOTS = tuple(dict.fromkeys(f"/{path.split('/')[1]}" for path in _PATHS))


async def give_access_lists(store: ZooKeeperStore) -> int:
    """How many nodes got one. Raises StoreError."""
    paths = list(await walk(store, *_ROOTS))
    # Children first: whoever is stopped on the way finds the parents as they were, and begins again.
    ordered = [*reversed(paths), *(["/"] if store.paths.root else [])]
    return sum([await _give(store, path) for path in ordered])


async def _give(store: ZooKeeperStore, path: str) -> bool:
    """The list that the node would get if it were made now. False where it is gone."""
    connection, whole = store.connection, store.paths.whole(path)
    with connection.call(path):
        try:
            await connection.ask(path, lambda client: client.set_access(whole, path), is_change=True, is_contact=True)
        except StoreError as error:
            if error.kind is StoreErrorKind.NO_NODE:
                return False
            raise
    return True
