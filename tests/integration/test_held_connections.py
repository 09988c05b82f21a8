"""Clients that come faster than they may: nothing of theirs is read before their time, by whichever event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from penstock.broker.session import Reply, Session
from penstock.core.clock import SystemClock
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.message import Buffer
from penstock.security.tls.contexts import load_client, load_server
from penstock.security.tls.settings import TlsSettings
from penstock.server.net.admission import Admission, AdmissionVerdict
from penstock.server.net.backlog import Backlog
from penstock.server.net.listener import KERNEL_TUNING, ConnectionLimits, TcpListener
from penstock.server.net.tls_listener import TlsListener
from tests.certificates import broker_settings, client_settings, new_directory
from tests.unit.server.tls_harness import frame

LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
HELD_MS = 300
BOUNDS = ConnectionLimits(8 << 20, 600_000, KERNEL_TUNING, KERNEL_TUNING)
PATIENCE_S = 20.0
A_LOT = 16 << 20


class Late(Admission):
    """Everybody has come too early."""

    def admit(self, listener: str, address: str, now_ms: int) -> AdmissionVerdict:
        return super().admit(listener, address, now_ms)._replace(wait_ms=HELD_MS)


@contextlib.asynccontextmanager
async def listening(listener: TcpListener) -> AsyncIterator[int]:
    """Answers each request with its bytes."""

    def handle(session: Session, request: Buffer) -> Reply:
        return [bytearray(frame(bytes(request)))]

    listener.share(Late(), Backlog())
    listener.handle_with(handle)
    await listener.bind("localhost", 0)
    await listener.start()
    try:
        yield listener.port
    finally:
        await listener.close()


async def ask(port: int, context: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
    try:
        writer.write(frame(b"hello"))
        return await reader.readexactly(9)
    finally:
        writer.close()


async def until_held(metrics: SocketMetrics) -> None:
    """And a third of the time longer, in which something could be read."""
    while not metrics.delayed:  # noqa: ASYNC110 - nobody tells of it
        await asyncio.sleep(0.005)
    await asyncio.sleep(HELD_MS / 3000)


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_client_with_tls_is_served_when_it_was_held_back(
    new_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """asyncio's loop never read it again, and the handshake timed out."""
    directory = new_directory(tmp_path)
    tls = load_server(TlsSettings.of_properties(broker_settings(directory)))
    context = load_client(TlsSettings.of_properties(client_settings(directory)))
    metrics = SocketMetrics()

    async def run() -> None:
        listener = TlsListener("SSL", BOUNDS, metrics, SystemClock(), tls, has_login=False)
        async with listening(listener) as port, asyncio.timeout(PATIENCE_S):
            asking = asyncio.create_task(ask(port, context))
            await until_held(metrics)
            assert not metrics.handshakes
            assert await asking == frame(b"hello")

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("new_loop", LOOPS, ids=["asyncio", "uvloop"])
def test_nothing_is_read_when_a_client_is_held_back(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """uvloop begins to read after a connection is made, whatever it was told before: requests filled the memory."""
    metrics = SocketMetrics()

    async def run() -> None:
        async with listening(TcpListener("PLAINTEXT", BOUNDS, metrics, SystemClock())) as port:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection("localhost", port)
                requests = frame(bytes(1 << 20)) * (A_LOT >> 20)
                writer.write(requests)
                await until_held(metrics)
                assert metrics.bytes_in < 1 << 20  # what the loop read before it could be told
                assert await reader.readexactly(len(requests)) == requests
                writer.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
