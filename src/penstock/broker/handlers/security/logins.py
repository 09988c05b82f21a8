"""Logins: SaslHandshake and SaslAuthenticate. What is due is decided in `broker.login`.

Both are ILLEGAL_SASL_STATE where no login is due, as on a listener without SASL.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.broker import Broker
from penstock.broker.login.logins import Outcome
from penstock.broker.session import RequestContext
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.security.sasl.login_state import AWAITS_HANDSHAKE, LoginState, Phase

_NOT_DUE = "SaslAuthenticate request received after successful authentication"


def sasl_handshake(broker: Broker, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Chooses the mechanism of a login. After version 0 the tokens come bare, after version 1 in SaslAuthenticate.

    A mechanism that is not enabled is UNSUPPORTED_SASL_MECHANISM with those that are, and ends the connection.
    """
    session, logins = context.session, broker.logins
    if session.login is None or logins is None or session.login.phase not in AWAITS_HANDSHAKE:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    is_served = logins.begin(session, request.mechanism, bare=context.api_version == 0)
    code = ErrorCode.NONE if is_served else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return SaslHandshakeResponse(error_code=code, mechanisms=list(logins.mechanisms(session.listener)))


def sasl_authenticate(
    broker: Broker, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Awaitable[SaslAuthenticateResponse]:
    """One token of a login. Whatever is wrong is SASL_AUTHENTICATION_FAILED with one text, and ends the connection.

    Version 1 adds how long the login lasts; version 2 is flexible.
    """
    session, logins = context.session, broker.logins
    if session.login is None or logins is None or session.login.phase is not Phase.TOKENS:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_NOT_DUE)
    outcome = logins.step(session, bytes(request.auth_bytes))
    if isinstance(outcome, Outcome):
        return _response(session.login, outcome)
    return _respond_later(session.login, outcome)


def _response(state: LoginState, outcome: Outcome) -> SaslAuthenticateResponse:
    if outcome.is_refused:
        what = "re-authentication" if state.is_again else "authentication"
        text = f"Authentication failed during {what} due to invalid credentials with SASL mechanism {state.mechanism}"
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=text)
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=outcome.token, session_lifetime_ms=outcome.lifetime_ms
    )


async def _respond_later(state: LoginState, waiting: Awaitable[Outcome]) -> SaslAuthenticateResponse:
    return _response(state, await waiting)
