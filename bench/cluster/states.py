"""Waiting until every running broker tells the same good news of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.cluster.clusters import BrokerCluster
from bench.errors import BenchError
from penstock.local_cluster.asking import BrokerClients
from penstock.local_cluster.state import ClusterState

POLL_S = 0.05
# Kafka creates 10,000 partitions in minutes on a small machine.
STATE_PATIENCE_S = 600.0


def wait_for_states(cluster: BrokerCluster, is_reached: Callable[[ClusterState], bool]) -> None:
    deadline = time.monotonic() + STATE_PATIENCE_S
    clients = BrokerClients()
    left = [broker for broker in cluster.brokers.values() if broker.is_running]
    try:
        while left:
            broker = left[0]
            state = clients.read_state((broker.host, broker.port))
            if state is not None and is_reached(state):
                left.pop(0)
                continue
            if time.monotonic() > deadline or not broker.is_running:
                raise BenchError(broker.describe(f"tells after {STATE_PATIENCE_S} s: {state}"))
            time.sleep(POLL_S)
    finally:
        clients.close()
