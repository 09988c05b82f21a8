"""The position of the metadata log, where somebody has deleted or overwritten its node.

Rules:
- The newest delta tells where the log stands. Whether the nodes of its change were written is not known any more, so
  they count as unwritten, and the controller compares.
- Where no delta is left, a broker that has run through the loss knows the number that the log had at least. As the
  controller it begins the log anew beyond every number that others may know. So every broker, itself too, loads all
  nodes. It does so only where the nodes hold every topic that it remembers: a broker that loads deletes the logs of
  topics that are not there.
- Where deltas are missing behind the newest one, the log begins later: the oldest deltas are deleted by their numbers.
- Nobody else can tell. A broker that starts says what is missing, and what to do.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from penstock.cluster.controller.mending import MARGIN, derived_operations, write_operation
from penstock.cluster.deltas.encoding import decode_delta
from penstock.cluster.deltas.position import LogPosition, decode_position, encode_position
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import FIRST_LEVEL
from penstock.cluster.loading import load
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Check, CompareAndSet, Node, Operation, Store, StoreError, StoreErrorKind

logger = logging.getLogger(__name__)

_ADVICE = "stop the brokers and bring a snapshot back with `penstock cluster restore`"


async def mend_log(store: Store, fence: Check, image: MetadataImage, highest_level: int) -> None:
    """For the controller, before it reads the log. `image` is what this broker remembers. Raises StoreError."""
    if not image.number:
        return
    node = await store.read(znodes.LOG)
    numbers = set() if node is None else await _delta_numbers(store)
    position = decode_position(node.data, highest_level) if node is not None and _is_readable(node) else None
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
    if brokers is None or not brokers.data:
        return  # a new cluster, or one from before there was a log
    position = None if node is None else await _newest_position(store, await _delta_numbers(store), highest_level)
    if node is None or position is None:
        detail = f"the log of the metadata is missing, and no broker that runs knows where it stood: {_ADVICE}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.LOG, detail)
    logger.warning("%s was overwritten, and is written again from delta %d", znodes.LOG, position.number)
    features = await store.read(znodes.FEATURES)
    level = FIRST_LEVEL if features is None else znodes.decode_features(features.data)
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
    """Empty is the position of a new cluster, and of no other. A format that is too new is not damage: it is told when
    the position is read.
    """
    try:
        return bool(node.data) and decode_position(node.data, _EVERY_LEVEL).number > 0
    except StoreError:
        return False


_EVERY_LEVEL = 2**31
