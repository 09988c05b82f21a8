"""The gate of a listener with SASL: the gate passes frames to the dispatcher as far as the connection's login allows.

Listeners without SASL have no gate and pay nothing for it. An open connection pays for one look at its state.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable

from penstock.broker.login.logins import LoginOutcome, Logins
from penstock.broker.session import Outcome as Served
from penstock.broker.session import Reply, Session, UnanswerableError
from penstock.core.clock import Clock
from penstock.core.metrics.counters import LoginMetrics
from penstock.protocol.api_names import name_api
from penstock.protocol.message import Buffer
from penstock.security.sasl.login_state import HANDSHAKE_KEY, SERVED, VERSIONS_KEY, LoginState, Phase

Dispatch = Callable[[Session, Buffer], Reply | Awaitable[Reply]]
Serve = Callable[[Session, Buffer], Served | Awaitable[Served]]

_HANDSHAKE = HANDSHAKE_KEY.to_bytes(2, "big")
_SIZE = struct.Struct(">i")
_ERROR_CODE = slice(8, 10)  # of an ApiVersions answer: behind the frame's size and the correlation id
_NO_ERROR = b"\0\0"
# ApiVersions and SaslHandshake have a client id of at most 32,767 bytes and a few names. Tokens may be larger.
_MAX_GREETING = 40_000


class LoginGate:
    def __init__(self, dispatch: Dispatch, logins: Logins, clock: Clock, metrics: LoginMetrics) -> None:
        self._dispatch = dispatch
        self.serve: Serve = dispatch  # for clients that have logged in: quotas may stand before dispatch
        self._logins = logins
        self._clock = clock
        self._metrics = metrics

    def handle(self, session: Session, frame: Buffer) -> Served | Awaitable[Served]:
        """Costs 0.2 us once the client has logged in. Raises UnanswerableError where the connection ends."""
        state = session.login
        if state is None:
            state = session.login = LoginState()
        if state.phase is Phase.OPEN:
            if frame[:2] != _HANDSHAKE:
                if state.ends_at_ms is not None and state.has_ended(self._clock.monotonic_ms()):
                    self._metrics.expired += 1
                    raise UnanswerableError("session", "the login has expired, and the client did not log in again")
                return self.serve(session, frame)
            now_ms = self._clock.monotonic_ms()
            if not state.may_restart(now_ms):
                return self.serve(session, frame)  # dispatch answers that no handshake is due
            state.restart(now_ms)
        if state.phase is Phase.BARE_TOKENS:
            return self._take_bare(session, state, bytes(frame))
        return self._pass(session, state, frame)

    def _pass(self, session: Session, state: LoginState, frame: Buffer) -> Reply | Awaitable[Reply]:
        api_key = int.from_bytes(frame[:2], "big")
        if api_key not in SERVED[state.phase]:
            raise UnanswerableError("login", f"{name_api(api_key)} is not served before the client has logged in")
        if api_key in (VERSIONS_KEY, HANDSHAKE_KEY) and len(frame) > _MAX_GREETING:
            raise UnanswerableError("login", f"{name_api(api_key)} of {len(frame)} bytes before the login")
        reply = self._dispatch(session, frame)
        if reply is None or isinstance(reply, list):
            return _judge(state, api_key, reply)
        return _judge_later(state, api_key, reply)

    def _take_bare(self, session: Session, state: LoginState, token: bytes) -> Reply | Awaitable[Reply]:
        outcome = self._logins.step(session, token)
        if isinstance(outcome, LoginOutcome):
            return _bare_reply(state, outcome)
        return _bare_reply_later(state, outcome)


def _judge(state: LoginState, api_key: int, reply: Reply) -> Reply:
    if state.phase is Phase.OVER:
        raise UnanswerableError("login", state.reason, reply)
    if api_key == VERSIONS_KEY and reply is not None:
        first = reply[0]
        assert isinstance(first, bytearray)
        if first[_ERROR_CODE] == _NO_ERROR:
            state.phase = Phase.GREETED
    return reply


async def _judge_later(state: LoginState, api_key: int, waiting: Awaitable[Reply]) -> Reply:
    return _judge(state, api_key, await waiting)


def _bare_reply(state: LoginState, outcome: LoginOutcome) -> Reply:
    """The reply with a bare token. A client of bare tokens understands no error: its connection just ends."""
    if outcome.is_refused:
        raise UnanswerableError("login", state.reason)
    return [bytearray(_SIZE.pack(len(outcome.token)) + outcome.token)]


async def _bare_reply_later(state: LoginState, waiting: Awaitable[LoginOutcome]) -> Reply:
    return _bare_reply(state, await waiting)
