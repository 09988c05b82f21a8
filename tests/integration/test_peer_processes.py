"""A broker's process is killed, paused or reset, and another broker's view of it over real sockets."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from penstock.broker.peers.failure_detection import FailureDetector, Probe, probe_by_tcp
from penstock.broker.peers.peers import Peers, PeerUnavailableError
from penstock.broker.peers.tcp_connect import connect_by_tcp
from penstock.client.routes.socket_options import set_options
from penstock.client.security import ClientSecurity
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.core.listeners import Endpoint
from penstock.processes.server_process import pause_process
from penstock.protocol.messages.list_groups import ListGroupsRequest

# A real broker in a process of its own, which says its port and serves until it is killed.
_BROKER = """
import asyncio, sys
from penstock.core.config.broker_config import BrokerConfig
from penstock.server.broker_server import BrokerServer

async def main():
    config = BrokerConfig.parse({"log.dirs": sys.argv[1], "listeners": "PLAINTEXT://127.0.0.1:0"})
    server = await BrokerServer.start(config, is_temporary=True)
    print(server.port, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


class Pair:
    """The broker that asks, node 1, and the broker in a process of its own, node 2."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.endpoint = Endpoint("PLAINTEXT", "localhost", port, "PLAINTEXT")
        self.image = MetadataImage("c", 1, 1, {2: BrokerRegistration(2, (self.endpoint,), epoch=7)})
        self.peers = Peers(1, self.find, connect_by_tcp(ClientSecurity), Random(1).random)
        self.dead: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self.detector = FailureDetector(1, self.peers, self.find, probe_by_tcp, self._report, Random(1).random)

    def find(self, node_id: int) -> Endpoint | None:
        found = self.image.brokers.get(node_id)
        return None if found is None else found.endpoint("PLAINTEXT")

    async def _report(self, node_id: int, epoch: int) -> None:
        await self.dead.put((node_id, epoch))

    async def watched(self) -> None:
        self.detector.follow(self.image)
        while not self.peers.is_connected(2):  # noqa: ASYNC110  # seen from outside, as an operator would
            await asyncio.sleep(0.01)


@asynccontextmanager
async def pair(directory: Path) -> AsyncIterator[Pair]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _BROKER, str(directory), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    both = Pair(process, int(await process.stdout.readline()))
    try:
        yield both
    finally:
        await both.detector.close()
        await both.peers.close()
        if process.returncode is None:
            process.kill()
        await process.wait()


def with_pair(directory: Path, scene: Callable[[Pair], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(60), pair(directory) as both:
            await scene(both)

    asyncio.run(whole())


def test_death_is_reported_when_the_process_is_killed(tmp_path: Path) -> None:
    async def scene(both: Pair) -> None:
        await both.watched()
        both.process.kill()
        assert await both.dead.get() == (2, 7)

    with_pair(tmp_path, scene)


def test_nothing_is_reported_when_the_process_is_paused(tmp_path: Path) -> None:
    async def scene(both: Pair) -> None:
        await both.watched()
        pause_process(both.process.pid)
        # The kernel accepts for the process, and the request is not answered.
        assert await probe_by_tcp(both.endpoint) is Probe.ACCEPTED
        with pytest.raises(PeerUnavailableError):
            await both.peers.ask(2, ListGroupsRequest(), timeout_s=0.2)
        assert both.dead.empty()
        os.kill(both.process.pid, signal.SIGCONT)
        assert (await both.peers.ask(2, ListGroupsRequest(), timeout_s=30)).error_code == 0

    with_pair(tmp_path, scene)


def test_outstanding_request_fails_at_once_when_the_process_is_killed(tmp_path: Path) -> None:
    async def scene(both: Pair) -> None:
        lost = asyncio.Event()
        both.peers.on_lost(lambda _: lost.set())
        await both.peers.ask(2, ListGroupsRequest(), timeout_s=30)
        pause_process(both.process.pid)
        waiting = asyncio.ensure_future(both.peers.ask(2, ListGroupsRequest(), timeout_s=1_000))
        await asyncio.sleep(0.05)
        both.process.kill()
        with pytest.raises(PeerUnavailableError):
            await waiting
        await lost.wait()
        with pytest.raises(PeerUnavailableError):
            await both.peers.ask(2, ListGroupsRequest(), timeout_s=30)

    with_pair(tmp_path, scene)


def test_silence_is_noticed_by_the_kernel_when_the_options_are_set() -> None:
    with socket.socket() as sock:
        set_options(sock)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 6_000
