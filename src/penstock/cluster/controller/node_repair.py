"""Writes nodes again that another program has deleted or overwritten, from a broker's memory.

Any client that reaches a ZooKeeper without access lists can delete any node. Rules:
- A store is repaired only while it is known to be this cluster's: it names the cluster, or this broker's registration
  stands in it, or its log goes as far as this broker's image. Everything else is another cluster, or a lost one.
- A counter never goes back. The controller's epoch and the counter of broker epochs are written above this broker's
  values, with a margin for the values of other brokers. A value below this broker's value is damage like a missing
  value.
- Every broker writes the nodes that all brokers know. The controller, behind its fence, writes the nodes that follow
  from the newest image, and the log (`lost_log`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from penstock.cluster.deltas.position import LogPosition, decode_position
from penstock.cluster.image import MetadataImage
from penstock.cluster.levels import SNAPSHOT_LEVEL
from penstock.cluster.snapshots.restoration import check_same
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    Check,
    CompareAndSet,
    Create,
    Node,
    Operation,
    Store,
    StoreError,
    StoreErrorKind,
    path_and_parents,
)
from penstock.cluster.store.transactions import write_operation

logger = logging.getLogger(__name__)

# The number of elections, registrations and changes that other brokers may know of and this broker does not: more than
# happen before a watch has fired. Epochs have 31 bits, so that a node can be lost two million times.
MARGIN = 1_000
# Each step of the counter of broker epochs is a write of its own, and a registration is rarer than a change.
_COUNTER_MARGIN = 100
# A larger epoch is another program's doing.
_HIGHEST_EPOCH = 2**31 - 1 - MARGIN
# Steps of a counter in one transaction.
_STEPS_AT_ONCE = 1_000
# Each lost race means that another broker repairs the same nodes.
_ATTEMPTS = 10
_LOST_RACES = (StoreErrorKind.NODE_EXISTS, StoreErrorKind.BAD_VERSION, StoreErrorKind.NO_NODE)

# The nodes that follow from the image and the log, which only the controller writes.
_CONTROLLERS = (znodes.LOG, znodes.BROKERS)
_PARENTS = tuple(
    each
    for each in dict.fromkeys(each for path in znodes.PERSISTENT_PATHS for each in path_and_parents(path))
    if each not in (*_CONTROLLERS, znodes.BROKER_SEQUENCE)
)
_READ = (znodes.RESTORATION, znodes.LOG, znodes.CLUSTER_ID, znodes.CONTROLLER_EPOCH, znodes.BROKER_SEQUENCE)
# The watched nodes: a change of one is a reason to look. A broker watches the log and the brokers' ids anyway.
WATCHED = (
    *(path for path in _PARENTS if path != znodes.BROKER_IDS),
    znodes.CLUSTER_ID,
    znodes.CONTROLLER_EPOCH,
    znodes.BROKER_SEQUENCE,
    znodes.BROKERS,
    znodes.FEATURES,
)


async def mend_shared(store: Store, image: MetadataImage, node_id: int, restoration_id: str) -> None:
    """Writes the nodes that every broker may write; `node_id` is this broker's. Raises StoreError, with CORRUPT where
    the store is not this cluster's, or was restored from a snapshot meanwhile.
    """
    own = znodes.broker_path(node_id)
    paths = (own, *_READ, *_PARENTS)
    for _ in range(_ATTEMPTS):
        nodes = dict(zip(paths, await store.read_many(paths), strict=True))
        registration = nodes[own]
        is_registered = registration is not None and registration.owner == store.session_id
        if not is_registered:
            check_same(nodes[znodes.RESTORATION], restoration_id)
        position = _known_position(nodes[znodes.LOG])
        _check_ours(nodes[znodes.CLUSTER_ID], position, image, is_registered=is_registered)
        operations = [*_parent_operations(nodes, image), *_epoch_operations(nodes, position, image)]
        if not operations:
            break
        _tell(operations)
        try:
            await store.transaction(operations)
        except StoreError as error:
            if error.kind not in _LOST_RACES:
                raise
            await store.sync(znodes.CLUSTER_ID)
    await raise_counter(store, image)


async def raise_counter(store: Store, image: MetadataImage) -> None:
    """The counter of broker epochs is its node's version: each step is a write of its own. A broker that is stopped
    half-way leaves a counter that is still too low, and the next broker goes on.
    """
    known = max((broker.epoch for broker in image.registered.values()), default=0)
    node = await store.read(znodes.BROKER_SEQUENCE)
    if node is not None and node.version >= known:
        return
    wanted = known + _COUNTER_MARGIN
    logger.warning("%s is missing or was reset, and goes on from %d", znodes.BROKER_SEQUENCE, wanted)
    await store.ensure_path(znodes.BROKER_SEQUENCE)
    while True:
        node = await store.read(znodes.BROKER_SEQUENCE)
        version = 0 if node is None else node.version
        if version >= wanted:
            return
        steps = min(wanted - version, _STEPS_AT_ONCE)
        await store.transaction([CompareAndSet(znodes.BROKER_SEQUENCE, b"")] * steps)


async def mend_derived(store: Store, fence: Check, image: MetadataImage) -> None:
    """Writes the nodes that follow from the newest image. For the controller, during no other change. Raises
    StoreError.
    """
    operations = await derived_operations(store, image)
    if operations:
        _tell(operations)
        await store.transaction([fence, *operations])


async def derived_operations(store: Store, image: MetadataImage) -> list[Operation]:
    brokers, features = await store.read_many([znodes.BROKERS, znodes.FEATURES])
    operations: list[Operation] = []
    if image.metadata_level < SNAPSHOT_LEVEL and not _has_brokers(brokers, image):
        data = znodes.encode_brokers(image.brokers, image.directories, image.away)
        operations.append(write_operation(znodes.BROKERS, brokers, data))
    if not _has_level(features, image):
        operations.append(write_operation(znodes.FEATURES, features, znodes.encode_features(image.metadata_level)))
    return operations


# ---------------------------------------------------------------------------------------------- what is wrong


def _check_ours(node: Node | None, position: LogPosition | None, image: MetadataImage, *, is_registered: bool) -> None:
    named = _known_id(node)
    if named == image.cluster_id or is_registered:
        return
    if named is not None:
        detail = f"the store belongs to cluster {named} now, not to {image.cluster_id}"
        raise StoreError(StoreErrorKind.CORRUPT, znodes.CLUSTER_ID, detail)
    if position is None or position.number < max(image.number, 1):
        detail = (
            f"the store has lost cluster {image.cluster_id}: stop the brokers and bring a snapshot back with `penstock "
            "cluster restore`"
        )
        raise StoreError(StoreErrorKind.CORRUPT, znodes.CLUSTER_ID, detail)


def _parent_operations(nodes: Mapping[str, Node | None], image: MetadataImage) -> list[Operation]:
    operations: list[Operation] = [Create(path) for path in _PARENTS if nodes[path] is None]
    if _known_id(nodes[znodes.CLUSTER_ID]) != image.cluster_id:
        data = znodes.encode_cluster_id(image.cluster_id)
        operations.append(write_operation(znodes.CLUSTER_ID, nodes[znodes.CLUSTER_ID], data))
    return operations


def _epoch_operations(
    nodes: Mapping[str, Node | None], position: LogPosition | None, image: MetadataImage
) -> list[Operation]:
    """The version of the epoch's node is the fence of every controller, so it must not come back either: a new node is
    changed as often as the lost node can have been, up to a bound. After more elections, only a controller that lives
    through so many of them without a look at its node could be mistaken for the present controller, and the log's own
    version stops that controller.
    """
    path, node = znodes.CONTROLLER_EPOCH, nodes[znodes.CONTROLLER_EPOCH]
    remembered = max(image.controller_epoch, 0 if position is None else position.controller_epoch)
    if node is not None and remembered <= _known_epoch(node) <= _HIGHEST_EPOCH:
        return []
    data = znodes.encode_controller_epoch(remembered + MARGIN)
    again = 0 if node is not None else min(remembered + 1, _STEPS_AT_ONCE)
    return [write_operation(path, node, data), *(CompareAndSet(path, data) for _ in range(again))]


def _known_position(node: Node | None) -> LogPosition | None:
    try:
        return None if node is None else decode_position(node.data)
    except StoreError:
        return None


def _known_id(node: Node | None) -> str | None:
    try:
        return None if node is None else znodes.decode_cluster_id(node.data)
    except StoreError:
        return None


def _known_epoch(node: Node) -> int:
    try:
        return znodes.decode_controller_epoch(node.data)
    except StoreError:
        return -1


def _has_brokers(node: Node | None, image: MetadataImage) -> bool:
    try:
        stored = None if node is None else znodes.decode_brokers(node.data)
    except StoreError:
        return False
    return stored == (image.brokers, image.directories, image.away)


def _has_level(node: Node | None, image: MetadataImage) -> bool:
    try:
        return node is not None and znodes.decode_features(node.data) == image.metadata_level
    except StoreError:
        return False


def _tell(operations: list[Operation]) -> None:
    paths = dict.fromkeys(operation.path for operation in operations)
    logger.warning("missing or damaged in the metadata store, and written again: %s", ", ".join(paths))
