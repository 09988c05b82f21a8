"""The progress of the login on a connection. Decides; performs no I/O.

Rules, as in Kafka's SaslServerAuthenticator:
- Before the login only ApiVersions, SaslHandshake and SaslAuthenticate are served, and each only where it is due.
  ApiVersions is answered once with success. Anything else ends the connection, before its body is looked at.
- SaslHandshake names the mechanism. After version 1 of it the tokens come in SaslAuthenticate; after version 0 they
  come bare, each as a frame.
- A login may end (KIP-368): by `connections.max.reauth.ms`, and with the client's ticket or token. After that any
  request but SaslHandshake ends the connection. SaslHandshake on an open connection starts another login, at most once
  a second, and only where the login ends at all. Mechanism and user must stay the same.
"""

from __future__ import annotations

import enum

from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from penstock.security.sasl.exchange import Login, ServerExchange

VERSIONS_KEY = ApiVersionsRequest.API_KEY
HANDSHAKE_KEY = SaslHandshakeRequest.API_KEY
AUTHENTICATE_KEY = SaslAuthenticateRequest.API_KEY

_RESTART_PAUSE_MS = 1000


class Phase(enum.Enum):
    NEW = enum.auto()
    GREETED = enum.auto()  # the client knows our versions
    RESTARTED = enum.auto()  # another login on an open connection
    TOKENS = enum.auto()
    BARE_TOKENS = enum.auto()
    OPEN = enum.auto()
    OVER = enum.auto()  # refused: the connection ends with the answer


# The APIs that each phase serves, by key. In the other phases the key of a request plays no part.
SERVED: dict[Phase, tuple[int, ...]] = {
    Phase.NEW: (VERSIONS_KEY, HANDSHAKE_KEY),
    Phase.GREETED: (HANDSHAKE_KEY,),
    Phase.RESTARTED: (HANDSHAKE_KEY,),
    Phase.TOKENS: (AUTHENTICATE_KEY,),
    Phase.OVER: (),
}
AWAITS_HANDSHAKE = (Phase.NEW, Phase.GREETED, Phase.RESTARTED)


class LoginState:
    __slots__ = (
        "ends_at_ms",
        "exchange",
        "login",
        "mechanism",
        "phase",
        "reason",
        "restarted_at_ms",
        "wrong_mechanism",
    )

    def __init__(self) -> None:
        self.phase = Phase.NEW
        self.mechanism = ""
        self.exchange: ServerExchange | None = None
        self.login: Login | None = None  # the last one that succeeded
        self.ends_at_ms: int | None = None  # by the monotonic clock
        self.restarted_at_ms: int | None = None
        self.wrong_mechanism = False  # another one than that of the first login
        self.reason = ""  # of the refusal, for the log

    @property
    def is_again(self) -> bool:
        return self.login is not None

    def has_ended(self, now_ms: int) -> bool:
        return self.ends_at_ms is not None and now_ms >= self.ends_at_ms

    def may_restart(self, now_ms: int) -> bool:
        if self.ends_at_ms is None:
            return False
        return self.restarted_at_ms is None or now_ms - self.restarted_at_ms >= _RESTART_PAUSE_MS

    def restart(self, now_ms: int) -> None:
        self.restarted_at_ms = now_ms
        self.phase = Phase.RESTARTED

    def choose(self, mechanism: str, exchange: ServerExchange, *, bare: bool) -> None:
        self.wrong_mechanism = self.is_again and mechanism != self.mechanism
        if not self.is_again:
            self.mechanism = mechanism
        self.exchange = exchange
        self.phase = Phase.BARE_TOKENS if bare else Phase.TOKENS

    def refuse(self, reason: str) -> None:
        self.exchange = None
        self.reason = reason
        self.phase = Phase.OVER

    def open(self, login: Login, ends_at_ms: int | None) -> None:
        self.exchange = None
        self.login = login
        self.ends_at_ms = ends_at_ms
        self.phase = Phase.OPEN


def session_lifetime_ms(login: Login, max_reauth_ms: int, now_ms: int) -> int | None:
    """How long the login lasts: as long as the client's ticket or token, at most `max_reauth_ms`. None: for ever.

    `now_ms` is of the wall clock. A negative rest is 0, with which the next request already ends the connection.
    """
    bounds = [] if login.expires_ms is None else [login.expires_ms - now_ms]
    if max_reauth_ms > 0:
        bounds.append(max_reauth_ms)
    return max(0, min(bounds)) if bounds else None
