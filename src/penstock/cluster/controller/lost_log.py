"""Restores the position of the metadata log, where another program has deleted or overwritten its node.

Rules:
- The newest delta has the position of the log. Whether the nodes of its change were written is not known any more, so
  they count as unwritten, and the controller compares.
- Where no delta is left, a broker that ran through the loss knows a number that the log had reached. As the controller
  it begins the log again beyond every number that others may know. So every broker, itself too, loads all nodes. It
  does so only where the nodes hold every topic that it remembers: a loading broker deletes the logs of missing topics.
- Where deltas are missing behind the newest delta, the log begins later: the oldest deltas are deleted by their
  numbers.
- From `SNAPSHOT_LEVEL` on only the log and its snapshot count, and the rules above are for levels before. Whatever is
  missing, the controller writes a snapshot of the newest image that it remembers or finds, and names the snapshot. It
  does so only where nothing in the store is newer than that. Otherwise another broker may know more, and has to be
  elected.
- There is no other source. A starting broker finds the position by the deltas, and from `SNAPSHOT_LEVEL` on by a
  snapshot that is marked as whole and has every delta behind it. Otherwise its error names the missing nodes, and the
  remedy.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.controller.log_inspection import is_complete
from penstock.cluster.controller.node_repair import MARGIN, derived_operations
from penstock.cluster.controller.removal import remove_nodes
from penstock.cluster.controller.snapshots import delta_numbers, presence, remove_snapshot, write_parts
from penstock.cluster.deltas.encoding import decode_delta, delta_level
from penstock.cluster.deltas.position import LogPosition, SnapshotMark, decode_mark, decode_position, encode_position
from penstock.cluster.image import MetadataImage
from penstock.cluster.image_loader import load, load_at, read_deltas, replayed
from penstock.cluster.levels import FIRST_LEVEL, SNAPSHOT_LEVEL
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Node,
    Operation,
    Store,
    StoreError,
    StoreErrorKind,
)
from penstock.cluster.store.transactions import write_operation
from penstock.cluster.store.tree_walk import names_below

logger = logging.getLogger(__name__)

_ADVICE = "stop the brokers and bring a snapshot back with `penstock cluster restore`"


async def mend_log(store: Store, fence: Check, image: MetadataImage, highest_level: int) -> None:
    """For the controller, before it reads the log. `image` is this broker's last image. Raises StoreError."""
    if not image.number:
        return
    node = await store.read(znodes.LOG)
    numbers = await delta_numbers(store)
    position = decode_position(node.data, highest_level) if node is not None and _is_readable(node) else None
    if image.metadata_level >= SNAPSHOT_LEVEL or (position is not None and position.snapshot is not None):
        await _mend_with_snapshot(store, fence, image, _Left(node, position, numbers), highest_level)
        return
    if position is not None and position.number >= image.number:
        mended = position._replace(first=max(position.first, _first_of_run(numbers, position.number)))
    else:
        mended = await _newest_position(store, numbers, highest_level) or LogPosition()
    if position is None and mended.number < image.number:
        await _begin_anew(store, fence, image, node, highest_level)
    if node is None or mended == position or mended.number < image.number:
        return  # a log that can be read and is behind: the store has lost changes, see `ClusterMember`
    logger.warning("%s is written again: it was overwritten, or deltas are missing", znodes.LOG)
    data = encode_position(mended, image.metadata_level)
    await store.transaction([fence, CompareAndSet(znodes.LOG, data, node.version)])


async def check_log(store: Store, highest_level: int) -> None:
    """For a starting broker, before it creates or loads anything. Raises StoreError, CORRUPT where the log is lost."""
    node, brokers = await store.read_many([znodes.LOG, znodes.BROKERS])
    if node is not None and _is_readable(node):
        return
    marks = await _marks(store)
    if not marks and (brokers is None or not brokers.data):
        return  # a new cluster, or a cluster from before there was a log
    numbers = await delta_numbers(store)
    if await _newest_level(store, numbers) >= SNAPSHOT_LEVEL:
        position = await _position_by_snapshot(store, marks, numbers, highest_level)
    else:
        position = await _newest_position(store, numbers, highest_level)
    await store.sync(znodes.LOG)
    now = await store.read(znodes.LOG)
    if now is not None and now != node:
        return  # another broker has just created the cluster, or repaired the log
    if node is None or position is None:
        detail = f"the log of the metadata is missing, and no broker that runs knows where it stood: {_ADVICE}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
    logger.warning("%s was overwritten, and is written again from delta %d", znodes.LOG, position.number)
    features = await store.read(znodes.FEATURES)
    level = FIRST_LEVEL if features is None else znodes.decode_features(features.data)
    if position.snapshot is not None:
        level = max(level, SNAPSHOT_LEVEL)
    await store.transaction([CompareAndSet(znodes.LOG, encode_position(position, level), node.version)])


async def _begin_anew(store: Store, fence: Check, image: MetadataImage, node: Node | None, highest_level: int) -> None:
    number = image.number + MARGIN
    logger.error("%s is lost, and the log is begun anew at %d", znodes.LOG, number)
    head: list[Operation] = [fence, *await derived_operations(store, image)]
    await store.transaction([*head, write_operation(znodes.LOG, node, b"")])
    found, stored = await load(store, highest_level)
    lost = sorted(topic.name for topic in image.topics.values() if topic.topic_id not in found.topics_by_id)
    if lost:
        detail = f"the log of the metadata is missing, and topic {lost[0]} as well: {_ADVICE}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
    position = LogPosition(number, number + 1, image.controller_id, image.controller_epoch)
    data = encode_position(position, image.metadata_level)
    await store.transaction([fence, CompareAndSet(znodes.LOG, data, stored.version)])


class _Left(NamedTuple):
    """The remains of a damaged log."""

    node: Node | None  # of the position
    position: LogPosition | None  # None where the position is unreadable
    numbers: Collection[int]  # of deltas


async def _mend_with_snapshot(
    store: Store, fence: Check, image: MetadataImage, left: _Left, highest_level: int
) -> None:
    position = left.position
    if position is not None and position.number < image.number:
        if any(number not in left.numbers for number in range(position.number + 1, image.number + 1)):
            return  # the store has lost changes: see `ClusterMember`
        left, position = left._replace(position=None), None  # all deltas are there, and the position was set back
    if position is None or not await is_complete(store, position, left.numbers):
        await _go_on(store, fence, image, left, highest_level)
        return
    # No change of ours leaves a delta beyond the position: it moves the position in the same transaction.
    beyond = sorted(number for number in left.numbers if number > position.number)
    if beyond:
        logger.warning("%s is not of a controller's making, and removed", znodes.delta_path(beyond[0]))
        await remove_nodes(store, fence, [znodes.delta_path(number) for number in beyond])


async def _go_on(store: Store, fence: Check, image: MetadataImage, left: _Left, highest_level: int) -> None:
    """Continues from a snapshot of the newest image that this broker or the store has, beyond every number that others
    may know. Where the store has traces of a newer image another broker has to continue.
    """
    marks = await _marks(store)
    known = await _replayed_from(store, image, left.numbers, highest_level)
    if known is None or known.number < max(left.numbers, default=0):
        found = await _position_by_snapshot(store, marks, left.numbers, highest_level)
        known = known if found is None else await load_at(store, found, highest_level)
    picture = await store.read(znodes.PICTURE)
    newest = max(
        *left.numbers,
        *(mark.number for mark in marks),
        0 if picture is None else znodes.decode_picture(picture.data),
        0 if left.position is None else left.position.number,
        0,
    )
    if known is None or known.metadata_level < SNAPSHOT_LEVEL or known.number < newest:
        detail = f"the log went to {newest}, which this broker has not seen, and nodes of it are missing: {_ADVICE}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
    await _write_anew(store, fence, replace(known, number=known.number + MARGIN), left)


async def _replayed_from(
    store: Store, image: MetadataImage, numbers: Collection[int], highest_level: int
) -> MetadataImage | None:
    """The image with the deltas that follow on it; None where a delta is unreadable."""
    newest = image.number
    while newest + 1 in numbers:
        newest += 1
    try:
        deltas = await read_deltas(store, image.number, newest, highest_level)
        return None if deltas is None else await asyncio.to_thread(replayed, image, deltas)
    except StoreError as error:
        if error.kind is not StoreErrorKind.CORRUPT:
            raise
        return None


async def _write_anew(store: Store, fence: Check, known: MetadataImage, left: _Left) -> None:
    logger.error("%s is lost in part, and goes on at %d from what is known", znodes.LOG, known.number)
    if await store.read(znodes.snapshot_path(known.number)) is not None:
        await remove_snapshot(store, fence, znodes.snapshot_path(known.number))
    mark = await write_parts(store, fence, known)
    mended = LogPosition(known.number, known.number + 1, known.controller_id, known.controller_epoch, snapshot=mark)
    data = encode_position(mended, known.metadata_level)
    await store.transaction([fence, presence(mark), write_operation(znodes.LOG, left.node, data)])
    await remove_nodes(store, fence, [znodes.delta_path(number) for number in sorted(left.numbers)])


async def _marks(store: Store) -> list[SnapshotMark]:
    """The marks of the whole snapshots, the newest first."""
    names = await names_below(store, znodes.SNAPSHOTS)
    nodes = await store.read_many([f"{znodes.SNAPSHOTS}/{name}" for name in names])
    marks = [decode_mark(node.data) for node in nodes if node is not None]
    return sorted((mark for mark in marks if mark is not None), reverse=True)


async def _position_by_snapshot(
    store: Store, marks: Sequence[SnapshotMark], numbers: Collection[int], highest_level: int
) -> LogPosition | None:
    """The position by the newest snapshot that is whole and has every delta behind it; None where there is none."""
    newest = await _newest_position(store, numbers, highest_level)
    if newest is None:
        return None  # the number of parts is unknown
    for mark in marks:
        position = newest._replace(is_unwritten=False, first=min(newest.first, mark.number + 1), snapshot=mark)
        if mark.number < newest.number and await is_complete(store, position, numbers):
            return position
    return None


async def _newest_level(store: Store, numbers: Collection[int]) -> int:
    """The level of the newest delta. An abandoned rise to `SNAPSHOT_LEVEL` leaves a snapshot, and no delta with that
    level.
    """
    node = await store.read(znodes.delta_path(max(numbers))) if numbers else None
    return FIRST_LEVEL if node is None else delta_level(node.data)


def _first_of_run(numbers: Collection[int], newest: int) -> int:
    """The oldest delta that has all later deltas; the number after the newest where there is none."""
    first = newest + 1
    while first - 1 in numbers:
        first -= 1
    return first


async def _newest_position(store: Store, numbers: Collection[int], highest_level: int) -> LogPosition | None:
    """The position by the newest delta; None where there is none."""
    newest = max(numbers, default=0)
    path = znodes.delta_path(newest)
    node = await store.read(path) if numbers else None
    if node is None:
        return None
    delta = decode_delta(path, node.data, highest_level)
    first = _first_of_run(numbers, newest)
    return LogPosition(newest, first, delta.controller_id, delta.controller_epoch, is_unwritten=True)


def _is_readable(node: Node) -> bool:
    """Empty is the position of a new cluster, and of no other; from `SNAPSHOT_LEVEL` on the position of a new cluster
    names a snapshot. A format that is too new is not damage: the read of the position reports it.
    """
    try:
        position = decode_position(node.data, _EVERY_LEVEL)
        return bool(node.data) and (position.number > 0 or position.snapshot is not None)
    except StoreError:
        return False


_EVERY_LEVEL = 2**31
