"""A whole broker in this process, without sockets: frames go to its dispatcher, replies come back as messages."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.broker.broker import Broker
from penstock.broker.peers.peer_requests import Ask, no_peers
from penstock.broker.session import Reply, Session
from penstock.broker.topic_creation import create_topic
from penstock.cluster.store.interface import Store
from penstock.cluster.store.memory import MemoryStore
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.metrics.counters import BrokerMetrics
from penstock.log.storage.files import Files
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsResponse
from penstock.server.assembly import Surroundings
from penstock.server.broker_server import BrokerServer
from penstock.testing.clock import ManualClock

CORRELATION_ID = 5


def encode_frame(request: Message, version: int, client_id: str | None = "me") -> bytes:
    flexible = version >= request.FLEXIBLE_FROM
    return encode_request_header(request.API_KEY, version, CORRELATION_ID, client_id, flexible) + encode(
        request, version
    )


def decode_reply(reply: Reply, response: type[Message], version: int) -> Any:
    assert reply is not None
    data = b"".join(bytes(chunk) if not hasattr(chunk, "read") else chunk.read(0, len(chunk)) for chunk in reply)
    (size,) = struct.unpack_from(">i", data)
    assert size == len(data) - 4
    flexible = version >= response.FLEXIBLE_FROM and response is not ApiVersionsResponse
    _, position = decode_response_header(data[4:], flexible)
    return decode(response, data[4:], version, position)


class Served:
    """One broker and one client of it."""

    def __init__(self, server: BrokerServer, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock
        self.session = Session("1", "10.0.0.1", "PLAINTEXT")

    @property
    def broker(self) -> Broker:
        return self.server.broker

    async def send(self, request: Message, version: int, client_id: str | None = "me") -> Reply:
        reply = self.server.dispatcher.handle(self.session, encode_frame(request, version, client_id))
        return reply if reply is None or isinstance(reply, list) else await reply

    async def ask(self, request: Message, version: int) -> Any:
        return decode_reply(await self.send(request, version), request.RESPONSE, version)

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        named = {key.replace("_", "."): text for key, text in configs.items()}
        await create_topic(self.broker.metadata, name, partitions, named)


@asynccontextmanager
async def serving(
    directory: Path,
    properties: Mapping[str, str] | None = None,
    files: Files | None = None,
    store: Store | None = None,
    ask: Ask = no_peers,
) -> AsyncIterator[Served]:
    config = BrokerConfig.parse({"log.dirs": str(directory), **(properties or {})})
    clock = ManualClock()
    around = Surroundings(clock, files or Files(), random.Random(1))
    metrics = BrokerMetrics(lambda code: ErrorCode(code).name)
    server = await BrokerServer.compose(config, store or MemoryStore(), around, metrics, ask=ask)
    try:
        yield Served(server, clock)
    finally:
        await server.stop()
        await asyncio.sleep(0)
