"""Logins: SaslHandshake and SaslAuthenticate. `broker.login` decides which step is due.

Both answer ILLEGAL_SASL_STATE where no login is due, as on a listener without SASL.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from penstock.broker.session import RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.security.sasl.login_state import AWAITS_HANDSHAKE, LoginState, Phase

if TYPE_CHECKING:  # a standalone broker does not load these
    from penstock.broker.login.logins import LoginOutcome, Logins

_NOT_DUE = "SaslAuthenticate request received after successful authentication"


class LoginPort(Protocol):
    """The parts of the broker that the handlers of logins use."""

    logins: Logins | None


def sasl_handshake(broker: LoginPort, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Chooses the mechanism of a login. After version 0 the tokens come bare, after version 1 in SaslAuthenticate.

    A mechanism that is not enabled gets UNSUPPORTED_SASL_MECHANISM with the enabled mechanisms, and ends the
    connection.
    """
    session, logins = context.session, broker.logins
    if session.login is None or logins is None or session.login.phase not in AWAITS_HANDSHAKE:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    is_served = logins.begin(session, request.mechanism, bare=context.api_version == 0)
    code = ErrorCode.NONE if is_served else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return SaslHandshakeResponse(error_code=code, mechanisms=list(logins.mechanisms(session.listener)))


def sasl_authenticate(
    broker: LoginPort, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    """Takes one token of a login. Every failure is SASL_AUTHENTICATION_FAILED with the same text, and ends the
    connection.

    Version 1 adds the lifetime of the login; version 2 is flexible.
    """
    session, logins = context.session, broker.logins
    if session.login is None or logins is None or session.login.phase is not Phase.TOKENS:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_NOT_DUE)
    outcome = logins.step(session, bytes(request.auth_bytes))
    if isinstance(outcome, Awaitable):
        return _respond_later(session.login, outcome)
    return _response(session.login, outcome)


def _response(state: LoginState, outcome: LoginOutcome) -> SaslAuthenticateResponse:
    if outcome.is_refused:
        what = "re-authentication" if state.is_again else "authentication"
        text = f"Authentication failed during {what} due to invalid credentials with SASL mechanism {state.mechanism}"
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=outcome.token, session_lifetime_ms=outcome.lifetime_ms
    )


async def _respond_later(state: LoginState, waiting: Awaitable[LoginOutcome]) -> SaslAuthenticateResponse:
    return _response(state, await waiting)
