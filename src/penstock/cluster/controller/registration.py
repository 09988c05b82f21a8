"""How a broker joins: the cluster is made if there is none, the broker registers, and somebody is elected.

Rules:
- A broker's node belongs to the session that made it. Where the node is there already: made by this session, it is the
  registration whose answer was lost; made by a former session of this process, it is deleted; made by anybody else, it
  is perhaps that of the process that ran here before, whose session has not ended yet.
- The broker's epoch is the version of a counter node, raised in the same transaction. So no registrations share one.
- A controller is elected by creating its node and raising the controller's epoch in one transaction. The epoch's
  version is the fence in all that this controller writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

from penstock.cluster.controller.first_users import read_first_users
from penstock.cluster.deltas.position import LogPosition, SnapshotMark, encode_position
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
from penstock.core.config.sections import IdentitySection

# Another was faster, or nobody knows. The store is read again behind a `sync`: this server of it may lag.
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
        """First in every transaction of a controller: it fails once another has been elected."""
        return Check(znodes.CONTROLLER_EPOCH, self.version)


async def ensure_cluster(
    store: Store, identity: IdentitySection, new_cluster_id: str, new_level: int = SUPPORTED.highest
) -> None:
    """Makes the nodes that are missing: all of them for a new cluster, in one transaction, with its first users.
    `new_level` is the level of the metadata in a new cluster.
    """
    for _ in range(_ATTEMPTS):
        missing = await _missing_nodes(store, identity, new_cluster_id, new_level)
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
) -> tuple[BrokerRegistration, Term | None]:
    """The broker with its epoch. A term, too, where there was no controller: a start costs one transaction then.

    `restoration_id` is that of the metadata that the broker has loaded. Raises StoreError(NODE_EXISTS) as long as the
    broker's node belongs to somebody else.
    """
    path = znodes.broker_path(broker.node_id)
    for _ in range(_ATTEMPTS):
        sequence, epoch, controller, present, restoration = await store.read_many(
            [znodes.BROKER_SEQUENCE, znodes.CONTROLLER_EPOCH, znodes.CONTROLLER, path, znodes.RESTORATION]
        )
        check_same(restoration, restoration_id)
        if present is not None:
            if present.owner == store.session_id:
                return znodes.decode_broker(broker.node_id, present.data), None
            if present.owner not in former_sessions:
                detail = f"a broker with node.id {broker.node_id} is already running in this cluster"
                raise StoreError(StoreErrorKind.NODE_EXISTS, path, detail)
        version = FIRST_VERSION if sequence is None else sequence.version
        registered = broker._replace(epoch=version + 1)
        operations: list[Operation] = [CompareAndSet(znodes.BROKER_SEQUENCE, b"", version)]
        operations.append(Create(path, znodes.encode_broker(registered, now_ms), ephemeral=True))
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
            return registered, term
    raise StoreError(StoreErrorKind.UNAVAILABLE, path, "other brokers keep registering; try again")


async def read_registered(store: Store) -> dict[int, BrokerRegistration]:
    """The brokers that are here, as the store knows."""
    names = await store.children(znodes.BROKER_IDS)
    nodes = await store.read_many([f"{znodes.BROKER_IDS}/{name}" for name in names])
    # A broker may have left between the two reads.
    present = [(int(name), node) for name, node in zip(names, nodes, strict=True) if node is not None]
    return {node_id: znodes.decode_broker(node_id, node.data) for node_id, node in present}


async def elect(store: Store, node_id: int, epoch: Node | None, now_ms: int) -> Term | None:
    """None where another was faster, or where nobody knows; whoever watches the controller's node looks again."""
    term, operations = election_operations(node_id, epoch, now_ms)
    try:
        await store.transaction(operations)
    except StoreError as error:
        if error.kind not in _TRY_AGAIN:
            raise
        await store.sync(znodes.CONTROLLER)
        return None
    return term


def term_of(epoch: Node | None) -> Term:
    """Of the controller that is in office. Read the epoch before the controller's node: only then it is its epoch."""
    assert epoch is not None, "a controller is elected by raising the epoch"
    return Term(znodes.decode_controller_epoch(epoch.data), epoch.version)


def election_operations(node_id: int, epoch: Node | None, now_ms: int) -> tuple[Term, list[Operation]]:
    number = 0 if epoch is None else znodes.decode_controller_epoch(epoch.data)
    version = FIRST_VERSION if epoch is None else epoch.version
    return Term(number + 1, version + 1), [
        Create(znodes.CONTROLLER, znodes.encode_controller(node_id, now_ms), ephemeral=True),
        CompareAndSet(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(number + 1), version),
    ]


async def _missing_nodes(
    store: Store, identity: IdentitySection, new_cluster_id: str, new_level: int
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
    if present[znodes.CLUSTER_ID] is not None:  # a cluster from before there were levels
        wanted[znodes.FEATURES] = znodes.encode_features(FIRST_LEVEL)
    else:
        users = read_first_users(identity.penstock_first_users_file)
        if new_level < SNAPSHOT_LEVEL:
            first_nodes = security_nodes.nodes_of(users)
        else:
            wanted[znodes.LOG], first_nodes = first_snapshot(MetadataImage(cluster_id, security=users), new_level)
    missing: list[Operation] = [Create(path, data) for path, data in wanted.items() if present[path] is None]
    return missing + [Create(path, data) for path, data in first_nodes.items()]


def first_snapshot(image: MetadataImage, level: int) -> tuple[bytes, dict[str, bytes]]:
    """Where the log of a cluster stands that begins with this image, and the nodes of its snapshot, parents first."""
    image = replace(image, metadata_level=level)
    parts = list(snapshot_parts(image))
    mark = SnapshotMark(image.number, len(parts), sum(map(len, parts)))
    position = LogPosition(image.number, image.number + 1, NO_CONTROLLER, image.controller_epoch, snapshot=mark)
    nodes = {znodes.SNAPSHOTS: b"", znodes.snapshot_path(image.number): b""}
    nodes |= {znodes.snapshot_part_path(image.number, number): data for number, data in enumerate(parts)}
    return encode_position(position, level), nodes
