"""PLAIN (RFC 4616): user and password in one token. For listeners with TLS.

Rules:
- The token has exactly three parts. An authorisation id must be empty or the user's own name (CVE-2017-12610).
- An unknown user takes as long as a wrong password: both are compared with a digest of the same length.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from penstock.security.sasl.exchange import PLAIN, ClientExchange, Login, LoginError, Step

_SEPARATOR = "\0"
_PARTS = 3
# Stands in for the digest of an unknown user, who is refused whatever the comparison gives.
_NOBODY = bytes(hashlib.sha256().digest_size)


class PlainServer:
    """The accounts are digests of passwords by user name: only the configuration has the passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._digests = {user: _digest(password) for user, password in passwords.items()}

    def begin(self, now_ms: int) -> _PlainServerExchange:
        return _PlainServerExchange(self._digests)


class _PlainServerExchange:
    __slots__ = ("_digests", "claimed", "login")

    def __init__(self, digests: Mapping[str, bytes]) -> None:
        self._digests = digests
        self.login: Login | None = None
        self.claimed = ""

    def respond(self, token: bytes) -> Step:
        try:
            parts = token.decode().split(_SEPARATOR)
        except UnicodeDecodeError:
            raise LoginError("the token is not UTF-8") from None
        if len(parts) != _PARTS:
            raise LoginError(f"the token has {len(parts)} parts")
        authorization_id, user, password = parts
        self.claimed = user
        known = self._digests.get(user)
        is_right = hmac.compare_digest(_digest(password), _NOBODY if known is None else known)
        if not user or not password or known is None or not is_right:
            raise LoginError("wrong user or password")
        if authorization_id not in ("", user):
            raise LoginError("the authorisation id is another user's")
        self.login = Login(user)
        return b""


def _digest(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()


class PlainCredentials:
    mechanism = PLAIN

    def __init__(self, user: str, password: str) -> None:
        self._token = _SEPARATOR.join(("", user, password)).encode()
        if self._token.count(0) != _PARTS - 1:
            raise LoginError("a user or a password of PLAIN cannot have the character 0")

    def begin(self, host: str) -> ClientExchange:
        return _PlainClientExchange(self._token)


class _PlainClientExchange:
    def __init__(self, token: bytes) -> None:
        self._token = token
        self.is_complete = False

    def begin(self) -> Step:
        return self._token

    def respond(self, token: bytes) -> None:
        if token:
            raise LoginError("the broker answered PLAIN with a challenge")
        self.is_complete = True
