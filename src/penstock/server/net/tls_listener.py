"""A port that speaks TLS."""

from __future__ import annotations

import asyncio
import logging
import ssl

from penstock.core.clock import Clock
from penstock.core.metrics.counters import SocketMetrics
from penstock.security.audit.events import NO_AUDIT, AuditEvent, Auditor, Kind
from penstock.security.audit.logins import TLS, login_refused, login_succeeded
from penstock.security.tls.contexts import ServerTls
from penstock.server.net import limits
from penstock.server.net.connection import Connection
from penstock.server.net.handshakes import Handshakes
from penstock.server.net.listener import ConnectionLimits, TcpListener
from penstock.server.net.tls_link import TlsLink
from penstock.server.net.tls_port import NoPrincipalError, principal_of

# Health checks and other brokers' probes connect and go away: no news for a log.
_QUIET = "ended"
_MECHANISM = "SSL"


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
    ) -> None:
        """`has_login`: clients log in by SASL, and the name in their certificates is not who they are."""
        super().__init__(name, bounds, metrics, clock)
        self.tls = tls
        self.auditor: Auditor = NO_AUDIT
        self._has_login = has_login
        self.encrypted_buffer = memoryview(bytearray(limits.RECEIVE_BUFFER_SIZE))
        self.handshakes = Handshakes(
            clock.monotonic_ms,
            lambda call: asyncio.get_running_loop().call_soon(call),
            lambda seconds, call: asyncio.get_running_loop().call_later(seconds, call),
        )

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
        if principal is None:
            return None
        if self.auditor.refuses and Kind.LOGIN in self.auditor.kinds:
            return "the audit trail cannot be written"
        connection.session.principal = principal
        self._report(login_succeeded(TLS, _MECHANISM, str(principal), connection.session.client_host))
        return None

    def handshake_failed(self, connection: Connection, kind: str, reason: str) -> None:
        self.metrics.count_handshake_failure(kind)
        level = logging.DEBUG if kind == _QUIET else logging.WARNING
        fields = {"listener": self.name, "client": str(connection.session), "kind": kind, "reason": reason}
        self.limited_log.once_per(f"handshake {kind}", level, "closing a connection: no TLS handshake", fields)
        if kind != _QUIET:
            self._report(login_refused(TLS, _MECHANISM, connection.session.client_host, f"no TLS handshake: {kind}"))

    def _report(self, event: AuditEvent) -> None:
        """Repeats are merged by address and kind, so that a flood of them makes a few events a minute."""
        if Kind.LOGIN in self.auditor.kinds:
            self.auditor.record(event)
