"""Writes snapshots of the metadata next to the log, and removes snapshots that no broker reads any more.

Rules:
- Every transaction checks the controller's epoch. So one controller alone writes a snapshot.
- A snapshot counts from the change of the metadata on whose position names it. The controller may die before: its parts
  are never read, and are removed before the next snapshot is written.
- When all parts are written the snapshot's own node gets its mark, for brokers that find no position (`lost_log`).
- The change that names a snapshot checks in its transaction that the snapshot's first part exists, and a removal begins
  with the first part. So no position ever names a removed snapshot.
- The snapshot that the position names stays until the position names another. A broker that reads it meanwhile misses a
  part, finds that the position has moved, and reads again.
"""

from __future__ import annotations

import asyncio

from penstock.cluster.controller.removal import remove_nodes
from penstock.cluster.deltas.position import DELTAS_KEPT, LogPosition, SnapshotMark, encode_mark
from penstock.cluster.deltas.snapshot import snapshot_parts
from penstock.cluster.image import MetadataImage
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import FIRST_VERSION, Check, CompareAndSet, Create, Store
from penstock.cluster.store.tree_walk import names_below

# A loading broker reads no more of the log than twice this, and a small cluster writes no snapshot because of one
# change.
_MOST_BYTES = 4_000_000


def is_due(position: LogPosition) -> bool:
    """A snapshot that is larger than the log behind it saves nothing."""
    mark = position.snapshot
    if mark is None:
        return False
    return position.number - mark.number >= DELTAS_KEPT or position.size > max(_MOST_BYTES, mark.size)


async def write_snapshot(store: Store, fence: Check, image: MetadataImage, named: SnapshotMark | None) -> SnapshotMark:
    """`named` is the snapshot that the position names. Raises StoreError, and then the snapshot is not whole."""
    await remove_snapshots(store, fence, named)
    return await write_parts(store, fence, image)


async def write_parts(store: Store, fence: Check, image: MetadataImage) -> SnapshotMark:
    """Call after the removal of an earlier attempt at the same number."""
    parent = [] if await store.read(znodes.SNAPSHOTS) is not None else [Create(znodes.SNAPSHOTS)]
    await store.transaction([fence, *parent, Create(znodes.snapshot_path(image.number))])
    parts, count, size = snapshot_parts(image), 0, 0
    while (data := await asyncio.to_thread(next, parts, None)) is not None:
        await store.transaction([fence, Create(znodes.snapshot_part_path(image.number, count), data)])
        count += 1
        size += len(data)
    mark = SnapshotMark(image.number, count, size)
    await store.transaction([fence, CompareAndSet(znodes.snapshot_path(mark.number), encode_mark(mark))])
    return mark


def presence(mark: SnapshotMark) -> Check:
    """The check that the removal of the snapshot has not begun."""
    return Check(znodes.snapshot_part_path(mark.number, 0), FIRST_VERSION)


async def remove_snapshots(store: Store, fence: Check, *kept_marks: SnapshotMark | None) -> None:
    """Removes all snapshots but these."""
    kept = {znodes.snapshot_path(mark.number) for mark in kept_marks if mark is not None}
    paths = [f"{znodes.SNAPSHOTS}/{name}" for name in await names_below(store, znodes.SNAPSHOTS)]
    for path in paths:
        if path not in kept:
            await remove_snapshot(store, fence, path)


async def remove_snapshot(store: Store, fence: Check, path: str) -> None:
    parts = sorted(f"{path}/{name}" for name in await names_below(store, path))
    await remove_nodes(store, fence, [*parts, path])


async def trim_log(store: Store, fence: Check, first: int) -> None:
    """Removes the deltas before `first`, which the position does not name any more. No change waits for that."""
    numbers = sorted(number for number in await delta_numbers(store) if number < first)
    await remove_nodes(store, fence, [znodes.delta_path(number) for number in numbers])


async def delta_numbers(store: Store) -> set[int]:
    return {int(name) for name in await names_below(store, znodes.LOG) if name.isdecimal()}
