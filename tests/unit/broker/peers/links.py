"""Brokers that exist as far as a link is concerned: each answers by a function, and can be away, silent or cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.core.listeners import Endpoint
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition import AlterPartitionRequest
from penstock.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.create_topics import CreateTopicsRequest
from penstock.protocol.messages.envelope import EnvelopeRequest
from penstock.protocol.messages.list_groups import ListGroupsRequest

SERVED: tuple[type[Message], ...] = (
    ApiVersionsRequest,
    ListGroupsRequest,
    CreateTopicsRequest,
    AlterPartitionRequest,
    EnvelopeRequest,
    BrokerHeartbeatRequest,
)

Answer = Callable[[Message], Any]


def endpoint(node_id: int, port: int | None = None) -> Endpoint:
    return Endpoint("INTERNAL", f"host-{node_id}", port or 9000 + node_id, "PLAINTEXT")


def registration(node_id: int, epoch: int = 1, port: int | None = None) -> BrokerRegistration:
    return BrokerRegistration(node_id, (endpoint(node_id, port),), epoch=epoch)


def image_of(*brokers: BrokerRegistration, controller: int = 1) -> MetadataImage:
    return MetadataImage("cluster", controller, 1, {each.node_id: each for each in brokers})


class FakeLink:
    """`pending` requests wait for the broker behind to answer, to be cut or to be closed."""

    def __init__(self, broker: FakeBroker, client_id: str) -> None:
        self._broker = broker
        self.client_id = client_id
        self.is_open = True
        self.sent: list[tuple[Message, int]] = []
        self._lost: Callable[[], None] | None = None
        self.fell_silent = False
        self._pending: list[asyncio.Future[Any]] = []

    def on_lost(self, listener: Callable[[], None]) -> None:
        self._lost = listener

    async def request(self, message: Message, version: int, *, timeout_s: float | None) -> Any:
        if not self.is_open:
            raise ConnectionError("closed")
        self.sent.append((message, version))
        if isinstance(message, ApiVersionsRequest):
            return self._broker.versions()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending.append(future)
        if not self._broker.is_silent:
            future.set_result(self._broker.answer(message))
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            await self.close()
            raise

    async def close(self) -> None:
        self.is_open = False
        for future in self._pending:
            if not future.done():
                future.set_exception(ConnectionError("closed"))

    def fall_silent(self) -> None:
        """The network is cut, and the kernel has given up."""
        self.fell_silent = True
        self.cut()

    def cut(self) -> None:
        """The other side resets."""
        self.is_open = False
        for future in self._pending:
            if not future.done():
                future.set_exception(ConnectionResetError("reset"))
        if self._lost is not None:
            self._lost()


class FakeBroker:
    def __init__(self, answer: Answer | None = None, served: Iterable[type[Message]] = SERVED) -> None:
        self.answer: Answer = answer or (lambda message: message.RESPONSE())
        self.served = tuple(served)
        self.links: list[FakeLink] = []
        self.attempts = 0
        self.is_away = False
        self.is_silent = False
        self.accepting: asyncio.Event | None = None
        self.image_number = 0

    def versions(self) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=each.API_KEY, min_version=each.MIN_VERSION, max_version=each.MAX_VERSION)
            for each in self.served
        ]
        return ApiVersionsResponse(api_keys=keys, finalized_features_epoch=self.image_number)

    async def connect(self, client_id: str) -> FakeLink:
        self.attempts += 1
        if self.accepting is not None:
            await self.accepting.wait()
        if self.is_away:
            raise ConnectionRefusedError("refused")
        link = FakeLink(self, client_id)
        self.links.append(link)
        return link

    def kill(self) -> None:
        self.is_away = True
        for link in self.links:
            if link.is_open:
                link.cut()


class Network:
    def __init__(self) -> None:
        self.brokers: dict[Endpoint, FakeBroker] = {}
        self.image = image_of()

    def add(self, node_id: int, epoch: int = 1, port: int | None = None, answer: Answer | None = None) -> FakeBroker:
        broker = self.brokers[endpoint(node_id, port)] = FakeBroker(answer)
        brokers = {**self.image.brokers, node_id: registration(node_id, epoch, port)}
        self.image = image_of(*brokers.values())
        return broker

    def find(self, node_id: int) -> Endpoint | None:
        found = self.image.brokers.get(node_id)
        return None if found is None else found.endpoint("INTERNAL")

    async def connect(self, where: Endpoint, client_id: str) -> FakeLink:
        return await self.brokers[where].connect(client_id)
