"""A whole broker without sockets: what `BrokerServer.compose` makes, on a disk and a store in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from penstock.broker.broker import Broker
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.clock import SystemClock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.protocol.errors import ErrorCode
from penstock.server.assembly import Surroundings
from penstock.server.broker_server import BrokerServer
from penstock.testing.disks.memory import MemoryFiles

DATA = "/data"
SMALL = {
    "penstock.cluster.id": "composed",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}


class Ground:
    """What outlives a broker: its disk and its metadata."""

    def __init__(self) -> None:
        self.files = MemoryFiles(SystemClock().now_ms)
        self.files.make_directories(DATA)
        self.tree = MemoryTree()

    @asynccontextmanager
    async def broker(self, config: Mapping[str, str] | None = None) -> AsyncIterator[Broker]:
        server = await self.start(config)
        try:
            yield server.broker
        finally:
            await server.stop()

    async def start(self, config: Mapping[str, str] | None = None) -> BrokerServer:
        surroundings = Surroundings(SystemClock(), self.files, random.Random(1))
        parsed = BrokerConfig.parse({"log.dirs": DATA, **SMALL, **(config or {})})
        metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
        return await BrokerServer.compose(parsed, MemoryStore(self.tree), surroundings, metrics)
