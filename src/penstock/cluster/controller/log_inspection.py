"""Whether the log and the snapshot that its position names are as controllers have written them.

Rules:
- Nobody writes a delta or a part of a snapshot a second time. One that is missing, or that was changed since it was
  made, is somebody else's doing.
- An election looks at the names alone. The controller in office looks at the nodes, since a broker that starts could
  not read the log. What was changed it removes. So everybody finds it missing, and `lost_log` knows what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from penstock.cluster.deltas.position import LogPosition
from penstock.cluster.loading import read_position
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import FIRST_VERSION, Check, Delete, Store
from penstock.cluster.store.walking import names_below

logger = logging.getLogger(__name__)

# Of the nodes that are read at once. A delta can have a megabyte, though few have more than a kilobyte.
_READ_AT_ONCE = 100


async def is_complete(store: Store, position: LogPosition, numbers: Collection[int]) -> bool:
    """By names: `numbers` are those of the deltas in the store. False also where there is no snapshot."""
    mark = position.snapshot
    if mark is None or any(number not in numbers for number in range(mark.number + 1, position.number + 1)):
        return False
    path = znodes.snapshot_path(mark.number)
    names = {f"{path}/{name}" for name in await names_below(store, path)}
    return names.issuperset(_part_paths(position))


async def is_damaged(store: Store, fence: Check, position: LogPosition, highest_level: int) -> bool:
    """For the controller, with a position that it wrote. Raises StoreError."""
    mark = position.snapshot
    if mark is None:
        return False
    paths = [*_part_paths(position), *map(znodes.delta_path, range(mark.number + 1, position.number + 1))]
    wrong: list[str] = []
    for start in range(0, len(paths), _READ_AT_ONCE):
        part = paths[start : start + _READ_AT_ONCE]
        nodes = await store.read_many(part)
        changed = [path for path, node in zip(part, nodes, strict=True) if node and node.version != FIRST_VERSION]
        for path in changed:
            await store.transaction([fence, Delete(path)])
        wrong += changed
        wrong += [path for path, node in zip(part, nodes, strict=True) if node is None]
    # Where the position names another snapshot by now, what was read may have gone with the one before.
    if not wrong or (await read_position(store, highest_level)).position.snapshot != mark:
        return False
    logger.error("somebody has deleted or overwritten %s, and %d nodes of the log in all", wrong[0], len(wrong))
    return True


def _part_paths(position: LogPosition) -> Sequence[str]:
    mark = position.snapshot
    return [] if mark is None else [znodes.snapshot_part_path(mark.number, part) for part in range(mark.part_count)]
