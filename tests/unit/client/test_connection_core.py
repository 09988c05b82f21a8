"""The state of a connection, without a socket: what is refused after which end, and the steps of a login."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.client.connection.blocking_connection import take_steps
from penstock.client.connection.core import ConnectionCore
from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.connection.login import LoginRefusedError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.security.sasl.exchange import ClientExchange, LoginError, Slow
from penstock.security.sasl.plain import PlainCredentials
from tests.unit.client.scripted_broker import list_groups_answer


class Driver:
    """Remembers what the core asks of a driver."""

    def __init__(self, core: ConnectionCore) -> None:
        self.core = core
        self.ends: list[str] = []
        self.losses = 0
        core.hang_up = lambda failure: self.ends.append(str(failure))
        core.on_lost = self._count_loss

    def _count_loss(self) -> None:
        self.losses += 1


def answer_to(core: ConnectionCore) -> bytes:
    return list_groups_answer(core.encode_request(ListGroupsRequest(), 4)[1][4:])[4:]


def test_answer_is_counted_and_the_core_is_idle_when_nothing_else_waits() -> None:
    core = ConnectionCore()
    answer = answer_to(core)
    was_idle = core.is_idle
    assert core.take_answer(answer)[0] == 0
    assert [was_idle, core.is_idle] == [False, True]
    assert core.answers == 1


def test_first_reason_stays_and_the_driver_hangs_up_once_when_a_connection_ends_twice() -> None:
    driver = Driver(ConnectionCore())
    late = answer_to(driver.core)
    assert "ListGroupsRequest within 3.0 s" in str(driver.core.time_out(driver.core.name_of(0), 3.0))
    driver.core.end("the connection was closed")
    driver.core.lose()
    assert driver.ends == ["a request on this connection timed out"]
    assert driver.losses == 0
    for refused in (lambda: driver.core.encode_request(ListGroupsRequest(), 4), lambda: driver.core.take_answer(late)):
        with pytest.raises(ConnectionClosedError, match="timed out"):
            refused()


@pytest.mark.parametrize(
    ("error", "reason", "is_silent"),
    [
        (None, "the broker closed the connection", False),
        (ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)), "the connection was lost", False),
        (TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)), "the connection was lost", True),
    ],
    ids=["ended in order", "reset", "not heard any more"],
)
def test_listener_hears_of_a_loss_once(error: OSError | None, reason: str, is_silent: bool) -> None:
    driver = Driver(ConnectionCore())
    assert reason in str(driver.core.lose(error))
    driver.core.lose(error)
    assert driver.losses == 1
    assert driver.core.fell_silent is is_silent


@pytest.mark.parametrize(
    "frame", [b"\x00\x00\x00\x4d\x00\x00", b"\x00\x00\x00\x00\x00"], ids=["of no request", "malformed"]
)
def test_connection_ends_when_an_answer_is_broken(frame: bytes) -> None:
    driver = Driver(ConnectionCore())
    answer_to(driver.core)
    with pytest.raises(ConnectionClosedError):
        driver.core.take_answer(frame)
    assert not driver.core.is_open
    assert len(driver.ends) == 1


class TestLogins:
    def answer(self, *, error: ErrorCode = ErrorCode.NONE, lifetime_ms: int = 0) -> dict[str, Message]:
        return {
            "SaslHandshakeRequest": SaslHandshakeResponse(mechanisms=["PLAIN"]),
            "SaslAuthenticateRequest": SaslAuthenticateResponse(error_code=error, session_lifetime_ms=lifetime_ms),
        }

    def log_in(self, core: ConnectionCore, answers: dict[str, Message]) -> list[tuple[str, int]]:
        asked: list[tuple[str, int]] = []

        def ask(message: Message, version: int) -> Message:
            asked.append((type(message).__name__, version))
            return answers[asked[-1][0]]

        core.note_login(take_steps(core.log_in(), ask), 100.0)
        return asked

    def core(self) -> ConnectionCore:
        return ConnectionCore(credentials=PlainCredentials("alice", "secret"), host="broker")

    def test_login_is_due_again_before_it_ends(self) -> None:
        core = self.core()
        asked = self.log_in(core, self.answer(lifetime_ms=10_000))
        assert asked == [("SaslHandshakeRequest", 1), ("SaslAuthenticateRequest", 1)]
        assert [core.is_login_due(now) for now in (108.4, 108.5)] == [False, True]

    def test_login_is_due_no_sooner_than_brokers_take_one_when_it_ends_soon(self) -> None:
        """Brokers refuse a login within a second of the one before, so a token that ends soon ended a client."""
        core = self.core()
        self.log_in(core, self.answer(lifetime_ms=1_000))
        assert [core.is_login_due(now) for now in (100.9, 101.0)] == [False, True]

    def test_login_is_never_due_when_it_does_not_end(self) -> None:
        core = self.core()
        self.log_in(core, self.answer())
        assert core.login_renewed_at is None
        assert not core.is_login_due(1e9)

    def test_connection_ends_when_the_login_is_refused(self) -> None:
        driver = Driver(self.core())
        with pytest.raises(LoginRefusedError):
            self.log_in(driver.core, self.answer(error=ErrorCode.SASL_AUTHENTICATION_FAILED))
        assert len(driver.ends) == 1
        assert driver.losses == 0

    def test_slow_step_is_run_by_the_driver_and_its_token_sent(self) -> None:
        class Tickets:
            """Credentials whose token takes long to make."""

            mechanism = "GSSAPI"

            def begin(self, host: str) -> ClientExchange:
                assert host == "broker"
                return TicketExchange()

        class TicketExchange:
            is_complete = True

            def begin(self) -> Slow:
                return lambda: b"ticket"

            def respond(self, token: bytes) -> None:
                return None

        sent: list[bytes] = []

        def ask(message: Message, version: int) -> Message:
            if isinstance(message, SaslHandshakeRequest):
                return SaslHandshakeResponse()
            assert isinstance(message, SaslAuthenticateRequest)
            sent.append(bytes(message.auth_bytes))
            return SaslAuthenticateResponse()

        core = ConnectionCore(credentials=Tickets(), host="broker")
        assert take_steps(core.log_in(), ask) == 0.0
        assert sent == [b"ticket"]

    def test_connection_ends_when_a_slow_step_of_the_login_fails(self) -> None:
        """It stayed open with half a login, and the next request was told that no login is due."""

        class Issuers:
            mechanism = "OAUTHBEARER"

            def begin(self, host: str) -> ClientExchange:
                return IssuerExchange()

        class IssuerExchange:
            is_complete = False

            def begin(self) -> Slow:
                def ask_issuer() -> bytes:
                    raise LoginError("the issuer does not answer")

                return ask_issuer

            def respond(self, token: bytes) -> None:
                return None

        driver = Driver(ConnectionCore(credentials=Issuers(), host="broker"))
        with pytest.raises(LoginRefusedError, match="the login failed: the issuer does not answer"):
            take_steps(driver.core.log_in(), lambda *_: SaslHandshakeResponse())
        assert len(driver.ends) == 1
        assert not driver.core.is_open

    def test_connection_ends_when_a_login_is_given_up_half_way(self) -> None:
        driver = Driver(self.core())

        def give_up(message: Message, version: int) -> Message:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            take_steps(driver.core.log_in(), give_up)
        assert len(driver.ends) == 1
