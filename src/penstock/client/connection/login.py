"""Logging in on a connection: SaslHandshake, then tokens in SaslAuthenticate. No I/O.

A login may end (KIP-368). The client logs in again before that, on the same connection. Between the two requests of a
login nothing else may be sent: the broker would end the connection.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.connection.steps import SendStep, Steps
from penstock.protocol.errors import ErrorCode, error_of
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.security.sasl.exchange import Credentials, LoginError, NothingToLogInWithError, Step

# Brokers since Kafka 2.2 serve these.
_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 1
# When a client logs in again, as a part of the login's lifetime. Java's clients choose something between 0.85 and 0.95.
_RENEWED_AT = 0.85
# Brokers, Apache Kafka's too, take no login within a second of the one before. A login that ends sooner ends with its
# connection, and the next connection may log in at once.
_SOONEST_S = 1.0
# Mechanisms need two or three. A broker that goes on and on is none.
_MOST_ROUNDS = 10


class LoginRefusedError(ConnectionClosedError):
    """The broker does not let this client in, or does not prove who it is."""


class LoginPutOffError(ConnectionClosedError):
    """The client has nothing to log in with for now. No broker has refused anything, and another try may succeed."""


class UnservedMechanismError(LoginRefusedError):
    """The broker does not know the mechanism; `mechanisms` are those that it serves."""

    def __init__(self, mechanism: str, mechanisms: Sequence[str]) -> None:
        super().__init__(f"the broker does not serve {mechanism}; it serves {', '.join(mechanisms)}")
        self.mechanisms = tuple(mechanisms)


def log_in(credentials: Credentials, host: str) -> Steps[float]:
    """When the next login is due, in seconds; 0 is never. Raises LoginRefusedError and LoginPutOffError."""
    try:
        return (yield from _log_in(credentials, host))
    except NothingToLogInWithError as error:
        raise LoginPutOffError(f"the login failed: {error}") from None
    except LoginError as error:
        raise LoginRefusedError(f"the login failed: {error}") from None


def _log_in(credentials: Credentials, host: str) -> Steps[float]:
    mechanism = credentials.mechanism
    shaken: SaslHandshakeResponse = yield SendStep(SaslHandshakeRequest(mechanism=mechanism), _HANDSHAKE_VERSION)
    if shaken.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise UnservedMechanismError(mechanism, shaken.mechanisms)
    if shaken.error_code:
        raise LoginRefusedError(f"no login is due here: {error_of(shaken.error_code).message}")
    exchange = credentials.begin(host)
    step: Step | None = exchange.begin()
    lifetime_ms = 0
    for _ in range(_MOST_ROUNDS):
        if step is None:
            break
        token = step if isinstance(step, bytes) else (yield step)
        answer: SaslAuthenticateResponse = yield SendStep(
            SaslAuthenticateRequest(auth_bytes=token), _AUTHENTICATE_VERSION
        )
        if answer.error_code:
            raise LoginRefusedError(answer.error_message or error_of(answer.error_code).message)
        lifetime_ms = answer.session_lifetime_ms
        step = exchange.respond(answer.auth_bytes)
    if not exchange.is_complete:
        raise LoginRefusedError("the broker did not come to an end with the login")
    return max(lifetime_ms * _RENEWED_AT / 1000, _SOONEST_S) if lifetime_ms else 0.0
