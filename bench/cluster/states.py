"""Waiting until every running broker tells the same good news of the cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.cluster.clusters import BrokerCluster
from bench.errors import BenchError
from penstock.admin import Admin, connect
from penstock.client.addresses import Address
from penstock.local_cluster.state import ClusterCounts

POLL_S = 0.05
ANSWER_TIMEOUT_S = 2.0
# Kafka creates 10,000 partitions in minutes on a small machine.
STATE_PATIENCE_S = 600.0


def wait_for_states(cluster: BrokerCluster, is_reached: Callable[[ClusterCounts], bool]) -> None:
    deadline = time.monotonic() + STATE_PATIENCE_S
    left = [broker for broker in cluster.brokers.values() if broker.is_running]
    with connect([(broker.host, broker.port) for broker in left], timeout_s=ANSWER_TIMEOUT_S) as admin:
        while left:
            broker = left[0]
            state = read_counts(admin, (broker.host, broker.port))
            if state is not None and is_reached(state):
                left.pop(0)
                continue
            if time.monotonic() > deadline or not broker.is_running:
                raise BenchError(broker.describe(f"tells after {STATE_PATIENCE_S} s: {state}"))
            time.sleep(POLL_S)


def read_counts(admin: Admin, address: Address) -> ClusterCounts | None:
    """None when the broker does not answer."""
    view = admin.nodes.views([address]).found.get(address)
    return None if view is None else ClusterCounts.of(view)
