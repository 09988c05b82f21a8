"""What logins keep when settings change, and for whom they wait."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from penstock.broker.login.logins import LoginOutcome, Logins
from penstock.broker.session import Session
from penstock.security.sasl.login_state import LoginState
from proof.logins.broker import LISTENER, LoginBroker, running

JAAS = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def logins_of(broker: LoginBroker) -> Logins:
    assert broker.server.broker.logins is not None
    return broker.server.broker.logins


async def log_in(broker: LoginBroker, mechanism: str, token: bytes) -> str:
    """The principal."""
    session = Session("1", "10.0.0.1", LISTENER)
    session.login = LoginState()
    logins = logins_of(broker)
    assert logins.begin(session, mechanism, bare=False)
    outcome = logins.step(session, token)
    if not isinstance(outcome, LoginOutcome):
        await outcome
    return str(session.principal)


def bearer(broker: LoginBroker) -> bytes:
    return f"n,,\x01auth=Bearer {broker.issuer.token()}\x01\x01".encode()


def test_tokens_are_believed_when_settings_change_while_the_issuer_is_away(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            broker.issuer.path.unlink()
            changed = broker.server.broker.config.with_dynamic({}, {JAAS: f'{PLAIN_MODULE} user_bob="b";'})
            logins_of(broker).follow(changed)
            assert await log_in(broker, "PLAIN", b"\0bob\0b") == "User:bob"
            assert await log_in(broker, "OAUTHBEARER", bearer(broker)) == "User:alice"

    asyncio.run(run())


def test_logins_go_on_as_before_when_the_changed_settings_are_wrong(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            changed = broker.server.broker.config.with_dynamic(
                {}, {JAAS: "org.apache.kafka.common.security.scram.ScramLoginModule required;"}
            )
            logins_of(broker).follow(changed)
            assert await log_in(broker, "PLAIN", b"\0alice\0alice's secret") == "User:alice"
            assert await log_in(broker, "OAUTHBEARER", bearer(broker)) == "User:alice"

    asyncio.run(run())


def test_steps_of_other_mechanisms_and_listeners_do_not_wait_when_an_issuer_does_not_answer(tmp_path: Path) -> None:
    gate = threading.Event()

    def wait() -> bytes:
        gate.wait(30)
        return b"late"

    async def run() -> None:
        async with running(tmp_path) as broker:
            logins = logins_of(broker)
            slow = [asyncio.ensure_future(logins._run(LISTENER, "OAUTHBEARER", wait)) for _ in range(20)]
            assert await logins._run(LISTENER, "GSSAPI", lambda: b"ticket") == b"ticket"
            assert await logins._run("OTHER", "OAUTHBEARER", lambda: b"token") == b"token"
            assert not any(step.done() for step in slow)
            gate.set()
            assert await asyncio.gather(*slow) == [b"late"] * 20

    asyncio.run(run())
