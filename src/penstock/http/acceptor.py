"""Accepts the connections of a listener, counts them, and admits as many as there is room for.

The acceptor and not the loop's own server accepts connections: the loop's server begins a TLS handshake, with 300 KB
for each, before our code can count it. Nothing is read from a connection before its handshake: plain text on an
encrypted port never counts as a request (CVE-2023-40217).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.limits import HttpLimits

logger = logging.getLogger(__name__)

TlsContext = Callable[[], ssl.SSLContext]
# Makes the protocol of a connection; takes the function to call at its end.
MakeProtocol = Callable[[Callable[[], None]], asyncio.Protocol]

_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_SHUTDOWN_S = 5.0
# No file descriptors: new connections wait in the backlog until some are free.
_EXHAUSTED_S = 0.1


class Acceptor:
    def __init__(
        self, listener: socket.socket, limits: HttpLimits, metrics: HttpMetrics, tls: TlsContext | None
    ) -> None:
        self._listener = listener
        self._limits = limits
        self._metrics = metrics
        self._tls = tls
        self._addresses: Counter[str] = Counter()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None

    def open(self, make_protocol: MakeProtocol) -> None:
        self._accepting = asyncio.get_running_loop().create_task(self._accept(make_protocol), name="http accept")

    async def close(self) -> None:
        """No connection is accepted any more, and handshakes end. Admitted connections stay."""
        if self._accepting is not None:
            tasks = (self._accepting, *self._handshakes)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    async def _accept(self, make_protocol: MakeProtocol) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, name = await loop.sock_accept(self._listener)
            except OSError as error:
                logger.warning("a connection could not be accepted", extra={"reason": error.strerror})
                await asyncio.sleep(_EXHAUSTED_S)
                continue
            address = str(name[0])
            if not self._enter(address):
                self._turn_away(connection)
                continue
            handshake = loop.create_task(self._welcome(connection, address, make_protocol))
            self._handshakes.add(handshake)
            handshake.add_done_callback(self._handshakes.discard)

    def _turn_away(self, connection: socket.socket) -> None:
        self._metrics.count_refused("connections")
        with contextlib.suppress(OSError):
            if self._tls is None:
                connection.send(_BUSY)
        connection.close()

    async def _welcome(self, connection: socket.socket, address: str, make_protocol: MakeProtocol) -> None:
        loop = asyncio.get_running_loop()
        is_encrypted = self._tls is not None
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.connect_accepted_socket(
                lambda: make_protocol(lambda: self._leave(address)),
                connection,
                ssl=self._tls() if self._tls is not None else None,
                ssl_handshake_timeout=self._limits.handshake_s if is_encrypted else None,
                ssl_shutdown_timeout=_SHUTDOWN_S if is_encrypted else None,
            )
        except (OSError, asyncio.CancelledError):  # ssl.SSLError and TimeoutError are among them
            self._metrics.count_refused("handshake")
            connection.close()
            self._leave(address)

    def _enter(self, address: str) -> bool:
        limits = self._limits
        is_full = self._metrics.connections >= limits.max_connections
        if is_full or self._addresses[address] >= limits.max_connections_per_address:
            return False
        self._addresses[address] += 1
        self._metrics.connections += 1
        return True

    def _leave(self, address: str) -> None:
        self._metrics.connections -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]
