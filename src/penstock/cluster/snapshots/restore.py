"""Restores a snapshot into an ensemble without a cluster, and elects leaders when the brokers are back.

Steps, each of which may be repeated after a crash:
1. The mark becomes WRITING, before anything is removed. Brokers that start now wait, and a broker that has loaded
   before cannot register any more: the same transaction has moved the counter that it needs for that. So a broker that
   is not registered when the mark exists stays away; if one is, the mark returns to its former value.
2. The ensemble is cleared: a cluster that may be replaced, or the remains of an earlier run that was killed. Then all
   nodes are written, in as many transactions as they need.
3. The mark becomes WAITING. Brokers start, load and register; partitions with one replica have a leader.
4. When enough replicas have reported the ends of their logs, `finish` writes the leaders
   (`decisions.restore_decisions`), and the mark becomes FINISHED.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.cluster.controller.registration import first_snapshot
from penstock.cluster.controller.takeover import change_from_outside, leave_office
from penstock.cluster.decisions.restore_decisions import (
    BROKER_EPOCH_MARGIN,
    Elected,
    LogEnd,
    ReplicaPlace,
    decide_leaders,
    decide_restored,
    restored_producer_ids,
)
from penstock.cluster.deltas.nodes import create_topic_operations
from penstock.cluster.deltas.position import LogPosition, encode_position
from penstock.cluster.image import NO_CONTROLLER, MetadataImage
from penstock.cluster.image_loader import load_image
from penstock.cluster.levels import SNAPSHOT_LEVEL, SUPPORTED
from penstock.cluster.snapshots.document import Snapshot, SnapshotError
from penstock.cluster.snapshots.restoration import (
    Restoration,
    RestorationState,
    decode_restoration,
    encode_restoration,
    read_restoration,
)
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import CompareAndSet, Create, Delete, Node, Operation, Store, path_and_parents
from penstock.cluster.store.transactions import in_transactions, write_operation
from penstock.cluster.store.tree_walk import walk

_ZOOKEEPERS_OWN = frozenset({"/zookeeper"})


class Begun(NamedTuple):
    restoration: Restoration
    was_there: bool  # an earlier run has written it


async def begin_restore(
    store: Store, snapshot: Snapshot, checksum: str, replaced_cluster: str | None, new_id: Callable[[], str]
) -> Begun:
    """Steps 1 to 3. `replaced_cluster` is the id of a cluster that may be removed from the ensemble for this.

    Raises SnapshotError and StoreError.
    """
    if not SUPPORTED.has(snapshot.image.metadata_level):
        raise SnapshotError(
            f"the snapshot's metadata has level {snapshot.image.metadata_level}, and this version of Penstock knows "
            f"{SUPPORTED.lowest} to {SUPPORTED.highest}",
            "Restore it with the version that took it.",
        )
    node = await store.read(znodes.RESTORATION)
    before = decode_restoration(node)
    if before is not None and before.checksum == checksum:
        # A run with the cluster's name repeats a finished restore.
        is_done = before.state is RestorationState.FINISHED and replaced_cluster is None
        if is_done or before.state is RestorationState.WAITING:
            return Begun(before, was_there=True)
    is_interrupted = before is not None and before.state is RestorationState.WRITING
    await _check_free(store, replaced_cluster, is_interrupted=is_interrupted)
    restoration = Restoration(new_id(), RestorationState.WRITING, checksum)
    await _mark(store, restoration, node)
    try:
        await _check_free(store, replaced_cluster, is_interrupted=is_interrupted)
    except SnapshotError:
        await store.transaction([_unmark(node)])
        raise
    await _clear(store)
    await _write(store, snapshot, restoration)
    return Begun(restoration, was_there=False)


async def _check_free(store: Store, replaced_cluster: str | None, *, is_interrupted: bool) -> None:
    present = await store.read(znodes.CLUSTER_ID)
    if present is not None and not is_interrupted:
        _check_replaced(znodes.decode_cluster_id(present.data), replaced_cluster)
    if await store.read(znodes.BROKER_IDS) is not None and await store.children(znodes.BROKER_IDS):
        raise SnapshotError("brokers are registered in this ensemble", "Stop all brokers first.")


def _check_replaced(cluster_id: str, replaced_cluster: str | None) -> None:
    if replaced_cluster is None:
        raise SnapshotError(
            f"this ensemble has cluster {cluster_id} already",
            f"Check --zookeeper. To remove all metadata of that cluster first: --force {cluster_id}",
        )
    if replaced_cluster != cluster_id:
        raise SnapshotError(f"this ensemble has cluster {cluster_id}, not {replaced_cluster}", "Check --zookeeper.")


async def _mark(store: Store, restoration: Restoration, before: Node | None) -> None:
    """Fails where another restore has written its mark meanwhile."""
    for path in path_and_parents(znodes.RESTORATION)[:-1]:
        await store.ensure_path(path)
    data = encode_restoration(restoration)
    operations: list[Operation] = [write_operation(znodes.RESTORATION, before, data)]
    if await store.read(znodes.BROKER_SEQUENCE) is not None:
        operations.append(CompareAndSet(znodes.BROKER_SEQUENCE, b""))
    await store.transaction(operations)


def _unmark(before: Node | None) -> Operation:
    return Delete(znodes.RESTORATION) if before is None else CompareAndSet(znodes.RESTORATION, before.data)


async def _clear(store: Store) -> None:
    """Children first. The mark stays, so that no broker creates a cluster here."""
    kept = {*path_and_parents(znodes.RESTORATION), "/"}
    paths = [path for path in await walk(store, "/", skipped=_ZOOKEEPERS_OWN) if path not in kept]
    for part in in_transactions([Delete(path) for path in reversed(paths)], store.transaction_limit):
        await store.transaction(part)


async def _write(store: Store, snapshot: Snapshot, restoration: Restoration) -> None:
    image = decide_restored(snapshot.image, snapshot.controller_epoch)
    cluster_id = znodes.encode_cluster_id(image.cluster_id)
    await store.transaction([Create("/cluster"), Create(znodes.CLUSTER_ID, cluster_id)])
    for part in in_transactions(_operations(snapshot, image), store.transaction_limit):
        await store.transaction(part)
    await _set_state(store, restoration, RestorationState.WAITING)


def _operations(snapshot: Snapshot, image: MetadataImage) -> list[Operation]:
    nodes: dict[str, bytes] = {}
    for path in (*znodes.PERSISTENT_PATHS, *snapshot.other_nodes):
        nodes.update({each: b"" for each in path_and_parents(path) if each not in nodes})
    nodes[znodes.CONTROLLER_EPOCH] = znodes.encode_controller_epoch(image.controller_epoch)
    nodes[znodes.FEATURES] = znodes.encode_features(image.metadata_level)
    if image.metadata_level < SNAPSHOT_LEVEL:
        nodes.update(_nodes_of(image))
    else:  # the first controller draws the nodes for tools
        nodes[znodes.LOG], snapshot_nodes = first_snapshot(image, image.metadata_level)
        nodes.update(snapshot_nodes)
    block = restored_producer_ids(snapshot.producer_ids)
    nodes[znodes.PRODUCER_ID_BLOCK] = znodes.encode_producer_id_block(block, NO_CONTROLLER)
    nodes.update(snapshot.other_nodes)
    made = {"/cluster", *path_and_parents(znodes.RESTORATION)}
    operations: list[Operation] = [Create(path, data) for path, data in nodes.items() if path not in made]
    # The counter of broker epochs is its node's version.
    count = snapshot.broker_sequence + BROKER_EPOCH_MARGIN
    operations += [CompareAndSet(znodes.BROKER_SEQUENCE, b"") for _ in range(count)]
    if image.metadata_level < SNAPSHOT_LEVEL:
        for topic in image.topics.values():
            operations += create_topic_operations(topic, image.controller_epoch)
    return operations


def _nodes_of(image: MetadataImage) -> dict[str, bytes]:
    """All but topics, below `SNAPSHOT_LEVEL`."""
    position = LogPosition(image.number, image.number + 1, NO_CONTROLLER, image.controller_epoch)
    nodes = {
        znodes.LOG: encode_position(position, image.metadata_level),
        znodes.BROKERS: znodes.encode_brokers({}, image.directories, image.away),
        znodes.broker_config_path(None): znodes.encode_settings(image.default_broker_config),
    }
    for node_id, settings in image.broker_configs.items():
        nodes[znodes.broker_config_path(node_id)] = znodes.encode_settings(settings)
    for group, settings in image.group_configs.items():
        nodes[znodes.group_config_path(group)] = znodes.encode_settings(settings)
    return nodes | security_nodes.nodes_of(image.security)


async def _set_state(store: Store, restoration: Restoration, state: RestorationState) -> None:
    data = encode_restoration(restoration._replace(state=state))
    await store.compare_and_set(znodes.RESTORATION, data, None)


async def try_finish(
    store: Store,
    log_ends: Mapping[ReplicaPlace, LogEnd],
    minimums: Mapping[str, int],
    now_ms: int,
    *,
    accepts_loss: bool = False,
) -> Elected:
    """Step 4, as far as the reports allow: partitions that wait for more are left, and then the mark stays."""
    image = await load_image(store)
    elected = decide_leaders(image, log_ends, minimums, accepts_loss=accepts_loss)

    def decide(image: MetadataImage) -> MetadataImage:
        nonlocal elected
        elected = decide_leaders(image, log_ends, minimums, accepts_loss=accepts_loss)
        return elected.image

    if elected.image is not image:
        await change_from_outside(store, decide, now_ms, can_take_steps=True)
        await leave_office(store)  # a wait for more brokers needs a controller that counts them
    restoration = await read_restoration(store)
    if restoration is not None and not elected.waiting:
        await _set_state(store, restoration, RestorationState.FINISHED)
    return elected
