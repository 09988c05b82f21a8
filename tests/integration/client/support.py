"""What the tests of the client of a whole cluster share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import confluent_kafka

from penstock.client.addresses import parse_servers
from penstock.client.brokers import Brokers
from penstock.client.membership import Generation
from penstock.embedded import AsyncBroker
from penstock.testing.tcp_proxy import TcpProxy

WAIT_S = 60


def brokers_of(servers: str) -> Brokers:
    return Brokers(parse_servers(servers))


class ProxiedBroker(NamedTuple):
    """Clients are led through the proxy."""

    broker: AsyncBroker
    proxy: TcpProxy
    brokers: Brokers


@asynccontextmanager
async def proxied_broker(settings: Mapping[str, str] | None = None) -> AsyncIterator[ProxiedBroker]:
    proxy = TcpProxy(0)
    async with proxy:
        config = {**(settings or {}), "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        async with AsyncBroker(config=config) as broker:
            proxy.lead_to(broker.port)
            async with Brokers([("127.0.0.1", proxy.port)]) as brokers:
                yield ProxiedBroker(broker, proxy, brokers)


def read_values(servers: str, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """By a client that is not ours: the first `count` values of partition 0."""
    settings = {"bootstrap.servers": servers, "group.id": "reader", "isolation.level": isolation}
    consumer = confluent_kafka.Consumer({**settings, "enable.auto.commit": False})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        while len(values) < count:
            found = consumer.consume(count - len(values), WAIT_S)
            assert found, f"{len(values)} records of {count} came"
            for message in found:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
        return values
    finally:
        consumer.close()


class Events:
    """A listener of a member that notes what it is told."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[tuple[str, Generation | Exception]] = asyncio.Queue()

    async def assigned(self, generation: Generation) -> None:
        self.told.put_nowait(("assigned", generation))

    async def revoked(self, generation: Generation) -> None:
        self.told.put_nowait(("revoked", generation))

    async def lost(self, generation: Generation) -> None:
        self.told.put_nowait(("lost", generation))

    async def failed(self, error: Exception) -> None:
        self.told.put_nowait(("failed", error))

    async def next(self, kind: str) -> Generation:
        """The next of this kind; others before it are passed over."""
        async with asyncio.timeout(WAIT_S):
            while True:
                found, what = await self.told.get()
                if found == kind:
                    assert isinstance(what, Generation)
                    return what

    async def failure(self) -> Exception:
        async with asyncio.timeout(WAIT_S):
            found, what = await self.told.get()
        assert found == "failed"
        assert isinstance(what, Exception)
        return what
