"""Takes a snapshot from a store, whether or not brokers run."""

from __future__ import annotations

from datetime import UTC, datetime

from penstock.cluster.image_loader import load_image
from penstock.cluster.snapshots.document import Snapshot, SnapshotError
from penstock.cluster.snapshots.restoration import check_usable
from penstock.cluster.store import security_nodes, znodes
from penstock.cluster.store.interface import Store
from penstock.cluster.store.tree_walk import walk

# The image, the counters or other programs own everything below these nodes.
_KNOWN = frozenset(
    {
        "/brokers",
        "/cluster",
        znodes.TOPIC_CONFIGS,
        znodes.BROKER_CONFIGS,
        znodes.GROUP_CONFIGS,
        *security_nodes.ROOTS,
        znodes.CONTROLLER,
        znodes.CONTROLLER_EPOCH,
        znodes.FEATURES,
        znodes.LOG,
        znodes.SNAPSHOTS,
        znodes.PICTURE,
        znodes.BROKERS,
        znodes.PRODUCER_ID_BLOCK,
        znodes.RESTORATION,
        "/zookeeper",  # ZooKeeper's own, where the cluster has no path of its own
    }
)
# Nodes with some known children: they are created again with those.
_PARENTS = frozenset({"/", "/config", "/penstock", "/kafka-acl-extended", "/delegation_token"})


async def take_snapshot(store: Store, now_ms: int) -> Snapshot:
    """Raises StoreError, also during the writes of a restore, and SnapshotError where there is no cluster."""
    await store.sync(znodes.LOG)
    restoration_id = await check_usable(store)
    if await store.read(znodes.CLUSTER_ID) is None:
        raise SnapshotError("there is no cluster in this ensemble", "Check the path behind the servers.")
    image = await load_image(store)
    epoch, sequence, block = await store.read_many(
        [znodes.CONTROLLER_EPOCH, znodes.BROKER_SEQUENCE, znodes.PRODUCER_ID_BLOCK]
    )
    others = await walk(store, "/", skipped=_KNOWN)
    if await check_usable(store) != restoration_id:
        raise SnapshotError("the cluster was restored while the snapshot was taken", "Take it again.")
    return Snapshot(
        image,
        max(image.controller_epoch, 0 if epoch is None else znodes.decode_controller_epoch(epoch.data)),
        0 if sequence is None else sequence.version,
        None if block is None else znodes.decode_producer_id_block(block.data),
        {path: node.data for path, node in others.items() if path not in _PARENTS and node.owner is None},
        datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="seconds"),
    )
