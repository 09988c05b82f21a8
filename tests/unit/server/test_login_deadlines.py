"""Connections before their login: how long they may stay, and what is told of those that are closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from penstock.broker.session import Reply, Session
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.codec import encode
from penstock.protocol.framing import encode_request_header
from penstock.protocol.message import Buffer
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.security.audit.events import AuditEvent, AuditKind
from penstock.security.sasl.exchange import Login
from penstock.security.sasl.login_state import LoginState
from penstock.server.net import limits
from penstock.server.net.connection import Connection
from penstock.server.net.listener import ConnectionLimits, TcpListener
from penstock.testing.clock import ManualClock
from penstock.testing.transports import FakeTransport
from proof.logins.broker import PASSWORD, USER, running
from tests.unit.server.harness import frame

TIMEOUT_MS = 30_000
LIMITS = ConnectionLimits(max_frame_size=1 << 20, max_idle_ms=600_000)


class Port:
    """A listener with logins, and clients of it without sockets."""

    def __init__(self) -> None:
        self.clock, self.metrics = ManualClock(), SocketMetrics()
        self.listener = TcpListener("SASL_PLAINTEXT", LIMITS, self.metrics, self.clock)
        self.expired: list[Session] = []
        self.sessions: list[Session] = []
        self.listener.limit_logins(TIMEOUT_MS, self.expired.append)
        self.listener.handle_with(self._handle)

    def _handle(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]:
        self.sessions.append(session)
        return [bytearray(b"\0\0\0\0")]

    def connect(self) -> FakeTransport:
        transport = FakeTransport(Connection(self.listener))
        transport.connect()
        return transport

    def pass_time(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        assert self.listener.logins is not None
        self.listener.logins.look()


def connection_of(transport: FakeTransport) -> Connection:
    assert isinstance(transport.protocol, Connection)
    return transport.protocol


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    async def run() -> None:
        await test()

    def call() -> None:
        asyncio.run(run())

    call.__name__, call.__doc__ = test.__name__, test.__doc__
    return call


@in_loop
async def test_connection_is_closed_when_nobody_has_logged_in_within_the_limit() -> None:
    port = Port()
    early = port.connect()
    port.pass_time(TIMEOUT_MS - 1)
    late = port.connect()
    early.receive(b"\0\0\0\x05\0")  # half a frame does not keep it open
    assert not early.is_closing()
    port.pass_time(1)
    assert (early.was_aborted(), late.was_aborted()) == (True, False)
    assert [session.client_host for session in port.expired] == ["10.0.0.1"]
    port.pass_time(TIMEOUT_MS)
    assert late.was_aborted()
    for transport in (early, late):
        transport.lose()


@in_loop
async def test_connection_stays_when_the_client_has_logged_in() -> None:
    port = Port()
    transport = port.connect()
    transport.receive(frame(b"x"))
    state = port.sessions[0].login = LoginState()
    state.open(Login("alice"), None)
    port.pass_time(TIMEOUT_MS)
    assert not transport.is_closing()
    assert port.listener.logins is not None
    assert len(port.listener.logins) == 0
    transport.lose()


@in_loop
async def test_time_begins_anew_when_the_broker_itself_did_not_read() -> None:
    port = Port()
    transport = port.connect()
    connection_of(transport).mute(60_000)
    port.pass_time(TIMEOUT_MS)
    assert not transport.is_closing()
    transport.lose()


class WaitingPort(Port):
    """Its requests are answered when the test says so, as logins that wait for an issuer."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Future[Reply]] = []

    def _handle(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]:
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


@in_loop
async def test_time_begins_anew_when_the_client_waits_for_the_broker() -> None:
    port = WaitingPort()
    transport = port.connect()
    transport.receive(frame(b"x"))
    port.pass_time(TIMEOUT_MS)
    assert not transport.is_closing()
    port.answers[0].set_result([bytearray(b"\0\0\0\0")])
    for _ in range(3):
        await asyncio.sleep(0)
    port.pass_time(TIMEOUT_MS - 1)
    assert not transport.is_closing()
    port.pass_time(1)
    assert transport.was_aborted()
    transport.lose()


@in_loop
async def test_client_that_waits_for_the_broker_stays_when_there_are_too_many_encrypted_connections() -> None:
    port = WaitingPort()
    logins = port.listener.logins
    assert logins is not None
    transports = [port.connect() for _ in range(limits.ENCRYPTED_STRANGERS + 1)]
    transports[0].receive(frame(b"x"))
    for transport in transports[:-1]:
        logins.encrypted(connection_of(transport))
    port.clock.advance(limits.PRESSED_LOGIN_TIMEOUT_MS)
    logins.encrypted(connection_of(transports[-1]))
    assert not transports[0].is_closing()
    assert transports[1].was_aborted()
    assert len(port.expired) == limits.ENCRYPTED_STRANGERS // 4 + 1
    for transport in transports:
        transport.lose()
    assert not logins._encrypted


@in_loop
async def test_connections_are_not_gone_through_again_when_all_strangers_are_new() -> None:
    port = Port()
    logins = port.listener.logins
    assert logins is not None
    transports = [port.connect() for _ in range(limits.ENCRYPTED_STRANGERS + 2)]
    for transport in transports[:-1]:
        logins.encrypted(connection_of(transport))
    before = logins._encrypted
    logins.encrypted(connection_of(transports[-1]))
    assert logins._encrypted is before
    for transport in transports:
        transport.lose()


@in_loop
async def test_nothing_is_kept_of_connections_that_are_gone() -> None:
    port = Port()
    for _ in range(10):
        port.connect().lose()
    assert port.listener.logins is not None
    assert len(port.listener.logins) == 0


@in_loop
async def test_oldest_are_closed_when_more_encrypted_connections_wait_for_a_login_than_there_is_memory_for() -> None:
    port = Port()
    logins = port.listener.logins
    assert logins is not None
    transports = [port.connect() for _ in range(limits.ENCRYPTED_STRANGERS + 1)]
    connections = [connection_of(transport) for transport in transports]
    for connection in connections[:-1]:
        logins.encrypted(connection)
    state = connections[0].session.login = LoginState()
    state.open(Login("alice"), None)
    port.clock.advance(limits.PRESSED_LOGIN_TIMEOUT_MS - 1)
    logins.encrypted(connections[-1])
    assert not any(transport.is_closing() for transport in transports), "a real client may still be at it"
    port.clock.advance(1)
    another = port.connect()
    logins.encrypted(connection_of(another))
    closed = [number for number, transport in enumerate(transports) if transport.was_aborted()]
    assert closed == list(range(1, len(closed) + 1)), "the oldest, but not the one that has logged in"
    assert len(closed) == len(port.expired) == limits.ENCRYPTED_STRANGERS // 4 + 1
    for transport in (*transports, another):
        transport.lose()
    assert not logins._encrypted


class Trail:
    kinds = frozenset({AuditKind.LOGIN})
    refuses = False

    def __init__(self) -> None:
        self.events: list[AuditEvent] = []

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


def handshake() -> bytes:
    header = encode_request_header(SaslHandshakeRequest.API_KEY, 1, 1, "c", flexible=False)
    return frame(header + encode(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1))


def authenticate(token: bytes) -> bytes:
    header = encode_request_header(SaslAuthenticateRequest.API_KEY, 1, 1, "c", flexible=False)
    return frame(header + encode(SaslAuthenticateRequest(auth_bytes=token), 1))


def test_half_logins_are_closed_counted_and_audited_and_others_served_when_time_is_over(tmp_path: Path) -> None:
    async def run() -> None:
        clock, trail = ManualClock(), Trail()
        async with running(tmp_path, clock=clock) as broker:
            logins = broker.server.broker.logins
            assert logins is not None
            logins.auditor = trail
            clients = [FakeTransport(Connection(broker.listener), host=f"10.0.0.{number}") for number in range(3)]
            for client in clients:
                client.connect()
            clients[1].receive(handshake())
            clients[2].receive(handshake() + authenticate(b"n,,n=alice,r=abc"))
            clock.advance(TIMEOUT_MS - 1)
            good = FakeTransport(Connection(broker.listener))
            good.connect()
            header = encode_request_header(SaslHandshakeRequest.API_KEY, 1, 1, "c", flexible=False)
            good.receive(frame(header + encode(SaslHandshakeRequest(mechanism="PLAIN"), 1)))
            good.receive(authenticate(f"\0{USER}\0{PASSWORD}".encode()))
            assert broker.listener.logins is not None
            broker.listener.logins.look()
            assert not any(client.is_closing() for client in clients)
            clock.advance(TIMEOUT_MS)
            broker.listener.logins.look()
            assert all(client.was_aborted() for client in clients)
            assert not good.is_closing()
            assert (broker.metrics.logins.timed_out, broker.metrics.logins.succeeded) == (3, 1)
            refused = [event for event in trail.events if not event.is_allowed]
            assert [(event.address, event.operation) for event in refused] == [
                ("10.0.0.0", ""),
                ("10.0.0.1", "SCRAM-SHA-256"),
                ("10.0.0.2", "SCRAM-SHA-256"),
            ]
            assert {event.rule for event in refused} == {"the login took too long"}
            for client in (*clients, good):
                client.lose()

    asyncio.run(run())
