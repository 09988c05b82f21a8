"""Brokers of one cluster that differ in their settings: racks, data directories."""

from __future__ import annotations

import contextlib
import re
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from confluent_kafka.admin import NewTopic

from penstock.testing.processes import BrokerProcess, ZooKeeperProcess, find_free_port
from tests.clients.confluent import admin_of
from tests.clients.support import PATIENCE_S, eventually
from tests.integration.zookeeper import own_connect

_SHARED = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "2000",
}


class RackedBrokers:
    def __init__(self, zookeeper: ZooKeeperProcess, path: Path, configs: Mapping[int, Mapping[str, str]]) -> None:
        connect = own_connect(zookeeper)
        self.metrics = {node_id: f"127.0.0.1:{find_free_port()}" for node_id in configs}
        self.processes = {
            node_id: BrokerProcess(
                path / f"broker-{node_id}",
                config={
                    **_SHARED,
                    "broker.id": str(node_id),
                    "zookeeper.connect": connect,
                    "penstock.metrics.listen": self.metrics[node_id],
                    **config,
                },
            )
            for node_id, config in configs.items()
        }

    @property
    def servers(self) -> str:
        return ",".join(process.bootstrap_servers for process in self.processes.values())

    def create_topic(self, name: str, replicas: list[int], config: Mapping[str, str] | None = None) -> None:
        """One partition, led by the first of the replicas."""
        topic = NewTopic(name, num_partitions=1, replica_assignment=[replicas], config=dict(config or {}))
        admin_of(self.servers).create_topics([topic])[name].result(PATIENCE_S)
        self.await_in_sync(name, set(replicas))

    def state(self, name: str) -> tuple[int, set[int]]:
        """(leader, in-sync set)."""
        partition = admin_of(self.servers).list_topics(name, timeout=PATIENCE_S).topics[name].partitions.get(0)
        return (-1, set()) if partition is None else (partition.leader, set(partition.isrs))

    def await_in_sync(self, name: str, expected: set[int]) -> None:
        eventually(lambda: self.state(name)[1] == expected, f"an in-sync set {expected} of {name}")

    def metric(self, node_id: int, name: str) -> float:
        with urllib.request.urlopen(f"http://{self.metrics[node_id]}/metrics", timeout=10) as answer:
            found = re.search(rf"^{re.escape(name)} (\S+)$", answer.read().decode(), re.MULTILINE)
        return 0.0 if found is None else float(found[1])

    def bytes_out(self, node_id: int, topic: str) -> float:
        return self.metric(node_id, f'kafka_server_brokertopicmetrics_bytesout_total{{topic="{topic}"}}')


@contextlib.contextmanager
def racked_brokers(
    zookeeper: ZooKeeperProcess, path: Path, configs: Mapping[int, Mapping[str, str]]
) -> Iterator[RackedBrokers]:
    brokers = RackedBrokers(zookeeper, path, configs)
    with contextlib.ExitStack() as stack:
        for process in brokers.processes.values():
            stack.callback(process.kill)
            process.spawn()
        for process in brokers.processes.values():
            process.wait_until_ready()
        count = len(configs)
        eventually(
            lambda: len(admin_of(brokers.servers).list_topics(timeout=20).brokers) == count,
            "the registration of all brokers",
        )
        yield brokers
