from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from penstock.broker.session import Reply, Session
from penstock.core.logs import CLIENT_BURST
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.message import Buffer
from penstock.server.net.admission import ConnectionBounds
from penstock.server.net.connection import Connection
from penstock.server.net.listener import ConnectionLimits, TcpListener
from penstock.testing.clock import ManualClock
from penstock.testing.transports import FakeTransport

LIMITS = ConnectionLimits(max_frame_size=1 << 20, max_idle_ms=600_000)
BOUNDS = ConnectionBounds(max_connections=3, max_per_address=2)
PING = b"\0\0\0\x01x"
# A connection is closed in the round after the tenth silent one.
ROUNDS = 11


class Port:
    """A listener, and clients of it that have no sockets."""

    def __init__(self) -> None:
        self.metrics = SocketMetrics()
        self.clock = ManualClock()
        self.listener = TcpListener("PLAINTEXT", LIMITS, self.metrics, self.clock)
        self.listener.admission.limit(BOUNDS)
        self.transports: list[FakeTransport] = []
        self.sessions: list[Session] = []
        self.answer: Callable[[], Reply | Awaitable[Reply]] = lambda: [bytearray(PING)]
        self.listener.handle_with(self._handle)

    def _handle(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]:
        self.sessions.append(session)
        return self.answer()

    def connect(self, host: str = "10.0.0.1", *, takes_everything: bool = True) -> FakeTransport:
        transport = FakeTransport(Connection(self.listener), host=host, takes_everything=takes_everything)
        self.transports.append(transport)
        transport.connect()
        return transport

    def sweep(self, rounds: int) -> None:
        for _ in range(rounds):
            self.listener.sweep()


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    yield port
    for transport in port.transports:
        transport.release()


class TestRoom:
    def test_connection_is_refused_when_its_address_has_enough(self, port: Port) -> None:
        kept = [port.connect("10.0.0.1") for _ in range(2)]
        assert port.connect("10.0.0.1").was_aborted()
        assert not port.connect("10.0.0.2").was_aborted()
        assert not any(transport.was_aborted() for transport in kept)
        assert (port.metrics.created, port.metrics.refused) == (3, 1)

    def test_connection_is_refused_when_all_places_are_taken(self, port: Port) -> None:
        for host in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
            assert not port.connect(host).was_aborted()
        refused = port.connect("10.0.0.4")
        assert refused.was_aborted()
        refused.lose()
        assert port.listener.connection_count == 3
        assert port.metrics.closed == 0

    def test_place_is_free_again_when_a_connection_ends(self, port: Port) -> None:
        for _ in range(20):
            first, second = port.connect(), port.connect()
            assert not first.was_aborted()
            assert not second.was_aborted()
            first.lose()
            second.lose(ConnectionResetError())
        assert port.listener.connection_count == 0
        assert port.metrics.created == port.metrics.closed == 40

    def test_refusals_are_logged_once_when_many_knock(self, port: Port, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING):
            for _ in range(10):
                port.connect()
        assert len(caplog.records) == 1
        assert port.metrics.refused == 8


class TestRequests:
    def test_requests_and_bytes_are_counted_when_a_client_talks(self, port: Port) -> None:
        transport = port.connect()
        transport.receive(PING * 3)
        assert (port.metrics.requests, port.metrics.bytes_in, port.metrics.bytes_out) == (3, 15, 15)

    def test_sessions_differ_when_one_client_connects_twice(self, port: Port) -> None:
        port.connect().receive(PING)
        port.connect().receive(PING)
        first, second = port.sessions
        assert first.connection_id != second.connection_id
        assert (first.client_host, first.listener) == ("10.0.0.1", "PLAINTEXT")

    def test_client_is_logged_and_counted_once_when_it_sends_nonsense(
        self, port: Port, caplog: pytest.LogCaptureFixture
    ) -> None:
        transport = port.connect()
        transport.receive(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
        transport.lose()
        assert port.metrics.malformed == {"frame size": 1}
        assert len(caplog.records) == 1
        assert "10.0.0.1:50000-1" in str(vars(caplog.records[0])["client"])


class TestLogLines:
    """A client decides how often it does something wrong, but not how many lines that gives."""

    def test_lines_are_held_back_when_many_connections_send_nonsense(
        self, port: Port, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(500):
            transport = port.connect()
            transport.receive(b"GET / HTTP/1.1\r\n\r\n")
            transport.lose()
        assert port.metrics.malformed == {"frame size": 500}
        assert len(caplog.records) == CLIENT_BURST
        port.clock.advance(10_000)
        port.connect().receive(b"GET / HTTP/1.1\r\n\r\n")
        assert len(caplog.records) == CLIENT_BURST + 1
        assert vars(caplog.records[-1])["held_back"] == 500 - CLIENT_BURST

    def test_line_is_written_again_when_connections_are_refused_on_another_day(
        self, port: Port, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(10):
            port.connect()
        assert len(caplog.records) == 1
        port.clock.advance(86_400_000)
        port.connect()
        assert len(caplog.records) == 2

    def test_line_names_the_listener_when_another_was_full_before(
        self, port: Port, caplog: pytest.LogCaptureFixture
    ) -> None:
        port.listener.metrics.refused = 5  # all listeners of a broker count together
        for _ in range(3):
            port.connect()
        (record,) = caplog.records
        assert vars(record)["listener"] == "PLAINTEXT"

    def test_lines_are_held_back_when_segments_cannot_be_read(
        self, port: Port, caplog: pytest.LogCaptureFixture
    ) -> None:
        connection = Connection(port.listener)
        for _ in range(100):
            port.listener.failed_reading(connection, OSError(5, "Input/output error"))
        assert len(caplog.records) == CLIENT_BURST
        record = caplog.records[0]
        assert record.levelno == logging.ERROR
        assert "Input/output" in str(vars(record)["reason"])


class TestIdleness:
    def test_connection_is_closed_when_nothing_came_for_too_long(self, port: Port) -> None:
        transport = port.connect()
        port.sweep(ROUNDS - 1)
        assert not transport.was_aborted()
        port.sweep(1)
        assert transport.was_aborted()
        assert port.metrics.expired == 1

    def test_connection_stays_when_bytes_keep_coming(self, port: Port) -> None:
        transport = port.connect()
        for byte in PING * 10:
            port.sweep(ROUNDS - 1)
            transport.receive(bytes([byte]))
        assert not transport.was_aborted()

    def test_connection_stays_when_the_broker_owes_it_an_answer(self, port: Port) -> None:
        async def scenario() -> None:
            answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            port.answer = lambda: answer
            transport = port.connect()
            transport.receive(PING)
            port.sweep(10 * ROUNDS)
            assert not transport.was_aborted()
            answer.set_result(None)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            port.sweep(ROUNDS)
            assert transport.was_aborted()

        asyncio.run(scenario())

    def test_connection_is_closed_when_the_client_never_takes_its_answer(self, port: Port) -> None:
        port.answer = lambda: [bytearray(2 << 20)]
        transport = port.connect(takes_everything=False)
        transport.receive(PING * 2)
        port.sweep(ROUNDS)
        assert transport.was_aborted()

    def test_connection_stays_when_the_client_takes_its_answers_slowly(self, port: Port) -> None:
        port.answer = lambda: [bytearray(2 << 20)]
        transport = port.connect(takes_everything=False)
        transport.receive(PING * 10)
        while transport.buffered:
            port.sweep(ROUNDS - 1)
            transport.take()
        assert not transport.was_aborted()
        assert len(transport.sent) == 10 * (2 << 20)


class TestEnd:
    def test_all_connections_are_cut_and_their_requests_ended_when_the_listener_closes(self, port: Port) -> None:
        async def scenario() -> None:
            ended: list[str] = []

            async def poll() -> Reply:
                try:
                    await asyncio.Event().wait()
                finally:
                    ended.append("poll")
                return None

            port.answer = poll
            transports = [port.connect("10.0.0.1"), port.connect("10.0.0.2")]
            transports[0].receive(PING)
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(port.listener.close())
            await asyncio.sleep(0)
            assert all(transport.was_aborted() for transport in transports)
            for transport in transports:
                transport.lose()
            await closing
            assert ended == ["poll"]
            assert port.listener.connection_count == 0

        asyncio.run(scenario())

    def test_listener_closes_when_a_connection_comes_at_the_last_moment(self, port: Port) -> None:
        """It waited in the kernel's queue when the port was closed. Nobody would ever have ended it."""

        async def scenario() -> None:
            first = port.connect("10.0.0.1")
            closing = asyncio.ensure_future(port.listener.close())
            await asyncio.sleep(0)
            late = port.connect("10.0.0.2")
            assert late.was_aborted()
            first.lose()
            late.lose()
            await closing

        asyncio.run(scenario())

    def test_listener_closes_at_once_when_nobody_is_connected(self, port: Port) -> None:
        asyncio.run(port.listener.close())


def test_name_is_unknown_when_no_host_can_have_it() -> None:
    listener = TcpListener("PLAINTEXT", LIMITS, SocketMetrics(), ManualClock())
    with pytest.raises(socket.gaierror, match="not known"):
        asyncio.run(listener.bind("kafka..example", 0))
