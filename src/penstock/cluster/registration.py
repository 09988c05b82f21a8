"""How a broker joins: it registers itself, and becomes the controller if there is none.

A new cluster is made in the same transaction, so a first start costs one write to the disk, and so does every other.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.cluster.image import BrokerRegistration
from penstock.cluster.store import znodes
from penstock.cluster.store.interface import (
    FIRST_VERSION,
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
from penstock.core.config.sections import IdentitySection
from penstock.core.listeners import Endpoint


class Registration(NamedTuple):
    is_controller: bool
    controller_epoch_version: int

    @property
    def fence(self) -> Check:
        """First in every transaction of a controller: it fails once another has been elected."""
        return Check(znodes.CONTROLLER_EPOCH, self.controller_epoch_version)


async def register(
    store: Store, identity: IdentitySection, endpoints: tuple[Endpoint, ...], now_ms: int, new_cluster_id: str
) -> Registration:
    sequence, epoch, controller = await store.read_many(
        [znodes.BROKER_SEQUENCE, znodes.CONTROLLER_EPOCH, znodes.CONTROLLER]
    )
    operations = await _missing_nodes(store, identity, new_cluster_id)
    sequence_version = FIRST_VERSION if sequence is None else sequence.version
    broker = BrokerRegistration(identity.node_id, endpoints, identity.broker_rack, sequence_version + 1)
    operations.append(CompareAndSet(znodes.BROKER_SEQUENCE, b"", sequence_version))
    operations.append(Create(znodes.broker_path(broker.node_id), znodes.encode_broker(broker, now_ms), ephemeral=True))
    if controller is None:
        operations += _election(identity.node_id, epoch, now_ms)
    try:
        await store.transaction(operations)
    except StoreError as error:
        if error.kind is StoreErrorKind.NODE_EXISTS and error.path == znodes.broker_path(identity.node_id):
            detail = f"a broker with node.id {identity.node_id} is already running in this cluster"
            raise StoreError(error.kind, error.path, detail) from error
        raise
    version = FIRST_VERSION if epoch is None else epoch.version
    return Registration(controller is None, version + (controller is None))


async def _missing_nodes(store: Store, identity: IdentitySection, new_cluster_id: str) -> list[Operation]:
    configs = [znodes.broker_config_path(None), znodes.broker_config_path(identity.node_id)]
    paths = dict.fromkeys(each for path in znodes.PERSISTENT_PATHS for each in path_and_parents(path))
    wanted = dict.fromkeys(paths, b"")
    wanted |= {path: znodes.encode_settings({}) for path in configs}
    cluster_id = identity.penstock_cluster_id or new_cluster_id
    wanted[znodes.CLUSTER_ID] = znodes.encode_cluster_id(cluster_id)
    wanted[znodes.CONTROLLER_EPOCH] = znodes.encode_controller_epoch(0)
    present = await store.read_many(list(wanted))
    return [Create(path, data) for (path, data), node in zip(wanted.items(), present, strict=True) if node is None]


def _election(node_id: int, epoch: Node | None, now_ms: int) -> list[Operation]:
    number = 0 if epoch is None else znodes.decode_controller_epoch(epoch.data)
    version = FIRST_VERSION if epoch is None else epoch.version
    return [
        Create(znodes.CONTROLLER, znodes.encode_controller(node_id, now_ms), ephemeral=True),
        CompareAndSet(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(number + 1), version),
    ]
