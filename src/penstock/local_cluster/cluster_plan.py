"""From the user's wishes, and the contents of the directory, to the members of a cluster."""

from __future__ import annotations

from typing import Literal, NamedTuple

from penstock.core.extras import require
from penstock.local_cluster.cluster_security import own_connect, secure_places
from penstock.local_cluster.directory import ClusterDirectory, Ports
from penstock.local_cluster.members import Members
from penstock.local_cluster.ports import choose_node_ids, choose_ports, choose_zookeeper_port, is_free
from penstock.local_cluster.settings import BrokerPlace, check_settings, shared_properties
from penstock.processes.server_process import find_free_port


class ClusterWish(NamedTuple):
    broker_count: int
    first_port: int  # 0: those of the last start, or free ones
    host: str
    config: dict[str, str]
    store: Literal["zookeeper", "memory"]
    zookeeper: str | None  # None: one of its own
    is_secure: bool = False


def make_members(directory: ClusterDirectory, wish: ClusterWish) -> Members:
    """The ports are kept for the next start. Raises ClusterError when the wish cannot be met."""
    shared = shared_properties(wish.broker_count, wish.config)
    last = directory.read_ports()
    node_ids = choose_node_ids(wish.broker_count, last)

    def is_port_free(port: int) -> bool:
        return is_free(wish.host, port)

    def find_free() -> int:
        return find_free_port(wish.host)

    ports = choose_ports(node_ids, wish.first_port, last, is_port_free, find_free)
    places = [BrokerPlace(node_id, wish.host, port, directory.broker_dir(node_id)) for node_id, port in ports.items()]
    if wish.is_secure:
        places = secure_places(directory, places)
    check_settings(places, shared)
    if wish.store == "memory":
        from penstock.local_cluster.memory_members import MemoryMembers

        return MemoryMembers(places, shared)
    require("zookeeper", "penstock.Cluster" if wish.zookeeper is None else "penstock.Cluster(zookeeper=...)")
    from penstock.local_cluster.process_members import ProcessMembers
    from penstock.processes.zookeeper_process import ZooKeeperProcess

    def connect(servers: str) -> str:
        return own_connect(directory, servers) if wish.is_secure else servers

    if wish.zookeeper is not None:
        directory.write_ports(Ports(ports, last.zookeeper))
        return ProcessMembers(places, shared, None, connect(wish.zookeeper))
    zookeeper_port = choose_zookeeper_port(last, list(ports.values()), is_port_free, find_free)
    zookeeper = ZooKeeperProcess(
        directory.zookeeper_dir, port=zookeeper_port, host=wish.host, log_path=directory.path / "zookeeper.log"
    )
    directory.write_ports(Ports(ports, zookeeper_port))
    return ProcessMembers(places, shared, zookeeper, connect(zookeeper.connect), is_guarded=wish.is_secure)
