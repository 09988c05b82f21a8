"""A port that speaks TLS."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl

from penstock.broker.session import ANONYMOUS
from penstock.core.clock import Clock
from penstock.core.metrics.counters import SocketMetrics
from penstock.security.audit.events import NO_AUDIT, AuditEvent, AuditKind, Auditor
from penstock.security.audit.logins import TLS, login_refused, login_succeeded
from penstock.security.tls.contexts import ServerTls
from penstock.server.net import limits
from penstock.server.net.connection import Connection
from penstock.server.net.gate import Gate
from penstock.server.net.handshakes import Handshakes, Steps, StepsHere
from penstock.server.net.listener import BACKLOG, ConnectionLimits, TcpListener
from penstock.server.net.tls_link import TlsLink
from penstock.server.net.tls_port import NoPrincipalError, Refusal, certificate_of, is_revoked, principal_of

# Health checks and other brokers' probes connect and go away: no news for a log, nor for the audit trail.
_QUIET = "ended"
_MECHANISM = "SSL"  # in the audit trail, beside the mechanisms of SASL
_REVOKED = Refusal("certificate", "the client's certificate was revoked")
_TRAIL_IS_FULL = Refusal("audit", "the audit trail cannot be written")
# Open connections that are looked at in a turn of the loop when certificates were revoked: about 2 ms.
_LOOKED_AT_PER_TURN = 100


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
        self.auditor: Auditor = NO_AUDIT
        self._has_login = has_login
        self._certified: dict[Connection, ssl.SSLObject] = {}  # whose clients have shown a certificate
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
            Gate(each.fileno(), self.new_protocol, BACKLOG, lambda: metrics.requests, self.failed_accepting)
            for each in server.sockets
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

    def identify(self, connection: Connection, established: ssl.SSLObject) -> Refusal | None:
        """Gives the connection the principal of the client's certificate. Returns why not, where that cannot be."""
        if self.logins is not None:
            self.logins.encrypted(connection)
        try:
            certificate = certificate_of(established)
            if certificate is None:
                return None
            if is_revoked(certificate, self.tls):  # while the handshake was under way
                return _REVOKED
            if not self._has_login:
                if self.auditor.refuses and AuditKind.LOGIN in self.auditor.kinds:
                    return _TRAIL_IS_FULL
                connection.session.principal = principal_of(certificate, self.tls)
                who, address = str(connection.session.principal), connection.session.client_host
                self._report(login_succeeded(TLS, _MECHANISM, who, address))
        except NoPrincipalError as error:
            return Refusal("principal", str(error))
        self._certified[connection] = established
        return None

    def closed(self, connection: Connection) -> None:
        self._certified.pop(connection, None)
        super().closed(connection)

    def handshake_failed(self, connection: Connection, kind: str, reason: str) -> None:
        self.metrics.count_handshake_failure(kind)
        level = logging.DEBUG if kind == _QUIET else logging.WARNING
        fields = {"listener": self.name, "client": str(connection.session), "kind": kind, "reason": reason}
        self.limited_log.once_per(f"handshake {kind}", level, "closing a connection: no TLS handshake", fields)
        if kind != _QUIET:
            # Of certificates OpenSSL has a few dozen reasons, which repeats may be merged by.
            told = f"{kind}: {reason.replace('_', ' ').lower()}" if kind == _REVOKED.kind else kind
            self._report(login_refused(TLS, _MECHANISM, connection.session.client_host, f"no TLS handshake: {told}"))

    def _report(self, event: AuditEvent) -> None:
        """Repeats are merged by address and kind, so that a flood of them makes a few events a minute."""
        if AuditKind.LOGIN in self.auditor.kinds:
            self.auditor.record(event)

    # -------------------------------------------------------------------------------------------- revocation

    def serve(self, tls: ServerTls) -> None:
        """From now on. Connections whose certificate is revoked meanwhile end; others go on as they are."""
        self.tls = tls
        if tls.revoked:
            self._end_revoked(list(self._certified))

    def _end_revoked(self, connections: list[Connection]) -> None:
        for connection in connections[:_LOOKED_AT_PER_TURN]:
            established = self._certified.get(connection)
            if established is not None and self._is_revoked(established):
                self.metrics.revoked += 1
                session = connection.session
                who = "" if session.principal is ANONYMOUS else str(session.principal)
                self._report(login_refused(TLS, _MECHANISM, session.client_host, _REVOKED.reason, who))
                connection.abort()
        rest = connections[_LOOKED_AT_PER_TURN:]
        if rest:
            asyncio.get_running_loop().call_soon(self._end_revoked, rest)

    def _is_revoked(self, established: ssl.SSLObject) -> bool:
        with contextlib.suppress(NoPrincipalError):
            certificate = certificate_of(established)
            return certificate is not None and is_revoked(certificate, self.tls)
        return False
