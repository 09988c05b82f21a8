"""Many partitions on three brokers: how long they take to create, to start with and to lose a leader with."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from bench.cluster.clusters import NODE_IDS, BrokerCluster, ClusterContender
from bench.cluster.loads import memory_of
from bench.cluster.states import wait_for_states
from bench.cluster.topics import request_creation
from bench.loads import Figures, Scale
from penstock.admin import NewTopic
from penstock.local_cluster.state import ClusterCounts

TOPICS = 10


def measure_scale(contender: ClusterContender, directory: Path, scale: Scale) -> Figures:
    count = scale.partitions_of_a_cluster
    figures: Figures = {}
    try:
        with contender.make(directory) as cluster:
            figures["scale-creation"] = _timed(lambda: _create(cluster, count))
            figures |= memory_of(cluster, "scale")
            cluster.stop()
            figures["scale-start"] = _timed(lambda: _start(cluster, count))
            controller = cluster.controller_id()
            victim = next(node_id for node_id in NODE_IDS if node_id != controller)
            figures["scale-failover"] = _timed(lambda: _lose(cluster, victim, count))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return figures


def _timed(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _create(cluster: BrokerCluster, count: int) -> None:
    for number in range(TOPICS):
        request_creation(cluster, NewTopic(f"many-{number}", count // TOPICS, len(NODE_IDS)))
    wait_for_states(cluster, lambda state: _is_whole(state, count))


def _start(cluster: BrokerCluster, count: int) -> None:
    cluster.spawn()
    cluster.wait_until_ready()
    wait_for_states(cluster, lambda state: _is_whole(state, count))


def _is_whole(state: ClusterCounts, count: int) -> bool:
    return (
        state.broker_ids == set(NODE_IDS)
        and state.partition_count >= count
        and not (state.offline or state.unsettled or state.under_replicated)
    )


def _lose(cluster: BrokerCluster, victim: int, count: int) -> None:
    """Until the others agree that each partition has another leader."""
    cluster.brokers[victim].kill()
    wait_for_states(
        cluster,
        lambda state: (
            victim not in state.broker_ids
            and state.partition_count >= count
            and not (state.offline or state.unsettled or state.led.get(victim))
        ),
    )
