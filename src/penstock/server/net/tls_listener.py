"""A port that speaks TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl

from penstock.core.clock import Clock
from penstock.core.metrics.counters import SocketMetrics
from penstock.security.tls.contexts import ServerTls
from penstock.server.net import limits
from penstock.server.net.connection import Connection
from penstock.server.net.gate import Gate
from penstock.server.net.handshakes import Handshakes, Steps, StepsHere
from penstock.server.net.listener import BACKLOG, ConnectionLimits, TcpListener
from penstock.server.net.tls_link import TlsLink
from penstock.server.net.tls_port import NoPrincipalError, principal_of

# Health checks and other brokers' probes connect and go away: no news for a log.
_QUIET = "ended"


class TlsListener(TcpListener):
    def __init__(
        self,
        name: str,
        bounds: ConnectionLimits,
        metrics: SocketMetrics,
        clock: Clock,
        tls: ServerTls,
        *,
        has_login: bool,
        steps: Steps | None = None,
    ) -> None:
        """`has_login`: clients log in by SASL, and the name in their certificates is not who they are. `steps` is where
        steps of handshakes are made; on the loop where none is given.
        """
        super().__init__(name, bounds, metrics, clock)
        self.tls = tls
        self._has_login = has_login
        self.encrypted_buffer = memoryview(bytearray(limits.RECEIVE_BUFFER_SIZE))
        self._steps = steps or StepsHere()
        self._gates: list[Gate] = []
        self.handshakes = Handshakes(
            clock.monotonic_ms,
            lambda call: asyncio.get_running_loop().call_soon(call),
            lambda seconds, call: asyncio.get_running_loop().call_later(seconds, call),
            self._steps.run,
        )

    async def accept_from(self, server: asyncio.Server) -> None:
        """The server has taken the ports, and accepts nobody itself."""
        metrics = self.metrics
        self._gates = [
            Gate(each.fileno(), self.new_protocol, BACKLOG, lambda: metrics.requests) for each in server.sockets
        ]
        for gate in self._gates:
            gate.open()

    def stop_accepting(self) -> None:
        for gate in self._gates:
            gate.close()
        super().stop_accepting()

    async def close(self) -> None:
        await super().close()
        self._steps.close()

    def new_protocol(self) -> asyncio.BufferedProtocol:
        return TlsLink(self)

    def identify(self, connection: Connection, established: ssl.SSLObject) -> str | None:
        """Gives the connection the principal of the client's certificate. Returns why not, where that cannot be."""
        assert connection.session is not None
        if self._has_login:
            return None
        try:
            principal = principal_of(established, self.tls)
        except NoPrincipalError as error:
            return str(error)
        if principal is not None:
            connection.session.principal = principal
        return None

    def handshake_failed(self, connection: Connection, kind: str, reason: str) -> None:
        self.metrics.count_handshake_failure(kind)
        level = logging.DEBUG if kind == _QUIET else logging.WARNING
        fields = {"listener": self.name, "client": str(connection.session), "kind": kind, "reason": reason}
        self.limited_log.once_per(f"handshake {kind}", level, "closing a connection: no TLS handshake", fields)
