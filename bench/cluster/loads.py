"""The loads on a running cluster: the single broker's, on topics with three replicas of which two must be in sync.

Throughput goes to three partitions, one led by each broker: what a cluster is for. Latency is that of one partition.
"""

from __future__ import annotations

from collections.abc import Callable

from bench.cluster.clusters import NODE_IDS, BrokerCluster
from bench.cluster.topics import topic_of
from bench.contenders import CpuMeter, proportional_megabytes, resident_megabytes
from bench.loads import (
    PRODUCE_CHUNK,
    Figures,
    Scale,
    consume,
    latencies_of_single_records,
    latency_figures,
    now_ms,
    produce,
    throughput_figures,
)
from bench.preload import preload_uniformly
from bench.steady import STEADY_PERCENTS, WARM_UP_SECONDS, latencies_end_to_end

LEADER = NODE_IDS[0]


def measure_throughput(cluster: BrokerCluster, label: str, value_bytes: int, megabytes: int) -> Figures:
    partitions = len(NODE_IDS)
    in_turns = PRODUCE_CHUNK * partitions
    count = megabytes * 1_000_000 // value_bytes // in_turns * in_turns
    sent_megabytes = count * value_bytes / 1_000_000
    producing, consuming = CpuMeter(), CpuMeter()
    with topic_of(cluster, NODE_IDS) as topic, producing.running(*cluster.servers):
        produce_seconds = produce(cluster, topic, value_bytes, count, partitions)
    with topic_of(cluster, NODE_IDS) as topic:
        for partition, broker in enumerate(cluster.brokers.values()):
            preload_uniformly(broker, topic, value_bytes, count // partitions, now_ms(), partition)
        with consuming.running(*cluster.servers):
            consume_seconds = consume(cluster, topic, count, partitions)
    return {
        **throughput_figures(f"produce-{label}", sent_megabytes / produce_seconds, producing),
        **throughput_figures(f"consume-{label}", sent_megabytes / consume_seconds, consuming),
    }


def measure_large(cluster: BrokerCluster, scale: Scale) -> Figures:
    return measure_throughput(cluster, "1k", 1024, scale.megabytes_large)


def measure_small(cluster: BrokerCluster, scale: Scale) -> Figures:
    return measure_throughput(cluster, "100b", 100, scale.megabytes_small)


def measure_latency(cluster: BrokerCluster, scale: Scale) -> Figures:
    """The next record is sent when all in-sync replicas have the last one."""
    meter = CpuMeter()
    leader = cluster.brokers[LEADER]
    with topic_of(cluster, [LEADER]) as topic:
        latencies_of_single_records(leader, topic, scale.single_records // 10)
        with meter.running(*cluster.servers):
            latencies = latencies_of_single_records(leader, topic, scale.single_records)
    return latency_figures("latency", latencies, (50, 99), meter)


def measure_steady(cluster: BrokerCluster, scale: Scale) -> Figures:
    meter = CpuMeter()
    with topic_of(cluster, [LEADER]) as topic, meter.running(*cluster.servers):
        latencies = latencies_end_to_end(cluster, topic, scale.steady_seconds, WARM_UP_SECONDS)
    return latency_figures("steady", latencies, STEADY_PERCENTS, meter)


def memory_of(cluster: BrokerCluster, label: str) -> Figures:
    figures = {
        f"memory-{label}": sum(resident_megabytes(server.pid) for server in cluster.servers),
        f"memory-{label}.proportional": sum(proportional_megabytes(server.pid) for server in cluster.servers),
    }
    if cluster.store is not None:
        figures[f"memory-{label}.store"] = resident_megabytes(cluster.store.pid)
    return figures


# Name -> what it does to a running cluster in every round.
CLUSTER_LOADS: dict[str, Callable[[BrokerCluster, Scale], Figures]] = {
    "cluster-large": measure_large,
    "cluster-small": measure_small,
    "cluster-latency": measure_latency,
    "cluster-steady": measure_steady,
}
