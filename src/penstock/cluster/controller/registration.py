"""Joins a broker to its cluster: creates the cluster if there is none, registers the broker, and elects a controller.

Rules:
- A broker's node belongs to the session that made it. An existing node was made by this session, and is the
  registration whose answer was lost; or by a former session of this process, and is deleted; or by another process,
  perhaps the process that ran here before and whose session has not ended yet.
- The broker's epoch is the version of a counter node, raised in the same transaction. So no two registrations share an
  epoch.
- The election of a controller creates its node and raises the controller's epoch in one transaction. The epoch's
  version is the fence of all writes of this controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.controller.first_users import read_first_users
from penstock.cluster.controller.lost_log import check_log
from penstock.cluster.controller.node_repair import MARGIN
from penstock.cluster.deltas.position import (
    LogPosition,
    SnapshotMark,
    decode_level,
    decode_position,
    encode_mark,
    encode_position,
)
from penstock.cluster.deltas.snapshot import snapshot_parts
from penstock.cluster.image import NO_CONTROLLER, BrokerRegistration, MetadataImage
from penstock.cluster.levels import FIRST_LEVEL, SNAPSHOT_LEVEL, SUPPORTED
from penstock.cluster.snapshots.restoration import check_same
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import (
    FIRST_VERSION,
    Check,
    CompareAndSet,
    Create,
    Node,
    Operation,
    SessionState,
    Store,
    StoreError,
    StoreErrorKind,
    path_and_parents,
)
from penstock.cluster.store.znodes import NO_PRODUCER_IDS
from penstock.cluster.strangers.reports import Told
from penstock.core.config.sections import IdentitySection

logger = logging.getLogger(__name__)

# Another broker was faster, or the outcome is unknown. The store is read again behind a `sync`: its server may lag.
_TRY_AGAIN = (
    StoreErrorKind.NODE_EXISTS,
    StoreErrorKind.BAD_VERSION,
    StoreErrorKind.NO_NODE,
    StoreErrorKind.OUTCOME_UNKNOWN,
)
# Each lost race means that another broker has registered or was elected.
_ATTEMPTS = 50


class Term(NamedTuple):
    """The time between an election and the next."""

    epoch: int
    # Of the epoch's node.
    version: int

    @property
    def fence(self) -> Check:
        """The first operation in every transaction of a controller: it fails once another controller has been
        elected.
        """
        return Check(znodes.CONTROLLER_EPOCH, self.version)


class Registered(NamedTuple):
    broker: BrokerRegistration  # with its epoch
    data: bytes  # of its node
    # Set where there was no controller: a start costs one transaction then.
    term: Term | None


async def ensure_cluster(
    store: Store,
    identity: IdentitySection,
    new_cluster_id: str,
    new_level: int = SUPPORTED.highest,
    owner: str | None = None,
) -> None:
    """Creates the missing nodes: all of them for a new cluster, in one transaction, with its first users. `new_level`
    is the level of the metadata in a new cluster. Raises StoreError, with CORRUPT where a cluster has lost nodes that
    cannot be restored, and where a broker whose data belong to the cluster `owner` finds none.
    """
    await check_log(store, new_level)
    for _ in range(_ATTEMPTS):
        missing = await _missing_nodes(store, identity, new_cluster_id, new_level, owner)
        if not missing:
            return
        try:
            await store.transaction(missing)
        except StoreError as error:
            if error.kind not in _TRY_AGAIN:
                raise
            await _until_connected(store)
            await store.sync(znodes.CLUSTER_ID)


async def _until_connected(store: Store) -> None:
    connected = asyncio.Event()
    end = store.on_session(lambda state: connected.set() if state is SessionState.CONNECTED else connected.clear())
    try:
        if store.session_state is not SessionState.CONNECTED:
            await connected.wait()
    finally:
        end()


async def register(
    store: Store, broker: BrokerRegistration, former_sessions: Collection[str], now_ms: int, restoration_id: str = ""
) -> Registered:
    """`restoration_id` is the id in the metadata that the broker has loaded. Raises StoreError(NODE_EXISTS) as long as
    the broker's node belongs to another process.
    """
    path = znodes.broker_path(broker.node_id)
    for _ in range(_ATTEMPTS):
        sequence, epoch, controller, present, restoration = await store.read_many(
            [znodes.BROKER_SEQUENCE, znodes.CONTROLLER_EPOCH, znodes.CONTROLLER, path, znodes.RESTORATION]
        )
        check_same(restoration, restoration_id)
        if present is not None:
            own = _own_registration(broker.node_id, present, store.session_id)
            if own is not None:
                return Registered(own, present.data, None)
            # No broker makes a persistent node for its registration.
            if present.owner not in (None, store.session_id, *former_sessions):
                detail = f"a broker with node.id {broker.node_id} is already running in this cluster"
                raise StoreError(StoreErrorKind.NODE_EXISTS, path, detail)
        version = FIRST_VERSION if sequence is None else sequence.version
        registered = broker._replace(epoch=version + 1)
        data = znodes.encode_broker(registered, now_ms)
        operations: list[Operation] = [CompareAndSet(znodes.BROKER_SEQUENCE, b"", version)]
        operations.append(Create(path, data, ephemeral=True))
        term: Term | None = None
        if controller is None:
            term, election = election_operations(broker.node_id, epoch, now_ms)
            operations += election
        try:
            if present is not None:
                await store.delete(path, present.version)
            await store.transaction(operations)
        except StoreError as error:
            if error.kind not in _TRY_AGAIN:
                raise
            await store.sync(path)
        else:
            return Registered(registered, data, term)
    raise StoreError(StoreErrorKind.UNAVAILABLE, path, "other brokers keep registering; try again")


def _own_registration(node_id: int, node: Node, session_id: str) -> BrokerRegistration | None:
    """For a registration whose answer was lost. None where the node is another session's, or cannot be decoded."""
    try:
        return znodes.decode_broker(node_id, node.data) if node.owner == session_id else None
    except StoreError:
        return None


async def is_registered(store: Store, node_id: int, data: bytes) -> bool:
    """Whether the node of this session's registration exists. Overwrites another program's content with `data`, which
    this broker registered with.
    """
    path = znodes.broker_path(node_id)
    node = await store.read(path)
    if node is None or node.owner != store.session_id:
        return False
    if node.data != data:
        logger.warning("the registration of this broker was overwritten, and is written again")
        await store.compare_and_set(path, data, node.version)
    return True


async def read_registered(
    store: Store, told: Told, counted: Mapping[int, BrokerRegistration]
) -> dict[int, BrokerRegistration]:
    """The present brokers by the store. Where a node is unreadable, which its broker is about to write again, the
    broker is as it was when it was `counted`. A node without a session is no broker's.
    """
    names = [name for name in await store.children(znodes.BROKER_IDS) if name.isdecimal()]
    nodes = await store.read_many([f"{znodes.BROKER_IDS}/{name}" for name in names])
    registered = dict(counted)
    here = set()
    unread: dict[str, bytes] = {}
    for node_id, node in zip(map(int, names), nodes, strict=True):
        if node is None or node.owner is None:  # the broker may have left between the two reads
            continue
        here.add(node_id)
        try:
            registered[node_id] = znodes.decode_broker(node_id, node.data)
        except StoreError:
            unread[znodes.broker_path(node_id)] = node.data
    for path in told.news("registrations", unread):
        logger.warning("%s holds no registration of a broker, and changes nothing until a broker writes it", path)
    return {node_id: broker for node_id, broker in registered.items() if node_id in here}


async def elect(store: Store, node_id: int, epoch: Node | None, now_ms: int) -> Term | None:
    """None where another broker was faster, or the outcome is unknown: a watch on the controller's node brings news."""
    term, operations = election_operations(node_id, epoch, now_ms)
    try:
        await store.transaction(operations)
    except StoreError as error:
        if error.kind not in _TRY_AGAIN:
            raise
        await store.sync(znodes.CONTROLLER)
        return None
    return term


async def show_controller(store: Store, node: Node | None, node_id: int, now_ms: int) -> None:
    """Writes the controller's node again where it does not name this broker, which made it. That is for tools: brokers
    trust only the owner of the node.
    """
    try:
        is_shown = node is None or znodes.decode_controller(node.data) == node_id
    except StoreError:
        is_shown = False
    if node is not None and not is_shown:
        await store.compare_and_set(znodes.CONTROLLER, znodes.encode_controller(node_id, now_ms), node.version)


def term_of(epoch: Node | None) -> Term:
    """The term of the current controller. Read the epoch before the controller's node: only then it is its epoch."""
    if epoch is None:  # another program has deleted it
        raise StoreError(StoreErrorKind.NO_NODE, znodes.CONTROLLER_EPOCH)
    return Term(znodes.decode_controller_epoch(epoch.data), epoch.version)


def election_operations(node_id: int, epoch: Node | None, now_ms: int) -> tuple[Term, list[Operation]]:
    number = 0 if epoch is None else znodes.decode_controller_epoch(epoch.data)
    version = FIRST_VERSION if epoch is None else epoch.version
    return Term(number + 1, version + 1), [
        Create(znodes.CONTROLLER, znodes.encode_controller(node_id, now_ms), ephemeral=True),
        CompareAndSet(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(number + 1), version),
    ]


async def _missing_nodes(
    store: Store, identity: IdentitySection, new_cluster_id: str, new_level: int, owner: str | None
) -> list[Operation]:
    configs = [znodes.broker_config_path(None), znodes.broker_config_path(identity.node_id)]
    paths = dict.fromkeys(each for path in znodes.PERSISTENT_PATHS for each in path_and_parents(path))
    wanted = dict.fromkeys(paths, b"")
    wanted |= {path: znodes.encode_settings({}) for path in configs}
    cluster_id = identity.penstock_cluster_id or new_cluster_id
    wanted[znodes.CLUSTER_ID] = znodes.encode_cluster_id(cluster_id)
    wanted[znodes.CONTROLLER_EPOCH] = znodes.encode_controller_epoch(0)
    wanted[znodes.FEATURES] = znodes.encode_features(new_level)
    present = dict(zip(wanted, await store.read_many(list(wanted)), strict=True))
    first_nodes: dict[str, bytes] = {}
    log, is_new = present[znodes.LOG], present[znodes.CLUSTER_ID] is None
    if log is not None and log.data:
        wanted |= _what_the_log_tells(log.data, new_level)
        if is_new and not identity.penstock_cluster_id:
            detail = (
                "the node is missing, though there is a log of the metadata: start one broker with penstock.cluster.id "
                "as meta.properties in its data directory names it"
            )
            raise StoreError(StoreErrorKind.CORRUPT, znodes.CLUSTER_ID, detail)
        is_new = False
    elif not is_new:  # a cluster from before there were levels
        wanted[znodes.FEATURES] = znodes.encode_features(FIRST_LEVEL)
    else:
        # A new cluster would be in the way of the old cluster.
        if owner is not None and not identity.penstock_cluster_id:
            detail = (
                f"there is no cluster, and this broker's data belong to cluster {owner}: check zookeeper.connect, or "
                "bring the metadata back with penstock cluster restore"
            )
            raise StoreError(StoreErrorKind.CORRUPT, znodes.CLUSTER_ID, detail)
        users = read_first_users(identity.penstock_first_users_file)
        if new_level < SNAPSHOT_LEVEL:
            first_nodes = security_nodes.nodes_of(users)
        else:
            wanted[znodes.LOG], first_nodes = first_snapshot(MetadataImage(cluster_id, security=users), new_level)
        first_nodes[znodes.PRODUCER_ID_BLOCK] = znodes.encode_producer_id_block(NO_PRODUCER_IDS, identity.node_id)
    missing: list[Operation] = [Create(path, data) for path, data in wanted.items() if present[path] is None]
    return missing + [Create(path, data) for path, data in first_nodes.items()]


def first_snapshot(image: MetadataImage, level: int) -> tuple[bytes, dict[str, bytes]]:
    """The position of a log that begins with this image, and the nodes of its snapshot, parents first."""
    image = replace(image, metadata_level=level)
    parts = list(snapshot_parts(image))
    mark = SnapshotMark(image.number, len(parts), sum(map(len, parts)))
    position = LogPosition(image.number, image.number + 1, NO_CONTROLLER, image.controller_epoch, snapshot=mark)
    nodes = {znodes.SNAPSHOTS: b"", znodes.snapshot_path(image.number): encode_mark(mark)}
    nodes |= {znodes.snapshot_part_path(image.number, number): data for number, data in enumerate(parts)}
    return encode_position(position, level), nodes


def _what_the_log_tells(data: bytes, highest_level: int) -> dict[str, bytes]:
    """Lost nodes must not begin again: epochs never go back, and neither does the level."""
    position = decode_position(data, highest_level)
    return {
        znodes.CONTROLLER_EPOCH: znodes.encode_controller_epoch(position.controller_epoch + MARGIN),
        znodes.FEATURES: znodes.encode_features(decode_level(data)),
    }
