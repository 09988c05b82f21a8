"""Checks whether the log, and the snapshot that its position names, are as controllers have written them.

Rules:
- No controller writes a delta or a part of a snapshot a second time. A node that is missing, was changed since its
  creation, is no delta, or has another delta's number is another program's doing.
- Only the nodes that a starting broker reads count. Older deltas are kept for followers, which can do without.
- An election checks the names alone. The active controller checks the nodes, and removes changed nodes. So every broker
  finds them missing, and `lost_log` knows the remedy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence

from penstock.cluster.controller.removal import remove_nodes
from penstock.cluster.deltas.encoding import delta_number
from penstock.cluster.deltas.position import LogPosition
from penstock.cluster.image_loader import read_position
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import FIRST_VERSION, Check, Node, Store
from penstock.cluster.store.tree_walk import names_below

logger = logging.getLogger(__name__)

# The number of nodes read at once. A delta can have a megabyte, though few have more than a kilobyte.
_READ_AT_ONCE = 100


async def is_complete(store: Store, position: LogPosition, numbers: Collection[int]) -> bool:
    """Compares names: `numbers` are the numbers of the deltas in the store. False also where there is no snapshot."""
    mark = position.snapshot
    if mark is None or any(number not in numbers for number in range(mark.number + 1, position.number + 1)):
        return False
    path = znodes.snapshot_path(mark.number)
    names = {f"{path}/{name}" for name in await names_below(store, path)}
    return names.issuperset(_part_paths(position))


async def is_damaged(store: Store, fence: Check, position: LogPosition, highest_level: int) -> bool:
    """For the controller, with a position that the controller wrote. Raises StoreError."""
    mark = position.snapshot
    if mark is None:
        return False
    paths = [*_part_paths(position), *map(znodes.delta_path, range(mark.number + 1, position.number + 1))]
    wrong: dict[str, Node | None] = {}
    for start in range(0, len(paths), _READ_AT_ONCE):
        part = paths[start : start + _READ_AT_ONCE]
        wrong.update(await asyncio.to_thread(_find_wrong, part, await store.read_many(part)))
    # Where the position names another snapshot by now, the snapshot that was read may have been removed.
    if not wrong or (await read_position(store, highest_level)).position.snapshot != mark:
        return False
    logger.error("somebody has deleted or overwritten %s, and %d nodes of the log in all", min(wrong), len(wrong))
    await remove_nodes(store, fence, [path for path, node in wrong.items() if node is not None])
    return True


def _find_wrong(paths: Sequence[str], nodes: Sequence[Node | None]) -> dict[str, Node | None]:
    return {
        path: node
        for path, node in zip(paths, nodes, strict=True)
        if node is None or node.version != FIRST_VERSION or not _is_own(path, delta_number(node.data))
    }


def _is_own(path: str, number: int | None) -> bool:
    """A part of a snapshot is a delta as well, and its number is not in its path."""
    return number is not None and (not path.startswith(f"{znodes.LOG}/") or path == znodes.delta_path(number))


def _part_paths(position: LogPosition) -> Sequence[str]:
    mark = position.snapshot
    return [] if mark is None else [znodes.snapshot_part_path(mark.number, part) for part in range(mark.part_count)]
