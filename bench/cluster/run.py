"""One run over both clusters, in alternating rounds."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import confluent_kafka

from bench.cluster.clusters import NODE_IDS, BrokerCluster, ClusterContender, warm_up
from bench.cluster.lifecycle import CLUSTER_LIFECYCLE
from bench.cluster.loads import CLUSTER_LOADS, memory_of
from bench.cluster.rows import CLUSTER_ROWS
from bench.cluster.topics import create_topic
from bench.errors import BenchError
from bench.gathering import Gathering, alternate
from bench.loads import QUICK, Figures, Scale
from bench.stalls import LoopStalls

CLUSTER_NAMES = (*CLUSTER_LOADS, *CLUSTER_LIFECYCLE)
BEGIN, END = "<!-- cluster: begin -->", "<!-- cluster: end -->"


class ClusterRun:
    """Figures gather in `result`."""

    def __init__(self, contenders: Sequence[ClusterContender], scale: Scale, rounds: int, directory: Path) -> None:
        self.contenders = contenders
        self.scale = scale
        self.rounds = rounds
        self.directory = directory
        title = "three brokers and their ZooKeeper beside three nodes of Apache Kafka"
        self.result = Gathering([contender.name for contender in contenders], CLUSTER_ROWS, title, (BEGIN, END))
        self.stalls = LoopStalls()

    def measure(self, names: Sequence[str]) -> None:
        self.result.begin()
        for contender in self.contenders:
            warm_up(contender, self._directory_of("first", contender))
        if loads := [name for name in names if name in CLUSTER_LOADS]:
            self._measure_loads(loads)
        for name in (name for name in names if name in CLUSTER_LIFECYCLE):
            for number in range(self.rounds):
                for contender in alternate(self.contenders, number):
                    directory = self._directory_of(f"{name}-{number}", contender)
                    self.result.keep(contender.name, CLUSTER_LIFECYCLE[name](contender, directory, self.scale), number)

    def _measure_loads(self, names: Sequence[str]) -> None:
        with ExitStack() as stack:
            clusters = {
                contender: stack.enter_context(contender.make(self._directory_of("loads", contender)))
                for contender in self.contenders
            }
            for contender, cluster in clusters.items():
                create_topic(cluster, NODE_IDS)
                self.result.keep(contender.name, memory_of(cluster, "idle"))
            for name in names:  # a Java broker's compiler needs some load before it shows what it can do
                for cluster in clusters.values():
                    _run_load(name, cluster, QUICK)
            for number in range(self.rounds):
                for name in names:
                    for contender in alternate(self.contenders, number):
                        self.result.keep(contender.name, _run_load(name, clusters[contender], self.scale), number)
                        self._look_for_stalls(clusters[contender], name)
            for contender, cluster in clusters.items():
                self.result.keep(contender.name, memory_of(cluster, "loaded"))

    def _look_for_stalls(self, cluster: BrokerCluster, name: str) -> None:
        for broker in cluster.brokers.values():
            for stall in self.stalls.look(broker, name):
                print(f"{cluster.name}: {stall}", flush=True)

    def _directory_of(self, name: str, contender: ClusterContender) -> Path:
        return self.directory / contender.name.replace(" ", "-") / name


def _run_load(name: str, cluster: BrokerCluster, scale: Scale) -> Figures:
    try:
        return CLUSTER_LOADS[name](cluster, scale)
    except (BenchError, OSError, confluent_kafka.KafkaException) as error:
        raise BenchError(cluster.describe(f"failed under the load '{name}': {error}")) from error
