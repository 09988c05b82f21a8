"""A TLS listener and a client of it on both sides of a fake transport: every byte passes when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
import struct
from collections.abc import Callable, Coroutine

from penstock.broker.session import Reply, Session
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.message import Buffer
from penstock.security.certificates.directory import CertificateDirectory
from penstock.security.tls.contexts import load_client, load_server
from penstock.security.tls.settings import TlsSettings
from penstock.server.net.handshakes import Done, Steps, Work
from penstock.server.net.listener import ConnectionLimits
from penstock.server.net.tls_link import TlsLink
from penstock.server.net.tls_listener import TlsListener
from penstock.testing.clock import ManualClock
from penstock.testing.transports import FakeTransport
from tests.certificates import broker_settings, client_settings

BOUNDS = ConnectionLimits(8 << 20, 1000, 1000, 0)


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class HeldSteps:
    """Steps of handshakes that are made when the test says so, as in a thread that takes its time."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Work, Done]] = []

    def run(self, work: Work, done: Done) -> None:
        self.waiting.append((work, done))

    def make(self) -> None:
        work, done = self.waiting.pop(0)
        done(work())

    def close(self) -> None:
        """Nothing is left."""


class Port:
    """A listener that answers each request with its bytes, and a client on the other side of a fake transport."""

    def __init__(self, directory: CertificateDirectory, steps: Steps | None = None, **more: str) -> None:
        properties = broker_settings(directory, **more)
        tls = load_server(TlsSettings.of_properties(properties))
        self.clock = ManualClock()
        self.metrics = SocketMetrics()
        self.listener = TlsListener("SSL", BOUNDS, self.metrics, self.clock, tls, has_login=False, steps=steps)
        self.requests: list[bytes] = []
        self.principals: list[str] = []
        self.listener.handle_with(self._handle)

    def _handle(self, session: Session, request: Buffer) -> Reply:
        self.requests.append(bytes(request))
        self.principals.append(str(session.principal))
        return [bytearray(frame(bytes(request)))]

    def accept(self, *, takes_everything: bool = True) -> FakeTransport:
        link = self.listener.new_protocol()
        assert isinstance(link, TlsLink)
        transport = FakeTransport(link, takes_everything=takes_everything)
        transport.connect()
        return transport


class TlsClient:
    def __init__(self, transport: FakeTransport, context: ssl.SSLContext) -> None:
        self.transport = transport
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")
        self.received = bytearray()
        self._seen = 0

    async def shake_hands(self) -> None:
        for _ in range(4):
            with contextlib.suppress(ssl.SSLWantReadError):
                self.tls.do_handshake()
            await self.exchange()

    async def exchange(self) -> None:
        """What each side has for the other is delivered."""
        self.transport.receive(self.outgoing.read())
        for _ in range(5):
            await asyncio.sleep(0)
        self.incoming.write(bytes(self.transport.sent[self._seen :]))
        self._seen = len(self.transport.sent)

    async def send(self, data: bytes) -> None:
        self.tls.write(data)
        await self.exchange()
        with contextlib.suppress(ssl.SSLWantReadError):
            while piece := self.tls.read(1 << 16):
                self.received += piece


def context_of(directory: CertificateDirectory, name: str | None = None) -> ssl.SSLContext:
    return load_client(TlsSettings.of_properties(client_settings(directory, name)))


def in_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        asyncio.run(test(**fixtures))

    return run


def first_message(context: ssl.SSLContext) -> bytes:
    """What a client sends first."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
