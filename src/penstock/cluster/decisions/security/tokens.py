"""The controller's decisions about delegation tokens (KIP-48). Codes are Kafka's.

Every user may make tokens, so they are bounded: the tokens of one owner, all tokens, and the names in a token. Kafka
has no such bounds; POLICY_VIOLATION is its clients' error for a server that allows less than the protocol. An expired
token takes no room.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.cluster.security_image import SecurityImage, with_value
from penstock.protocol.errors import ErrorCode
from penstock.security.tokens.tokens import DelegationToken, decode_token, encode_token, expiry_of, owner_of

# The number of owner, requester and renewers together. A token of Spark or of the REST proxy names one or two.
MOST_NAME_BYTES = 4_096


class TokenSettings(NamedTuple):
    secret: bytes
    max_lifetime_ms: int
    renewal_ms: int
    most: int = 10_000
    most_of_owner: int = 1_000

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
    """A lifetime of 0 or less means the maximum lifetime."""
    lifetime_ms = min(max_lifetime_ms, settings.max_lifetime_ms) if max_lifetime_ms > 0 else settings.max_lifetime_ms
    max_ms = now_ms + lifetime_ms
    return DelegationToken(
        token_id, owner, requester, renewers, now_ms, max_ms, min(max_ms, now_ms + settings.renewal_ms)
    )


def decide_add_token(security: SecurityImage, token: DelegationToken, settings: TokenSettings, now_ms: int) -> Decided:
    names = (token.owner, token.requester, *token.renewers)
    if sum(len(name.encode()) for name in names) > MOST_NAME_BYTES:
        return (TokenResult(ErrorCode.POLICY_VIOLATION),), security
    if not _has_room(security, token.owner, settings):
        security = decide_sweep_tokens(security, now_ms)[1]
        if not _has_room(security, token.owner, settings):
            return (TokenResult(ErrorCode.POLICY_VIOLATION),), security
    return (TokenResult(expiry_ms=token.expiry_ms),), _with(security, token)


def _has_room(security: SecurityImage, owner: str, settings: TokenSettings) -> bool:
    """Takes 0.1 us for each token, where nothing else takes more than a copy of the mapping."""
    tokens = security.tokens
    if len(tokens) < settings.most_of_owner:
        return len(tokens) < settings.most
    owned = sum(owner_of(values) == owner for values in tokens.values())
    return owned < settings.most_of_owner and len(tokens) < settings.most


def decide_renew_token(
    security: SecurityImage,
    token_id: str | None,
    principal: str,
    period_ms: int,
    settings: TokenSettings,
    now_ms: int,
) -> Decided:
    """A period of 0 or less means the default period."""
    token = _find(security, token_id)
    code = _check(token, principal, now_ms)
    if token is None or code:
        return (TokenResult(code),), security
    lasting_ms = min(period_ms, settings.renewal_ms) if period_ms > 0 else settings.renewal_ms
    renewed = token._replace(expiry_ms=min(token.max_ms, now_ms + lasting_ms))
    return (TokenResult(expiry_ms=renewed.expiry_ms),), _with(security, renewed)


def decide_expire_token(
    security: SecurityImage,
    token_id: str | None,
    principal: str,
    period_ms: int,
    settings: TokenSettings,
    now_ms: int,
) -> Decided:
    """A negative period ends the token at once, and is the expiry in the answer, as in Kafka."""
    token = _find(security, token_id)
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
    return [name for name, values in security.tokens.items() if expiry_of(values) < now_ms]


def _find(security: SecurityImage, token_id: str | None) -> DelegationToken | None:
    values = None if token_id is None else security.tokens.get(token_id)
    return None if values is None or token_id is None else decode_token(token_id, values)


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
