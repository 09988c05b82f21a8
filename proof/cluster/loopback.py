"""A network without root: all members on the loopback, with a proxy on each way between two of them.

A broker has one address for all its peers, so one server accepts them. The client id of the first request says which
broker it is, and the connection goes on by the proxy of these two. Clients reach a broker by a proxy as well, so that
it can be isolated. Other than in a real network, a connection can still be made while its way is cut.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.processes.server_process import find_free_port
from penstock.processes.zookeeper_process import ZooKeeperServer
from penstock.testing.tcp_proxy import TcpProxy
from proof.cluster.members import BROKERS, Wiring, broker_name
from proof.cluster.network import CLIENTS

_HOST = "127.0.0.1"
# Size, API key, version and correlation id, then the size of the client id.
_HEADER = struct.Struct(">ihhih")
_CALL_TIMEOUT_S = 30.0
_Way = tuple[str, str]


class Loopback:
    """`Network` by proxies, which run on a loop in a thread of their own."""

    name = "loopback proxies"

    def __init__(self, stores: Sequence[str]) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loopback", daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []
        self.brokers = [broker_name(node_id) for node_id in BROKERS]
        # By member: where it listens. A broker listens to its clients there, and to its peers elsewhere.
        self.ports = {member: find_free_port() for member in (*self.brokers, *stores)}
        self.peer_ports = {member: find_free_port() for member in self.brokers}
        self.ways: dict[_Way, TcpProxy] = {}
        self.advertised: dict[str, int] = {}  # by broker: where its peers are told to connect
        self._call(self._build(stores))

    async def _build(self, stores: Sequence[str]) -> None:
        for broker in self.brokers:
            others = [other for other in self.brokers if other != broker]
            self.ways |= {(other, broker): TcpProxy(self.peer_ports[broker]) for other in others}
            for way, port in (
                ((CLIENTS, broker), self.ports[broker]),
                *(((broker, store), self.ports[store]) for store in stores),
            ):
                self.ways[way] = await TcpProxy(port).__aenter__()
            server = await asyncio.start_server(self._make_switch(broker), _HOST, 0)
            self._servers.append(server)
            self.advertised[broker] = server.sockets[0].getsockname()[1]

    def _make_switch(self, target: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def switch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                first = await reader.readexactly(_HEADER.size)
                first += await reader.readexactly(max(0, _HEADER.unpack(first)[-1]))
            except (OSError, asyncio.IncompleteReadError):  # one that only looked whether somebody listens
                writer.transport.abort()
                return
            way = self.ways.get((_sender_of(first), target))
            if way is None:
                writer.transport.abort()
            else:
                await way.carry(reader, writer, first)

        return switch

    def host(self, _member: str) -> str:
        return _HOST

    def prefix(self, _member: str) -> list[str]:
        return []

    def cut(self, one: str, other: str) -> None:
        self.cut_one_way(one, other)
        self.cut_one_way(other, one)

    def cut_one_way(self, sender: str, receiver: str) -> None:
        self._on_way((sender, receiver), TcpProxy.hold_requests)
        self._on_way((receiver, sender), TcpProxy.hold_answers)

    def isolate(self, member: str) -> None:
        for one, other in list(self.ways):
            if member in (one, other):
                self.cut(one, other)

    def heal(self) -> None:
        for way in self.ways:
            self._on_way(way, TcpProxy.heal)

    def close(self) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for proxy in self.ways.values():
            await proxy.close()

    def _on_way(self, way: _Way, change: Callable[[TcpProxy], None]) -> None:
        proxy = self.ways.get(way)
        if proxy is not None:
            self._loop.call_soon_threadsafe(change, proxy)

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_TIMEOUT_S)


def _sender_of(request: bytes) -> str:
    """`b1` of a request whose client id is `broker-1-` and more."""
    _, _, number = request[_HEADER.size :].decode(errors="replace").partition("broker-")
    return f"b{number.partition('-')[0]}"


class LoopbackWiring(Wiring):
    def __init__(self, network: Loopback, stores: int) -> None:
        super().__init__(network, stores)
        self._loopback = network
        self._peers = [(find_free_port(), find_free_port()) for _ in self.stores]

    def port(self, member: str) -> int:
        return self._loopback.ports[member]

    def store_members(self) -> list[ZooKeeperServer]:
        return [ZooKeeperServer(_HOST, *ports) for ports in self._peers]

    def connect(self, member: str) -> str:
        return ",".join(f"{_HOST}:{self._loopback.ways[member, store].port}" for store in self.stores)

    def listeners(self, member: str, *, is_secured: bool) -> Mapping[str, str]:
        """Without TLS, because the switch reads who connects."""
        peers = "SASL_PLAINTEXT" if is_secured else "PLAINTEXT"
        loopback = self._loopback
        client_port = loopback.ways[CLIENTS, member].port
        return {
            "listeners": f"CLIENTS://{_HOST}:{loopback.ports[member]},PEERS://{_HOST}:{loopback.peer_ports[member]}",
            "advertised.listeners": f"CLIENTS://{_HOST}:{client_port},PEERS://{_HOST}:{loopback.advertised[member]}",
            "listener.security.protocol.map": f"CLIENTS:PLAINTEXT,PEERS:{peers}",
            "inter.broker.listener.name": "PEERS",
        }
