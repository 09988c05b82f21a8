"""Which store a broker keeps its metadata in, and whose a data directory is by the store that lies in it.

A single node has its metadata in a file of its first data directory. A node that has become a broker of a cluster has
the file under another name: what stands in it is a thing of the past. So the wrong store never serves a directory: a
cluster that knows nothing of a node's topics would delete their files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from penstock.cluster.store import znodes
from penstock.cluster.store.interface import Store
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.log.directories.log_directories import LogDirectoryError
from penstock.log.formats import names
from penstock.log.formats.metadata_files import decode_meta_properties
from penstock.log.storage.files import Files

logger = logging.getLogger(__name__)

METADATA_FILE = "penstock-metadata.db"
# The file's name once its node belongs to a cluster.
ADOPTED_FILE = f"{METADATA_FILE}.adopted"


async def open_store(config: BrokerConfig, is_temporary: bool, metrics: StoreMetrics) -> Store:
    """Raises StoreError, and LogDirectoryError for a directory that belongs elsewhere."""
    if config.zookeeper.zookeeper_connect:
        from penstock.cluster.store.zookeeper.settings import ZooKeeperSettings
        from penstock.cluster.store.zookeeper.store import ZooKeeperStore

        _check_adopted(config)
        if any(endpoint.has_login for endpoint in config.endpoints) and not config.zookeeper.zookeeper_set_acl:
            logger.warning("everybody who reaches ZooKeeper reads the users' credentials: see zookeeper.set.acl")
        return await ZooKeeperStore.open(ZooKeeperSettings.of(config.zookeeper), metrics)
    if is_temporary:
        from penstock.cluster.store.memory import MemoryStore

        return MemoryStore()
    from penstock.cluster.store.sqlite import SqliteStore

    path = _metadata_path(config)
    store = await SqliteStore.open(path)
    try:
        if any(endpoint.has_login for endpoint in config.endpoints) and _is_open_to_others(path):
            logger.warning("%s holds users' credentials, and others than its owner can read it: chmod 600", path)
        await _check_single(config, store)
    except BaseException:
        await store.close()
        raise
    return store


def read_owner(directories: Iterable[str], files: Files) -> str | None:
    """The cluster that the data directories belong to; None where none of them says."""
    for directory in directories:
        try:
            return decode_meta_properties(files.read_file(f"{directory}/{names.META_PROPERTIES}")).cluster_id
        except (OSError, ValueError):  # a file that cannot be read is told when the logs are opened
            continue
    return None


def make_data_directory(path: Path) -> None:
    """For its owner alone: users' credentials are in the metadata, and topics may hold more. A directory that is there
    keeps the mode that somebody gave it.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _metadata_path(config: BrokerConfig) -> Path:
    directory = Path(config.log_directories[0])
    make_data_directory(directory)
    if (directory / ADOPTED_FILE).exists() and not (directory / METADATA_FILE).exists():
        raise LogDirectoryError(f"{directory} belongs to a cluster: start its broker with zookeeper.connect")
    if not (directory / METADATA_FILE).exists():
        _check_unowned(directory, config.identity.penstock_cluster_id)
    return directory / METADATA_FILE


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o044 and path.parent.stat().st_mode & 0o011)


def _check_unowned(directory: Path, cluster_id: str) -> None:
    """Before a store is made: a broker of a cluster would take the store for a single node's, and not start."""
    owner = read_owner([str(directory)], Files())
    if owner not in (None, cluster_id):
        raise LogDirectoryError(
            f"{directory} belongs to cluster {owner}, whose metadata is not here: start its broker with "
            f"zookeeper.connect, or with penstock.cluster.id={owner} as a single node that has lost its metadata"
        )


def _check_adopted(config: BrokerConfig) -> None:
    for path in map(Path, config.log_directories):
        if (path / METADATA_FILE).exists():
            raise LogDirectoryError(
                f"{path} belongs to a single node, and the cluster knows nothing of its topics: `penstock cluster "
                f"adopt --data {path} --zookeeper {config.zookeeper.zookeeper_connect}` brings the node into the "
                "cluster"
            )


async def _check_single(config: BrokerConfig, store: Store) -> None:
    node = await store.read(znodes.ADOPTION)
    if node is not None:
        mark = znodes.decode_adoption(node.data)
        raise LogDirectoryError(
            f"{config.log_directories[0]} is on its way into cluster {mark.cluster_id} as broker {mark.node_id}: run "
            "`penstock cluster adopt` once more, which goes on where it stopped"
        )
