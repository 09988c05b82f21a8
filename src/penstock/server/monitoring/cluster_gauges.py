"""Numbers of a broker that has others beside it: how far it is behind them, how fast its throttled replicas are, and
how its session with the store is. A broker that is alone has none of these, and does not load this module.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from penstock.broker.broker import Broker
from penstock.broker.cluster_links import ClusterLinks
from penstock.broker.replicas.replicas import Replicas
from penstock.cluster.store.interface import SessionState, Store
from penstock.core.metrics.cluster_counters import StoreMetrics
from penstock.core.metrics.counters import Survey
from penstock.core.metrics.samples import Labels, Number

_MAX_LAG = "kafka_server_replicafetchermanager_maxlag"
_LAG = "kafka_server_fetcherlagmetrics_consumerlag"
# Partitions whose lag is told one by one: more says no more than the largest lag does.
_MOST_LAGS = 1_000


def register_cluster_gauges(broker: Broker, cluster_links: ClusterLinks, store: Store) -> None:
    metrics = broker.metrics
    metrics.register_survey((_MAX_LAG, _LAG), lambda: _survey_lags(cluster_links.replicas))
    metrics.register_gauge("kafka_server_leaderreplication_byte_rate", _rate(cluster_links, is_leader=True))
    metrics.register_gauge("kafka_server_followerreplication_byte_rate", _rate(cluster_links, is_leader=False))
    if math.isfinite(store.session_timeout_s):
        watch_session(store, metrics.store)
        metrics.register_gauge("kafka_server_sessionexpirelistener_sessionstate", lambda: _session(store))


def _survey_lags(replicas: Replicas | None) -> Survey:
    """Names are those that Kafka gives its fetchers, of which there is one for each leader."""
    lags: list[tuple[int, str, int, int]] = []
    for leader, (topic, partition), lag in () if replicas is None else replicas.lags():
        if lag:
            lags.append((lag, topic, partition, leader))
        yield
    furthest = heapq.nlargest(_MOST_LAGS, lags)
    return {
        _MAX_LAG: [(("Replica",), furthest[0][0] if furthest else 0)],
        _LAG: [
            ((f"ReplicaFetcherThread-0-{leader}", topic, str(partition)), lag)
            for lag, topic, partition, leader in furthest
        ],
    }


def _rate(cluster_links: ClusterLinks, *, is_leader: bool) -> Callable[[], float]:
    def read() -> float:
        replicas = cluster_links.replicas
        if replicas is None:
            return 0.0
        return (replicas.throttles.leader if is_leader else replicas.throttles.follower).rate()

    return read


def _session(store: Store) -> list[tuple[Labels, Number]]:
    return [((state.value,), int(store.session_state is state)) for state in SessionState]


def watch_session(store: Store, metrics: StoreMetrics) -> None:
    """Counts from here on. The first connection is there already."""
    metrics.is_remote = True

    def count(state: SessionState) -> None:
        metrics.connects += state is SessionState.CONNECTED
        metrics.disconnects += state is SessionState.SUSPENDED
        metrics.expirations += state is SessionState.ENDED

    store.on_session(count)
