"""Several nodes of Apache Kafka as one cluster: leaders change when one is killed.

Each node of `ApacheKafkaCluster` is broker and controller. `ApacheKafkaBrokers` has brokers alone and one controller
beside them, so that the controller can be hurt by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import cycle
from pathlib import Path
from typing import Self

from apache_kafka.jars import SERVER_HEAP_MB
from apache_kafka.node import ApacheKafkaNode
from penstock.testing.processes import ServerGroup, find_free_port

# Every topic on all three nodes, and one of them may be away.
REPLICATED = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


class ApacheKafkaCluster(ServerGroup):
    """`kill` and `start` are of one node at a time, in turn."""

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        heap_mb: int = SERVER_HEAP_MB,
    ) -> None:
        ports = {number: (find_free_port(), find_free_port()) for number in range(1, nodes + 1)}
        voters = ",".join(f"{number}@127.0.0.1:{controller}" for number, (_, controller) in ports.items())
        self.nodes = [
            ApacheKafkaNode(
                directory / f"node-{number}",
                port=port,
                heap_mb=heap_mb,
                config={
                    **REPLICATED,
                    **(config or {}),
                    "node.id": str(number),
                    "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                    "controller.quorum.voters": voters,
                },
            )
            for number, (port, controller) in ports.items()
        ]
        self._turns = cycle(self.nodes)
        self._victim = self.nodes[0]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes)

    def kill(self) -> None:
        self._victim = next(self._turns)
        self._victim.kill()

    def start(self) -> Self:
        self._victim.start()
        return self

    def start_all(self, stack: ExitStack) -> None:
        for node in self.nodes:
            node.spawn()  # none is ready before most of them are there
            stack.callback(node.kill)
        for node in self.nodes:
            node.wait_until_ready()


CONTROLLER_ID = 100


class ApacheKafkaBrokers(ServerGroup):
    """`brokers` by their ids, and `controller`, the only one."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 3,
        *,
        config: Mapping[str, str] | None = None,
        heap_mb: int = SERVER_HEAP_MB,
    ) -> None:
        controller_port = find_free_port()
        address = f"CONTROLLER://127.0.0.1:{controller_port}"
        shared = {
            **REPLICATED,
            **(config or {}),
            "controller.quorum.voters": f"{CONTROLLER_ID}@127.0.0.1:{controller_port}",
        }

        def make(name: str, port: int, own: Mapping[str, str]) -> ApacheKafkaNode:
            return ApacheKafkaNode(directory / name, port=port, heap_mb=heap_mb, config={**shared, **own})

        self.controller = make(
            "controller",
            controller_port,
            {
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "listeners": address,
                "advertised.listeners": address,
            },
        )
        self.brokers = {}
        for number in range(1, brokers + 1):
            port = find_free_port()
            own = {"process.roles": "broker", "node.id": str(number), "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
            self.brokers[number] = make(f"broker-{number}", port, own)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def start_all(self, stack: ExitStack) -> None:
        nodes = [self.controller, *self.brokers.values()]
        for node in nodes:
            node.spawn()
            stack.callback(node.kill)
        for node in nodes:
            node.wait_until_ready()
