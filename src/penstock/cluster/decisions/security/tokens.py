"""The controller's decisions about delegation tokens (KIP-48). Codes are Kafka's."""

from __future__ import annotations

import hmac
from typing import NamedTuple

from penstock.cluster.security_image import SecurityImage, with_value
from penstock.protocol.errors import ErrorCode
from penstock.security.tokens.tokens import DelegationToken, decode_token, encode_token, token_hmac


class TokenSettings(NamedTuple):
    secret: bytes
    max_lifetime_ms: int
    renewal_ms: int

    def __repr__(self) -> str:
        return f"TokenSettings({self.max_lifetime_ms}, {self.renewal_ms})"


class TokenResult(NamedTuple):
    code: ErrorCode = ErrorCode.NONE
    expiry_ms: int = 0


Decided = tuple[tuple[TokenResult, ...], SecurityImage]


def new_token(
    token_id: str,
    owner: str,
    requester: str,
    renewers: tuple[str, ...],
    max_lifetime_ms: int,
    settings: TokenSettings,
    now_ms: int,
) -> DelegationToken:
    """A lifetime of 0 or less is the longest that there is."""
    lifetime_ms = min(max_lifetime_ms, settings.max_lifetime_ms) if max_lifetime_ms > 0 else settings.max_lifetime_ms
    max_ms = now_ms + lifetime_ms
    return DelegationToken(
        token_id, owner, requester, renewers, now_ms, max_ms, min(max_ms, now_ms + settings.renewal_ms)
    )


def decide_add_token(security: SecurityImage, token: DelegationToken) -> Decided:
    return (TokenResult(expiry_ms=token.expiry_ms),), _with(security, token)


def decide_renew_token(
    security: SecurityImage, wanted: bytes, principal: str, period_ms: int, settings: TokenSettings, now_ms: int
) -> Decided:
    """A period of 0 or less is the usual one."""
    token = find_by_hmac(security, settings.secret, wanted)
    code = _check(token, principal, now_ms)
    if token is None or code:
        return (TokenResult(code),), security
    lasting_ms = min(period_ms, settings.renewal_ms) if period_ms > 0 else settings.renewal_ms
    renewed = token._replace(expiry_ms=min(token.max_ms, now_ms + lasting_ms))
    return (TokenResult(expiry_ms=renewed.expiry_ms),), _with(security, renewed)


def decide_expire_token(
    security: SecurityImage, wanted: bytes, principal: str, period_ms: int, settings: TokenSettings, now_ms: int
) -> Decided:
    """A negative period ends the token at once, and is the expiry that is told, as in Kafka."""
    token = find_by_hmac(security, settings.secret, wanted)
    code = _check(token, principal, now_ms)
    if token is None or code:
        return (TokenResult(code),), security
    if period_ms < 0:
        return (TokenResult(expiry_ms=period_ms),), _without(security, [token.token_id])
    ending = token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms))
    return (TokenResult(expiry_ms=ending.expiry_ms),), _with(security, ending)


def decide_sweep_tokens(security: SecurityImage, now_ms: int) -> Decided:
    gone = expired_tokens(security, now_ms)
    return tuple(TokenResult() for _ in gone), _without(security, gone) if gone else security


def expired_tokens(security: SecurityImage, now_ms: int) -> list[str]:
    return [name for name, values in security.tokens.items() if decode_token(name, values).has_expired(now_ms)]


def find_by_hmac(security: SecurityImage, secret: bytes, wanted: bytes) -> DelegationToken | None:
    """Takes 2 us for each token: HMACs are stored nowhere."""
    for token_id, values in security.tokens.items():
        if hmac.compare_digest(token_hmac(secret, token_id), wanted):
            return decode_token(token_id, values)
    return None


def _check(token: DelegationToken | None, principal: str, now_ms: int) -> ErrorCode:
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    if token.has_expired(now_ms):
        return ErrorCode.DELEGATION_TOKEN_EXPIRED
    return ErrorCode.NONE if token.is_for(principal) else ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def _with(security: SecurityImage, token: DelegationToken) -> SecurityImage:
    return security._replace(tokens=with_value(security.tokens, token.token_id, encode_token(token)))


def _without(security: SecurityImage, token_ids: list[str]) -> SecurityImage:
    gone = set(token_ids)
    return security._replace(tokens={name: kept for name, kept in security.tokens.items() if name not in gone})
