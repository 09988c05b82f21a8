"""Logins at run time: the mechanisms of each listener, the steps of an exchange, delayed refusals.

The broker answers a refusal late, with one text for all reasons, and reads nothing from the client meanwhile. A slow
step runs in threads of its own: an issuer that does not answer must not take the threads that sync the disks. Each
mechanism of a listener has its own threads: while tokens wait for an issuer, Kerberos tickets are checked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import NamedTuple

from penstock.broker.login.key_sources import KeySources
from penstock.broker.login.mechanisms import Sources, make_mechanisms
from penstock.broker.login.threads import LoginThreads
from penstock.broker.session import ANONYMOUS, Principal, Session
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.metrics.counters import LoginMetrics
from penstock.security.audit.events import NO_AUDIT, AuditEvent, AuditKind, Auditor
from penstock.security.audit.logins import SASL, login_refused, login_succeeded, show_claimed
from penstock.security.sasl.exchange import LoginError, ServerMechanism, Slow
from penstock.security.sasl.login_state import LoginState, session_lifetime_ms

logger = logging.getLogger(__name__)

# The number of logins that ask the issuer or the keytab of a listener at once. Further logins wait; other requests do
# not.
_THREADS = 4


class LoginOutcome(NamedTuple):
    """The answer to a token of the client."""

    token: bytes = b""
    lifetime_ms: int = 0
    is_refused: bool = False


class Logins:
    def __init__(self, config: BrokerConfig, sources: Sources, clock: Clock, metrics: LoginMetrics) -> None:
        """Raises ConfigError where a listener cannot be served as configured."""
        self._config = config
        self._clock = clock
        self._metrics = metrics
        self.auditor: Auditor = NO_AUDIT
        self._sources = sources
        self._mechanisms: dict[str, Mapping[str, ServerMechanism]] = {}
        self._keys = KeySources(clock)
        self._threads: dict[tuple[str, str], LoginThreads] = {}  # by listener and mechanism
        self._is_closed = False
        self._make(config, clock.now_ms())

    def _make(self, config: BrokerConfig, now_ms: int | None = None) -> None:
        """Makes the mechanisms. With `now_ms`, at the start, it reads keys in files at once, so that bad keys end the
        start. Later the first login that needs the keys reads them, in a thread.
        """
        self._mechanisms = {
            endpoint.name: make_mechanisms(config, endpoint.name, self._sources, self._keys, now_ms)
            for endpoint in config.endpoints
            if endpoint.has_login
        }

    def follow(self, config: BrokerConfig) -> None:
        """Takes changed settings while the broker runs. Wrong settings change nothing. Keys of issuers stay. Where a
        listener has a key file for the first time, the first login reads the keys, and no token counts before that.
        """
        before, self._config = self._config, config
        if not any(
            name.endswith(("sasl.jaas.config", "sasl.enabled.mechanisms", "principal.to.local.rules"))
            and before.values.get(name) != config.values.get(name)
            for name in {*before.values, *config.values}
        ):
            return
        try:
            self._make(config)
        except ConfigError as error:
            logger.error("logins go on with the settings before, because the new ones fail: %s", error.message)

    def mechanisms(self, listener: str) -> Mapping[str, ServerMechanism]:
        return self._mechanisms.get(listener, {})

    def close(self) -> None:
        self._is_closed = True
        for threads in self._threads.values():
            threads.close()

    # -------------------------------------------------------------------------------------------- a login

    def begin(self, session: Session, mechanism: str, *, bare: bool) -> bool:
        """Whether the mechanism exists. Without the mechanism the login is over."""
        assert session.login is not None
        found = self.mechanisms(session.listener).get(mechanism)
        if found is None:
            self._count_refusal(session.login)
            reason = "the client asked for a mechanism that is not enabled"
            session.login.refuse(reason)
            self._report(login_refused(SASL, "", session.client_host, reason, _known_as(session)))
            return False
        session.login.choose(mechanism, found.begin(self._clock.now_ms()), bare=bare)
        return True

    def step(self, session: Session, token: bytes) -> LoginOutcome | Awaitable[LoginOutcome]:
        """Takes a token of the client. A refusal comes as an awaitable, because the refusal is delayed."""
        state = session.login
        assert state is not None
        assert state.exchange is not None
        if state.wrong_mechanism:
            return self._refuse(session, state, "another mechanism than at the first login")
        try:
            step = state.exchange.respond(token)
        except LoginError as error:
            return self._refuse(session, state, str(error))
        if isinstance(step, bytes):
            return self._go_on(session, state, step)
        return self._step_slowly(session, state, step)

    async def _step_slowly(self, session: Session, state: LoginState, step: Slow) -> LoginOutcome:
        try:
            token = await self._run(session.listener, state.mechanism, step)
        except LoginError as error:
            return await self._refuse(session, state, str(error))
        outcome = self._go_on(session, state, token)
        return outcome if isinstance(outcome, LoginOutcome) else await outcome

    def _go_on(self, session: Session, state: LoginState, token: bytes) -> LoginOutcome | Awaitable[LoginOutcome]:
        assert state.exchange is not None
        login = state.exchange.login
        if login is None:
            return LoginOutcome(token)
        if state.login is not None and state.login.name != login.name:
            return self._refuse(session, state, "another user than at the first login")
        if self.auditor.refuses and AuditKind.LOGIN in self.auditor.kinds:
            return self._refuse(session, state, "the audit trail cannot be written")
        max_reauth_ms = self._config.listener_value(session.listener, "connections.max.reauth.ms", state.mechanism)
        assert isinstance(max_reauth_ms, int)
        lifetime_ms = session_lifetime_ms(login, max_reauth_ms, self._clock.now_ms())
        is_again = state.is_again
        if is_again:
            self._metrics.again += 1
        else:
            self._metrics.succeeded += 1
        state.open(login, None if lifetime_ms is None else self._clock.monotonic_ms() + lifetime_ms)
        session.principal = Principal("User", login.name)
        who, address = str(session.principal), session.client_host
        self._report(login_succeeded(SASL, state.mechanism, who, address, is_again=is_again))
        session.max_frame_size = self._config.network.socket_request_max_bytes
        return LoginOutcome(token, lifetime_ms or 0)

    def _refuse(self, session: Session, state: LoginState, reason: str) -> Awaitable[LoginOutcome]:
        self._count_refusal(state)
        claimed = _claimed(state)
        self._report(login_refused(SASL, state.mechanism, session.client_host, reason, _known_as(session), claimed))
        named = f", claimed name {show_claimed(claimed)}" if claimed else ""
        state.refuse(f"{state.mechanism} login refused: {reason}{named}")
        session.is_refused = True
        return self._refuse_slowly()

    async def _refuse_slowly(self) -> LoginOutcome:
        delay_ms = self._config.get("connection.failed.authentication.delay.ms")
        assert isinstance(delay_ms, int)
        await asyncio.sleep(delay_ms / 1000)
        return LoginOutcome(is_refused=True)

    def expire(self, session: Session) -> None:
        """Ends the client's connection, because its login took too long."""
        self._metrics.timed_out += 1
        state = session.login
        mechanism, claimed = ("", "") if state is None else (state.mechanism, _claimed(state))
        self._report(login_refused(SASL, mechanism, session.client_host, "the login took too long", claimed=claimed))

    def _report(self, event: AuditEvent) -> None:
        if AuditKind.LOGIN in self.auditor.kinds:
            self.auditor.record(event)

    def _count_refusal(self, state: LoginState) -> None:
        if state.is_again:
            self._metrics.failed_again += 1
        else:
            self._metrics.failed += 1

    async def _run(self, listener: str, mechanism: str, step: Slow) -> bytes:
        if self._is_closed:
            raise LoginError("the broker stops")
        threads = self._threads.get((listener, mechanism))
        if threads is None:
            threads = self._threads[listener, mechanism] = LoginThreads(_THREADS, f"{listener}-{mechanism}")
        return await asyncio.wrap_future(threads.submit(step))


def _known_as(session: Session) -> str:
    """The principal of the connection's former login, which no client claims."""
    return "" if session.principal is ANONYMOUS else str(session.principal)


def _claimed(state: LoginState) -> str:
    return "" if state.exchange is None else state.exchange.claimed
