"""Two brokers with real listeners, and a real client that asks the one that is not the controller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import KafkaError
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from penstock.broker.forwarding.forwarder import Forwarding
from penstock.broker.peers.controller import Controller
from penstock.broker.peers.peers import Peers
from penstock.broker.peers.tcp_connect import connect_by_tcp
from penstock.client.security import ClientSecurity
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.listeners import Endpoint
from penstock.core.metrics.counters import BrokerMetrics
from penstock.log.storage.files import Files
from penstock.protocol.errors import ErrorCode
from penstock.server.assembly import Surroundings
from penstock.server.broker_server import BrokerServer
from penstock.server.net.listener import ConnectionLimits, TcpListener
from tests.unit.broker.peers.pair import OverlaidMetadata, View

LIMITS = ConnectionLimits(100 << 20, 600_000)


@contextlib.asynccontextmanager
async def listening(directory: Path, node_id: int, tree: MemoryTree) -> AsyncIterator[BrokerServer]:
    host = "127.0.0.1"
    properties = {"node.id": str(node_id), "log.dirs": str(directory), "listeners": f"PLAINTEXT://{host}:0"}
    config = BrokerConfig.parse(properties)
    metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
    clock = SystemClock()
    listener = TcpListener("PLAINTEXT", LIMITS, metrics.sockets, clock)
    await listener.bind(host, 0)
    around = Surroundings(clock, Files(), Random(node_id))
    server = await BrokerServer.compose(config, MemoryStore(tree), around, metrics, [listener])
    await listener.start()
    try:
        yield server
    finally:
        await server.stop()


async def ask(bootstrap_servers: str) -> dict[str, Any]:
    """What the client gets, from a thread of its own: it blocks."""

    def work() -> dict[str, Any]:
        admin = AdminClient({"bootstrap.servers": bootstrap_servers})
        told: dict[str, Any] = {}
        created = admin.create_topics([NewTopic("orders", 2, 1, config={"retention.ms": "5000"})])
        told["created"] = created["orders"].result(30)
        again = admin.create_topics([NewTopic("orders", 2, 1)])["orders"]
        error = again.exception(30)
        told["again"] = error.args[0].code() if error is not None else None
        told["grown"] = admin.create_partitions([NewPartitions("orders", 3)])["orders"].result(30)
        entry = ConfigEntry("retention.ms", "7000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
        (altered,) = admin.incremental_alter_configs([resource]).values()
        told["altered"] = altered.result(30)
        return told

    return await asyncio.to_thread(work)


def test_client_administers_the_cluster_when_it_asks_a_broker_that_is_not_the_controller(tmp_path: Path) -> None:
    async def run() -> None:
        tree = MemoryTree()
        async with listening(tmp_path / "1", 1, tree) as first, listening(tmp_path / "2", 2, tree) as second:
            controller, other = first.broker, second.broker
            view = View(replace(other.metadata.image, controller_id=1))

            def find(node_id: int) -> Endpoint | None:
                return view.image.brokers[node_id].endpoint("PLAINTEXT")

            peers = Peers(2, find, connect_by_tcp(ClientSecurity), Random(1).random)
            controller.has_peers = True
            other.forwarding = Forwarding(Controller(2, peers, view, Random(1).random), other.slices)
            # The client is told of the second broker alone, so that it cannot go to the controller by itself.
            other.metadata = _only(other.metadata, 2)
            try:
                told = await ask(f"127.0.0.1:{second.port}")
            finally:
                await peers.close()
            assert told == {
                "created": None,
                "again": KafkaError.TOPIC_ALREADY_EXISTS,
                "grown": None,
                "altered": None,
            }
            topic = controller.metadata.image.topics["orders"]
            assert len(topic.partitions) == 3
            assert topic.configs == {"retention.ms": "7000"}

    asyncio.run(run())


def _only(metadata: Any, node_id: int) -> Any:
    image = metadata.image
    return OverlaidMetadata(metadata, replace(image, controller_id=node_id, brokers={node_id: image.brokers[node_id]}))
