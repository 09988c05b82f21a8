"""Chooses the ports of a cluster: the user's, those of the last start, or free ones. Pure, but for `is_free`.

A broker whose port of the last start was taken meanwhile gets another one, since clients find it through the others.
ZooKeeper gets no other: the program that listens there may be this cluster's own ZooKeeper that outlived its parent,
and two ZooKeepers on the same data would destroy it.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from penstock.core.words.failure_text import MAX_PORT, PORTS_END
from penstock.local_cluster.directory import Ports
from penstock.local_cluster.errors import ClusterError


def is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_node_ids(broker_count: int, last: Ports) -> list[int]:
    """Raises ClusterError when the cluster has more brokers than that: no broker would serve the data of the others."""
    if broker_count < 1:
        raise ClusterError("a cluster has at least one broker")
    missing = sorted(node_id for node_id in last.brokers if node_id > broker_count)
    if missing:
        count = len(last.brokers)
        raise ClusterError(
            f"the cluster in this directory has {count} brokers, and {broker_count} are to start",
            f"Start all {count}, or take another directory.",
        )
    return list(range(1, broker_count + 1))


def choose_ports(
    node_ids: Sequence[int],
    first_port: int,
    last: Ports,
    is_free: Callable[[int], bool],
    find_free: Callable[[], int],
) -> dict[int, int]:
    """By node id. With a `first_port` the brokers take that one and those that follow, or the start fails."""
    if first_port:
        return _consecutive(node_ids, first_port, is_free)
    ports: dict[int, int] = {}
    for node_id in node_ids:
        remembered = last.brokers.get(node_id)
        if remembered is not None and remembered not in ports.values() and is_free(remembered):
            ports[node_id] = remembered
    for node_id in node_ids:
        while node_id not in ports:
            port = find_free()
            if port not in ports.values() and port != last.zookeeper:
                ports[node_id] = port
    return dict(sorted(ports.items()))


def _consecutive(node_ids: Sequence[int], first_port: int, is_free: Callable[[int], bool]) -> dict[int, int]:
    ports = {node_id: first_port + index for index, node_id in enumerate(node_ids)}
    highest = first_port + len(node_ids) - 1
    if highest > MAX_PORT:
        raise ClusterError(f"there is no port {highest}, {PORTS_END}", "Begin lower.")
    taken = [str(port) for port in ports.values() if not is_free(port)]
    if taken:
        which = f"port {taken[0]} is" if len(taken) == 1 else f"ports {', '.join(taken)} are"
        raise ClusterError(
            f"{which} in use", "Stop what listens there, or choose another first port; 0 takes free ones."
        )
    return ports


def choose_zookeeper_port(
    last: Ports, taken: Sequence[int], is_free: Callable[[int], bool], find_free: Callable[[], int]
) -> int:
    if last.zookeeper is not None:
        if not is_free(last.zookeeper):
            raise ClusterError(
                f"port {last.zookeeper}, where the cluster's ZooKeeper listens, is in use",
                "It may be the ZooKeeper of an earlier start that was killed: stop it first.",
            )
        return last.zookeeper
    while True:
        port = find_free()
        if port not in taken:
            return port
