"""OAUTHBEARER (RFC 7628): the client shows a token that an issuer has signed.

The client's one message is `n,[a=id],^Aauth=Bearer TOKEN^A[name=value^A...]^A`, with ^A for the byte 1. The broker
answers a refused token with a small JSON document; the client replies with ^A, and only then the login fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from penstock.security.sasl.exchange import OAUTHBEARER, ClientExchange, Login, LoginError, Step

_MARK = "\x01"
_REFUSAL = b'{"status":"invalid_token"}'
_NAME = re.compile(r"[A-Za-z]+")
_SCHEME = "bearer "


class TokenJudge(Protocol):
    """Decides about a token. `judge` returns the login, or raises LoginError. Where `needs_keys` is true, the caller
    runs `read_keys` in a thread first.
    """

    def needs_keys(self, token: str, now_ms: int) -> bool: ...

    def read_keys(self, token: str, now_ms: int) -> None: ...

    def judge(self, token: str, now_ms: int) -> Login: ...


class OAuthBearerServer:
    def __init__(self, judge: TokenJudge) -> None:
        self._judge = judge

    def begin(self, now_ms: int) -> OAuthBearerServerExchange:
        return OAuthBearerServerExchange(self._judge, now_ms)


class OAuthBearerServerExchange:
    __slots__ = ("_judge", "_now_ms", "_refusal", "login")
    claimed = ""  # the name in an unproved token is not read

    def __init__(self, judge: TokenJudge, now_ms: int) -> None:
        self._judge = judge
        self._now_ms = now_ms
        self._refusal: str | None = None  # the text alone: the error would hold the token until the client answers
        self.login: Login | None = None

    def respond(self, token: bytes) -> Step:
        if self._refusal is not None:
            raise LoginError(self._refusal)
        if self.login is not None:
            raise LoginError("a token after the end of the login")
        authorization_id, bearer = parse_client_first(token)
        try:
            needs_keys = self._judge.needs_keys(bearer, self._now_ms)
        except LoginError as error:
            self._refusal = str(error)
            return _REFUSAL
        if needs_keys:
            return lambda: self._read_and_decide(authorization_id, bearer)
        return self._decide(authorization_id, bearer)

    def _read_and_decide(self, authorization_id: str, bearer: str) -> bytes:
        self._judge.read_keys(bearer, self._now_ms)
        return self._decide(authorization_id, bearer)

    def _decide(self, authorization_id: str, bearer: str) -> bytes:
        try:
            login = self._judge.judge(bearer, self._now_ms)
            if authorization_id not in ("", login.name):
                raise LoginError("the authorisation id is not the one of the token")
        except LoginError as error:
            self._refusal = str(error)
            return _REFUSAL
        self.login = login
        return b""


def parse_client_first(message: bytes) -> tuple[str, str]:
    """(authorisation id, token)"""
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise LoginError("the message is not UTF-8") from None
    header, mark, rest = text.partition(_MARK)
    flag, _, authorization = header.partition(",")
    if flag != "n" or not mark or not authorization.endswith(",") or not rest.endswith(_MARK):
        raise LoginError("the message is not one of OAUTHBEARER")
    authorization = authorization[:-1]
    if authorization and not authorization.startswith("a="):
        raise LoginError("the message is not one of OAUTHBEARER")
    pairs: dict[str, str] = {}
    for part in filter(None, rest.split(_MARK)):
        name, equals, value = part.partition("=")
        if not equals or not _NAME.fullmatch(name) or name in pairs:
            raise LoginError("an extension is not name=value")
        pairs[name] = value
    scheme = pairs.get("auth", "")
    if not scheme.lower().startswith(_SCHEME):
        raise LoginError("the message has no bearer token")
    return authorization.removeprefix("a="), scheme[len(_SCHEME) :].strip()


class OAuthBearerCredentials:
    """`fetch` gets a token, from a file or from the issuer; it may take long."""

    mechanism = OAUTHBEARER

    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch

    def begin(self, host: str) -> ClientExchange:
        return _OAuthBearerClientExchange(self._fetch)


class _OAuthBearerClientExchange:
    def __init__(self, fetch: Callable[[], str]) -> None:
        self._fetch = fetch
        self.is_complete = False

    def begin(self) -> Step:
        return lambda: f"n,,{_MARK}auth=Bearer {self._fetch()}{_MARK}{_MARK}".encode()

    def respond(self, token: bytes) -> Step | None:
        if token:  # the broker's reason for the refusal; the login fails with the answer to this
            return _MARK.encode()
        self.is_complete = True
        return None
