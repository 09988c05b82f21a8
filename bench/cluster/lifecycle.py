"""Measurements that need clusters of their own: start, and the death of a leader."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

import confluent_kafka

from bench.cluster.clusters import NODE_IDS, SHORT_SESSION, BrokerCluster, ClusterContender
from bench.cluster.moves import measure_moves
from bench.cluster.scale import measure_scale
from bench.cluster.states import wait_for_states
from bench.cluster.topics import create_topic, wait_until_acknowledged
from bench.errors import BenchError
from bench.loads import PATIENCE_S, Figures, Scale, client_settings
from bench.stalls import longest_turn_ms

SEND_EVERY_S = 0.01
SECONDS_BEFORE_THE_KILL = 1.0
# Partitions of the topic whose leader dies: one is asked by bare sockets, one written to by a client.
BARE, CLIENTS = 0, 1


def measure_start(contender: ClusterContender, directory: Path, scale: Scale) -> Figures:
    """From starting all processes until a topic that is created as soon as possible takes a record with acks=all."""
    cluster = contender.make(directory)
    cluster.prepare()
    try:
        started = time.perf_counter()
        cluster.spawn()
        create_topic(cluster, NODE_IDS[:1])
        seconds = time.perf_counter() - started
    finally:
        cluster.kill()
        shutil.rmtree(directory, ignore_errors=True)
    return {"start": seconds}


def measure_failover(contender: ClusterContender, directory: Path, scale: Scale) -> Figures:
    equal = _failovers(contender, directory / "equal", {} if contender.has_equal_session else SHORT_SESSION)
    default = equal if contender.has_equal_session else _failovers(contender, directory / "default", {})
    return {**equal, **{f"{key}.default": value for key, value in default.items()}}


def _failovers(contender: ClusterContender, directory: Path, config: dict[str, str]) -> Figures:
    figures: Figures = {}
    try:
        with contender.make(directory, config) as cluster:
            controller = cluster.controller_id()
            victim = next(node_id for node_id in NODE_IDS if node_id != controller)
            figures["failover"], figures["failover-client"] = kill_leader(cluster, victim)
            cluster.brokers[victim].start()
            wait_for_states(cluster, lambda state: state.broker_ids == set(NODE_IDS) and not state.under_replicated)
            figures["failover-controller"], _ = kill_leader(cluster, cluster.controller_id())
            if cluster.store is not None:  # Kafka has no loop, and no line about it
                figures["failover-turn"] = longest_turn_ms(cluster.brokers.values())
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return figures


def kill_leader(cluster: BrokerCluster, victim: int) -> tuple[float, float]:
    """Seconds from the kill until another broker acknowledges a record with acks=all, and for how long a client of
    another partition had no acknowledgement.
    """
    topic = create_topic(cluster, [victim, victim])
    with SteadyClient(cluster, topic) as client:
        time.sleep(SECONDS_BEFORE_THE_KILL)
        killed = time.perf_counter()
        cluster.brokers[victim].kill()
        survivors = [broker for node_id, broker in cluster.brokers.items() if node_id != victim]
        wait_until_acknowledged(survivors, topic, BARE)
        seconds = time.perf_counter() - killed
        client.wait_until_acknowledged_after(killed)
    return seconds, client.longest_pause


class SteadyClient:
    """librdkafka, a record every 10 ms, acks=all."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        self._producer = confluent_kafka.Producer({**client_settings(cluster), "acks": "all", "linger.ms": 0})
        self._topic = topic
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._acknowledged = [time.perf_counter()]
        self.longest_pause = 0.0

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            self._producer.produce(self._topic, bytes(100), partition=CLIENTS, on_delivery=self._delivered)
            self._producer.poll(SEND_EVERY_S)

    def _delivered(self, error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is None:
            self._acknowledged.append(time.perf_counter())

    def wait_until_acknowledged_after(self, moment: float) -> None:
        """And at least one that was sent after the change: those before were under way."""
        deadline = time.monotonic() + PATIENCE_S
        count = sum(each > moment for each in self._acknowledged)
        while sum(each > moment for each in self._acknowledged) < count + 20:
            if time.monotonic() > deadline:
                raise BenchError(f"a client had no acknowledgement within {PATIENCE_S} s of the death of a leader")
            time.sleep(SEND_EVERY_S)

    def __enter__(self) -> Self:
        self._producer.list_topics(self._topic, timeout=PATIENCE_S)
        self._acknowledged = [time.perf_counter()]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_stopping.set()
        self._thread.join()
        self._producer.flush(PATIENCE_S)
        times = self._acknowledged
        self.longest_pause = max(after - before for before, after in itertools.pairwise(times))


# Name -> what it does with a cluster of its own in every round.
CLUSTER_LIFECYCLE: dict[str, Callable[[ClusterContender, Path, Scale], Figures]] = {
    "cluster-start": measure_start,
    "cluster-failover": measure_failover,
    "cluster-moves": measure_moves,
    "cluster-scale": measure_scale,
}
