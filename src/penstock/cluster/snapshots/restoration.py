"""The mark of a restore in the store: the restore's id, and its progress.

A broker notes the mark's id when it loads. A broker that ran through the loss of the ensemble finds another id when it
registers again, and refuses to: its image and its partitions' epochs are from before the restore. The mark stays, so
that a broker that comes later, for the first time since the restore, sets unknown logs aside instead of deleting them.

A store that was set back, because somebody brought old files of ZooKeeper, is an unannounced restore. The first broker
that starts with it and has seen more makes the mark.
"""

from __future__ import annotations

import enum
import json
from typing import NamedTuple

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Node, Store, StoreError, StoreErrorKind
from penstock.cluster.store.transactions import write_operation


class RestorationState(enum.Enum):
    WRITING = "writing"  # nodes are missing: no broker may use them
    WAITING = "waiting"  # for brokers, to find the leaders
    FINISHED = "finished"


class Restoration(NamedTuple):
    restoration_id: str
    state: RestorationState
    checksum: str  # of the snapshot


def encode_restoration(restoration: Restoration) -> bytes:
    value = {
        "version": 1,
        "id": restoration.restoration_id,
        "state": restoration.state.value,
        "checksum": restoration.checksum,
    }
    return json.dumps(value, separators=(",", ":")).encode()


def decode_restoration(node: Node | None) -> Restoration | None:
    if node is None:
        return None
    try:
        value = json.loads(node.data)
        return Restoration(str(value["id"]), RestorationState(value["state"]), str(value["checksum"]))
    except (ValueError, KeyError, TypeError) as error:
        detail = f"the node cannot be understood: {error!r}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.RESTORATION, detail) from error


async def read_restoration(store: Store) -> Restoration | None:
    return decode_restoration(await store.read(znodes.RESTORATION))


async def mark_set_back(store: Store, restoration_id: str) -> str:
    """The id of the mark, which is another broker's where that broker was first."""
    node = await store.read(znodes.RESTORATION)
    data = encode_restoration(Restoration(restoration_id, RestorationState.FINISHED, ""))
    try:
        await store.transaction([write_operation(znodes.RESTORATION, node, data)])
    except StoreError as error:
        if error.kind not in (StoreErrorKind.NODE_EXISTS, StoreErrorKind.BAD_VERSION):
            raise
        await store.sync(znodes.RESTORATION)
    return await check_usable(store)


async def check_usable(store: Store) -> str:
    """The id of the restore that made this store, or nothing. Raises StoreError during the writes of a restore."""
    restoration = await read_restoration(store)
    if restoration is not None and restoration.state is RestorationState.WRITING:
        detail = "`penstock cluster restore` is under way or was interrupted: let it finish, or run it again"
        raise StoreError(StoreErrorKind.UNAVAILABLE, znodes.RESTORATION, detail)
    return "" if restoration is None else restoration.restoration_id


def check_same(node: Node | None, restoration_id: str) -> None:
    """For a registering broker. Raises StoreError where the cluster was restored since the broker has loaded."""
    restoration = decode_restoration(node)
    if ("" if restoration is None else restoration.restoration_id) != restoration_id:
        detail = "the cluster was restored, or its store was set back, while this broker ran: restart the broker"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.RESTORATION, detail)
