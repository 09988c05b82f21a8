"""The position of the metadata log, where somebody has deleted or overwritten its node.

Rules:
- The newest delta tells where the log stands. Whether the nodes of its change were written is not known any more, so
  they count as unwritten, and the controller compares.
- Where no delta is left, a broker that has run through the loss knows the number that the log had at least. As the
  controller it begins the log anew beyond every number that others may know. So every broker, itself too, loads all
  nodes. It does so only where the nodes hold every topic that it remembers: a broker that loads deletes the logs of
  topics that are not there.
- Where deltas are missing behind the newest one, the log begins later: the oldest deltas are deleted by their numbers.
- From `SNAPSHOT_LEVEL` on the log and its snapshot are all that counts. Whatever is missing of them, the controller
  writes a snapshot of what it remembers, replays into it the deltas that are left behind that, and names it.
- Nobody else can tell. A broker that starts finds the position by the deltas, and from `SNAPSHOT_LEVEL` on by a
  snapshot that is marked as whole and has every delta behind it. Otherwise it says what is missing, and what to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.cluster.controller.log_inspection import is_complete
from penstock.cluster.controller.mending import MARGIN, derived_operations, write_operation
from penstock.cluster.controller.snapshots import presence, remove_snapshot, write_parts
from penstock.cluster.deltas.encoding import decode_delta
from penstock.cluster.deltas.position import LogPosition, decode_mark, decode_position, encode_position
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import FIRST_LEVEL, SNAPSHOT_LEVEL
from penstock.cluster.loading import load, read_deltas, replayed
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Delete,
    Node,
    Operation,
    Store,
    StoreError,
    StoreErrorKind,
)
from penstock.cluster.store.transactions import in_transactions
from penstock.cluster.store.walking import names_below

logger = logging.getLogger(__name__)

_ADVICE = "stop the brokers and bring a snapshot back with `penstock cluster restore`"


async def mend_log(store: Store, fence: Check, image: MetadataImage, highest_level: int) -> None:
    """For the controller, before it reads the log. `image` is what this broker remembers. Raises StoreError."""
    if not image.number:
        return
    node = await store.read(znodes.LOG)
    numbers = set() if node is None else await _delta_numbers(store)
    position = decode_position(node.data, highest_level) if node is not None and _is_readable(node) else None
    if image.metadata_level >= SNAPSHOT_LEVEL:
        if position is None or (position.number >= image.number and not await is_complete(store, position, numbers)):
            await _remember(store, fence, image, node, position, numbers, highest_level)
        return
    if position is not None and position.number >= image.number:
        mended = position._replace(first=max(position.first, _first_of_run(numbers, position.number)))
    else:
        mended = await _newest_position(store, numbers, highest_level) or LogPosition()
    if position is None and mended.number < image.number:
        await _begin_anew(store, fence, image, node, highest_level)
    if node is None or mended == position or mended.number < image.number:
        return  # a log that can be read and is behind tells of a store that has lost changes: see `Member`
    logger.warning("%s is written again: it was overwritten, or deltas are missing", znodes.LOG)
    data = encode_position(mended, image.metadata_level)
    await store.transaction([fence, CompareAndSet(znodes.LOG, data, node.version)])


async def check_log(store: Store, highest_level: int) -> None:
    """For a broker that starts, before it makes or loads anything. Raises StoreError, CORRUPT where the log is lost."""
    node, brokers = await store.read_many([znodes.LOG, znodes.BROKERS])
    if node is not None and _is_readable(node):
        return
    snapshots = await names_below(store, znodes.SNAPSHOTS)
    if not snapshots and (brokers is None or not brokers.data):
        return  # a new cluster, or one from before there was a log
    numbers = set() if node is None else await _delta_numbers(store)
    if snapshots:
        position = await _position_by_snapshot(store, snapshots, numbers, highest_level)
    else:
        position = await _newest_position(store, numbers, highest_level)
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


async def _remember(
    store: Store,
    fence: Check,
    image: MetadataImage,
    node: Node | None,
    position: LogPosition | None,
    numbers: Collection[int],
    highest_level: int,
) -> None:
    """The log goes on from a snapshot of what this broker remembers, beyond every number that others may know."""
    newest = image.number
    while newest + 1 in numbers:
        newest += 1
    deltas = await read_deltas(store, image.number, newest, highest_level)
    if deltas is None or (position is not None and newest < position.number):
        detail = f"deltas behind {newest} are missing, which this broker has not seen: {_ADVICE}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
    known = await asyncio.to_thread(replayed, image, deltas)
    known = replace(known, number=known.number + MARGIN)
    logger.error("%s is lost in part, and goes on at %d from what this broker remembers", znodes.LOG, known.number)
    if await store.read(znodes.snapshot_path(known.number)) is not None:
        await remove_snapshot(store, fence, znodes.snapshot_path(known.number))
    mark = await write_parts(store, fence, known)
    mended = LogPosition(known.number, known.number + 1, known.controller_id, known.controller_epoch, snapshot=mark)
    data = encode_position(mended, known.metadata_level)
    await store.transaction([fence, presence(mark), write_operation(znodes.LOG, node, data)])
    stale: list[Operation] = [Delete(znodes.delta_path(number)) for number in sorted(numbers)]
    for part in in_transactions(stale, store.transaction_limit, fence):
        await store.transaction(part)


async def _position_by_snapshot(
    store: Store, names: Sequence[str], numbers: Collection[int], highest_level: int
) -> LogPosition | None:
    """That of the newest snapshot which is whole and has every delta behind it; None where there is none."""
    if not numbers:
        return None  # nobody can tell how many there were
    newest = max(numbers)
    nodes = await store.read_many([f"{znodes.SNAPSHOTS}/{name}" for name in names])
    marks = [decode_mark(node.data) for node in nodes if node is not None]
    for mark in sorted((mark for mark in marks if mark is not None), reverse=True):
        position = LogPosition(newest, _first_of_run(numbers, newest), snapshot=mark)
        if mark.number <= newest and await is_complete(store, position, numbers):
            deltas = await read_deltas(store, newest - 1, newest, highest_level)
            if deltas:
                (delta,) = deltas
                return position._replace(
                    first=min(position.first, mark.number + 1),
                    controller_id=delta.controller_id,
                    controller_epoch=delta.controller_epoch,
                )
    return None


async def _delta_numbers(store: Store) -> set[int]:
    return {int(name) for name in await store.children(znodes.LOG) if name.isdecimal()}


def _first_of_run(numbers: Collection[int], newest: int) -> int:
    """The oldest delta that has all later ones; the number after the newest where there is none."""
    first = newest + 1
    while first - 1 in numbers:
        first -= 1
    return first


async def _newest_position(store: Store, numbers: Collection[int], highest_level: int) -> LogPosition | None:
    """What the newest delta says; None where there is none."""
    newest = max(numbers, default=0)
    path = znodes.delta_path(newest)
    node = await store.read(path) if numbers else None
    if node is None:
        return None
    delta = decode_delta(path, node.data, highest_level)
    first = _first_of_run(numbers, newest)
    return LogPosition(newest, first, delta.controller_id, delta.controller_epoch, is_unwritten=True)


def _is_readable(node: Node) -> bool:
    """Empty is the position of a new cluster, and of no other; from `SNAPSHOT_LEVEL` on that one names a snapshot. A
    format that is too new is not damage: it is told when the position is read.
    """
    try:
        position = decode_position(node.data, _EVERY_LEVEL)
        return bool(node.data) and (position.number > 0 or position.snapshot is not None)
    except StoreError:
        return False


_EVERY_LEVEL = 2**31
