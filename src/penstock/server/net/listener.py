"""One port: accepts connections, bounds their number, and closes the idle ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.broker.session import Outcome, Reply, Session
from penstock.core.clock import Clock
from penstock.core.logs import CLIENT_BURST, Limiter, RateLimitedLog
from penstock.core.metrics.counters import SocketMetrics
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.protocol.message import Buffer
from penstock.security.addresses import canonical_host
from penstock.server.net import limits
from penstock.server.net.admission import Admission, AdmissionVerdict
from penstock.server.net.backlog import Backlog
from penstock.server.net.connection import Connection
from penstock.server.net.login_deadlines import LoginDeadlines

logger = logging.getLogger("penstock.server.net.listener")

Handle = Callable[[Session, Buffer], Outcome | Awaitable[Outcome]]

# A connection is closed after this many rounds without a byte; more rounds only make the moment more exact.
_IDLE_ROUNDS = 10
BACKLOG = 1024  # 5,000 clients that reconnect at once after a restart; the kernel caps it at somaxconn

_EXHAUSTED_LOG_MS = 60_000  # it is tried again each second
KERNEL_TUNING = -1  # the kernel chooses a buffer's size, which grows with the connection's speed


def _handle_nothing(session: Session, frame: Buffer) -> Reply:
    raise AssertionError("the listener accepts nobody before `handle_with`")


class ConnectionLimits(NamedTuple):
    max_frame_size: int
    max_idle_ms: int
    send_buffer_size: int = KERNEL_TUNING
    receive_buffer_size: int = KERNEL_TUNING


class TcpListener:
    def __init__(
        self,
        name: str,
        bounds: ConnectionLimits,
        metrics: SocketMetrics,
        clock: Clock,
    ) -> None:
        self.name = name
        self._clock = clock
        self.admission = Admission()
        self.backlog = Backlog()
        self.limited_log = RateLimitedLog(logger, Limiter(burst=CLIENT_BURST), clock.monotonic_ms)
        self._refusals_log = RateLimitedLog(logger, Limiter(), clock.monotonic_ms)  # one says it all
        self._exhaustion_log = RateLimitedLog(logger, Limiter(_EXHAUSTED_LOG_MS), clock.monotonic_ms)
        self.receive_buffer = memoryview(bytearray(limits.RECEIVE_BUFFER_SIZE))
        self.max_frame_size = bounds.max_frame_size
        self._bounds = bounds
        self.handle: Handle = _handle_nothing  # the callable itself, since each request calls it
        self.first_frame_size = 0  # the limit of a connection's frames until the handler sets another; 0: none
        self.logins: LoginDeadlines | None = None  # None where nobody has to log in
        self.strangers: Backlog | None = None  # of those who have not logged in yet
        self.metrics = metrics
        self._connections: dict[Connection, str] = {}  # with their addresses, in the form that bounds are kept by
        self._accepted = 0
        self._is_closing = False
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Event | None = None
        self.host = ""
        self.port = 0

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def muted_count(self) -> int:
        return sum(connection.unmuting is not None for connection in self._connections)

    async def bind(self, host: str, port: int) -> None:
        """Takes the port, so that its number is known, without accepting anybody yet."""
        loop = asyncio.get_running_loop()
        with failing_as_unknown():
            self._server = await loop.create_server(
                self.new_protocol, host or None, port, backlog=BACKLOG, start_serving=False, reuse_address=True
            )
        self.host = host
        self.port = self._server.sockets[0].getsockname()[1]

    def new_protocol(self) -> asyncio.BufferedProtocol:
        """For a client that was just accepted."""
        return Connection(self)

    def limit(self, bounds: ConnectionLimits) -> None:
        """Sets limits for the connections to come. Connections that are open stay open."""
        self._bounds = bounds
        self.max_frame_size = bounds.max_frame_size

    def share(self, admission: Admission, backlog: Backlog) -> None:
        """All listeners of a broker have the same ones."""
        self.admission, self.backlog = admission, backlog

    def handle_with(self, handle: Handle) -> None:
        self.handle = handle

    def limit_logins(self, timeout_ms: int, expired: Callable[[Session], None]) -> None:
        """Clients log in within so long, or are cut off, of which `expired` is told. What they send until then counts
        apart, so that strangers do not take the room of others' requests.
        """
        self.strangers = Backlog(limits.STRANGERS_BYTES, metrics=self.metrics, refused_above=limits.STRANGER_BYTES)
        self.logins = LoginDeadlines(
            timeout_ms,
            expired,
            self._clock.monotonic_ms,
            lambda seconds, call: asyncio.get_running_loop().call_later(seconds, call),
        )

    async def start(self) -> None:
        assert self._server is not None
        assert self.handle is not _handle_nothing
        await self.accept_from(self._server)
        self._schedule_sweep()

    async def accept_from(self, server: asyncio.Server) -> None:
        await server.start_serving()

    def stop_accepting(self) -> None:
        self._is_closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        self.stop_accepting()
        self.backlog.close()
        if self.strangers is not None:
            self.strangers.close()
        for connection in list(self._connections):
            connection.abort()
        waiting = [each for connection in self._connections for each in connection.pending.futures()]
        if self._connections:  # connection_lost comes with the next turns of the loop
            self._emptied = asyncio.Event()
            await self._emptied.wait()
        await asyncio.gather(*waiting, return_exceptions=True)  # cancelled by then, but not ended yet

    # -------------------------------------------------------------------------------------------- for connections

    def opened(self, connection: Connection, transport: asyncio.BaseTransport) -> Session | None:
        host, port = (transport.get_extra_info("peername") or ("unknown", 0))[:2]
        if self._is_closing:  # it was in the kernel's queue when the port was closed
            return None
        address = canonical_host(host)
        address = host if address == host else address  # kept with the connection: one object, not two
        verdict = self.admission.admit(self.name, address, self._clock.monotonic_ms())
        if verdict.is_refused:
            self.metrics.refused += 1
            fields = {"listener": self.name, "client": host, "open": len(self._connections)}
            self._refusals_log.once_per(
                "refused", logging.WARNING, "refusing connections: the limit is reached", fields
            )
            return None
        with contextlib.suppress(OSError):  # gone again already, which not every system allows to be set up
            self._set_options(transport.get_extra_info("socket"))
        self._connections[connection] = address
        self.metrics.created += 1
        self._accepted += 1
        if verdict.wait_ms:
            self._delay(connection, verdict, host)
        if self.logins is not None:
            self.logins.add(connection)
        first_frame_size = min(self.first_frame_size, self.max_frame_size)
        return Session(f"{host}:{port}-{self._accepted}", host, self.name, max_frame_size=first_frame_size)

    def _delay(self, connection: Connection, verdict: AdmissionVerdict, host: str) -> None:
        connection.mute(verdict.wait_ms)
        if not verdict.is_closed_then:
            self.metrics.delayed += 1
            return
        self.metrics.throttled += 1
        fields = {"listener": self.name, "client": host, "ms": verdict.wait_ms}
        self._refusals_log.once_per("rate", logging.WARNING, "an address connects faster than its quota", fields)
        asyncio.get_running_loop().call_later(verdict.wait_ms / 1000, connection.abort)

    def _set_options(self, sock: socket.socket) -> None:
        # A client that vanished without a word is found out even while its request waits.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._bounds.send_buffer_size > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._bounds.send_buffer_size)
        if self._bounds.receive_buffer_size > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._bounds.receive_buffer_size)

    def backlog_of(self, connection: Connection) -> Backlog:
        """Where the requests of a connection count."""
        if self.strangers is None:
            return self.backlog
        login = connection.session.login
        if login is None or login.login is None:
            return self.strangers
        self.strangers.leave(connection)  # which it may just have been one of
        return self.backlog

    def closed(self, connection: Connection) -> None:
        address = self._connections.pop(connection, None)
        if address is None:
            return
        self.backlog.leave(connection)
        if self.logins is not None and self.strangers is not None:
            self.logins.remove(connection)
            self.strangers.leave(connection)
        self.admission.leave(self.name, address)
        self.metrics.closed += 1
        if self._emptied is not None and not self._connections:
            self._emptied.set()

    def malformed(self, connection: Connection, kind: str, reason: str) -> None:
        """Called at most once for a connection, which ends with it. The log gets one line of each kind now and then."""
        self.metrics.count_malformed(kind)
        fields = {"listener": self.name, "client": str(connection.session), "reason": reason}
        self.limited_log.once_per(kind, logging.WARNING, "closing a connection", fields)

    def failed_reading(self, connection: Connection, error: Exception) -> None:
        """A segment could not be read while it was sent. Clients ask again, so this may come as often as they do."""
        fields = {"listener": self.name, "client": str(connection.session), "reason": str(error)}
        self.limited_log.once_per("reading", logging.ERROR, "closing a connection: reading a segment failed", fields)

    def failed_accepting(self, error: OSError) -> None:
        """Mostly no descriptor is left. Clients wait in the kernel's queue meanwhile."""
        fields = {"listener": self.name, "open": len(self._connections), "reason": str(error)}
        self._exhaustion_log.once_per("accept", logging.ERROR, "connections cannot be accepted", fields)

    # -------------------------------------------------------------------------------------------- idle connections

    def _schedule_sweep(self) -> None:
        if self._bounds.max_idle_ms > 0:
            delay = self._bounds.max_idle_ms / _IDLE_ROUNDS / 1000
            self._sweeper = asyncio.get_running_loop().call_later(delay, self._on_sweep_due)

    def _on_sweep_due(self) -> None:
        self.sweep()
        self._schedule_sweep()

    def sweep(self) -> None:
        """Ends the connections that have been idle for too long.

        A client that does not take its replies is idle, too: its replies are dropped with the connection. A client that
        waits for a reply is not idle while the connection is read, because then the end of the client would be noticed.
        A client that is throttled is not idle: the broker does not read what it sends.
        """
        for connection in list(self._connections):
            if connection.unmuting is not None or (connection.pending.futures() and not connection.is_reading_paused):
                continue
            connection.idle_rounds += 1
            if connection.idle_rounds > _IDLE_ROUNDS:
                self.metrics.expired += 1
                connection.abort()
