"""Two whole brokers of one cluster in this process: the first is the controller, the second asks it without sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

from penstock.broker.forwarding.forwarder import Forwarding
from penstock.broker.peers.controller import Controller
from penstock.broker.peers.peers import Peers
from penstock.broker.session import Session
from penstock.cluster.image import MetadataImage
from penstock.cluster.metadata import Metadata
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from penstock.core.listeners import Endpoint
from penstock.core.time.backoff import Backoff
from penstock.protocol.message import Message
from penstock.protocol.messages.envelope import EnvelopeRequest
from tests.unit.broker.served import Served, decode_reply, encode_frame, serving

CONTROLLER, OTHER = 1, 2


class View:
    """What the second broker knows of the controller; the test says it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.is_controller = False
        self._listeners: list[Callable[[MetadataImage, MetadataImage], None]] = []

    def subscribe(self, listener: Callable[[MetadataImage, MetadataImage], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def publish(self, **changes: Any) -> None:
        old, self.image = self.image, replace(self.image, **changes)
        for listener in self._listeners:
            listener(old, self.image)


class OverlaidMetadata:
    """The metadata of a broker with another image, which the test makes up."""

    def __init__(self, real: Metadata, image: MetadataImage) -> None:
        self._real = real
        self.image = image

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def overlay(served: Served, **changes: Any) -> None:
    """From here on the broker serves an image with these changes."""
    metadata = served.broker.metadata
    served.broker.metadata = cast("Metadata", OverlaidMetadata(metadata, replace(metadata.image, **changes)))


class DispatcherLink:
    """A connection whose other end is a dispatcher. `disturb` is called when a request was carried out and before it
    is answered: it may raise, which ends the connection, or give another answer.
    """

    def __init__(
        self, served: Served, listener: str = "PLAINTEXT", disturb: Callable[[Message], Any] = lambda _: None
    ) -> None:
        self._served = served
        self._session = Session("peer", "10.0.0.9", listener)
        self._disturb = disturb
        self.is_open = True
        self.fell_silent = False

    def on_lost(self, listener: Callable[[], None]) -> None:
        pass

    async def request(self, message: Message, version: int, *, timeout_s: float | None) -> Any:
        reply = self._served.server.dispatcher.handle(self._session, encode_frame(message, version, "broker"))
        if reply is not None and not isinstance(reply, list):
            reply = await reply
        try:
            return self._disturb(message) or decode_reply(reply, message.RESPONSE, version)
        except OSError:
            self.is_open = False
            raise

    async def close(self) -> None:
        self.is_open = False


class Pair:
    def __init__(self, controller: Served, other: Served) -> None:
        self.controller = controller
        self.other = other
        self.view = View(replace(other.broker.metadata.image, controller_id=CONTROLLER))
        self.is_away = False
        self.refused_connections = 0
        self.disturbances: list[OSError | Message] = []  # instead of the next answers to envelopes
        self.peers = Peers(OTHER, self.find, self._connect, Random(1).random, Backoff(0.0, 0.0))
        self.channel = Controller(OTHER, self.peers, self.view, Random(1).random)
        other.broker.metadata.subscribe(lambda _, new: self.view.publish(topics=new.topics))
        controller.broker.has_peers = other.broker.has_peers = True
        other.broker.forwarding = Forwarding(self.channel, other.broker.slices)

    def find(self, node_id: int) -> Endpoint | None:
        found = self.view.image.brokers.get(node_id)
        return None if found is None else found.endpoint("PLAINTEXT")

    async def know(self, *names: str) -> None:
        """Until the second broker knows these topics."""
        await self.channel.wait_until(lambda: self.other.broker.metadata.image.topics.keys() >= set(names), 10)

    async def _connect(self, _endpoint: Endpoint, _client_id: str) -> DispatcherLink:
        if self.is_away:
            self.refused_connections += 1
            raise ConnectionRefusedError("away")
        return DispatcherLink(self.controller, disturb=self._disturb)

    def _disturb(self, message: Message) -> Message | None:
        if not isinstance(message, EnvelopeRequest) or not self.disturbances:
            return None
        disturbance = self.disturbances.pop(0)
        if isinstance(disturbance, OSError):
            raise disturbance
        return disturbance


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[Pair]:
    tree = MemoryTree()
    async with (
        serving(directory / "1", {"node.id": "1"}, store=MemoryStore(tree)) as controller,
        serving(directory / "2", {"node.id": "2"}, store=MemoryStore(tree)) as other,
    ):
        both = Pair(controller, other)
        try:
            yield both
        finally:
            await both.peers.close()
