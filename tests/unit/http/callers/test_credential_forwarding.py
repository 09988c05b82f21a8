"""Logins that are passed on to brokers: remembered, waited for together, bounded. The brokers are a fake."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.connection.frames import ConnectionClosedError
from penstock.client.connection.login import LoginRefusedError, UnservedMechanismError
from penstock.http.authentication import Caller, Credentials, LoginUnavailableError
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.http.callers.credential_forwarding import ForwardedLogins, ForwardingLimits
from penstock.http.limits import HttpLimits
from penstock.http.server import HttpSecurity
from penstock.security.sasl.exchange import Credentials as BrokerCredentials
from tests.own_time import pass_time, run_in_own_time
from tests.unit.http.talking import Listening, with_listener

SECRET = b"of this process"
Answer = Callable[[BrokerCredentials], Awaitable[float | None]]


class FakeLogins(BrokerLogins):
    """Keeps what it was asked with, and answers as it is told."""

    def __init__(self, answer: Answer) -> None:
        super().__init__([("127.0.0.1", 1)])
        self.asked: list[str] = []
        self.under_way = self.most_under_way = 0
        self._answer = answer

    async def prove(self, credentials: BrokerCredentials) -> float | None:
        self.asked.append(credentials.mechanism)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._answer(credentials)
        finally:
            self.under_way -= 1


async def accept(_: BrokerCredentials) -> float | None:
    return None


async def refuse(_: BrokerCredentials) -> float | None:
    raise LoginRefusedError("no")


async def hang(_: BrokerCredentials) -> float | None:
    await asyncio.Event().wait()
    return None


def basic(name: str, password: str = "secret", address: str = "10.0.0.1") -> Credentials:
    return Credentials.of([f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"], None, address)


def jwt(claims: object, *parts: str) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return ".".join(("aGVhZGVy", body, "c2lnbmF0dXJl", *parts))


def bearer(token: str) -> Credentials:
    return Credentials.of([f"Bearer {token}"], None, "10.0.0.1")


def test_broker_is_asked_once_when_a_caller_comes_again() -> None:
    async def run() -> None:
        logins = FakeLogins(accept)
        passed = ForwardedLogins(logins, SECRET)
        first, again = [await passed.authenticate(basic("alice")) for _ in range(2)]
        assert first is not None
        assert first.principal == "User:alice"
        assert again is first
        assert logins.asked == ["SCRAM-SHA-512"]
        other = await passed.authenticate(basic("alice", "another"))
        assert other is not None
        assert other.key != first.key
        assert "secret" not in repr(first)

    asyncio.run(run())


def test_login_is_forgotten_when_the_broker_gives_it_no_longer() -> None:
    async def short(_: BrokerCredentials) -> float | None:
        return asyncio.get_running_loop().time()

    async def run() -> None:
        logins = FakeLogins(short)
        passed = ForwardedLogins(logins, SECRET, limits=ForwardingLimits(remembered_s=0.01))
        for _ in range(2):
            assert await passed.authenticate(basic("alice")) is not None
        assert len(logins.asked) == 2
        await pass_time(0.02)  # the timer is due before this
        assert len(passed) == 0

    run_in_own_time(run())


def test_callers_share_one_proof_when_they_show_the_same_at_the_same_time() -> None:
    async def run() -> None:
        gate = asyncio.Event()

        async def later(_: BrokerCredentials) -> float | None:
            await gate.wait()
            return None

        logins = FakeLogins(later)
        passed = ForwardedLogins(logins, SECRET)
        waiting = [asyncio.create_task(passed.authenticate(basic("alice"))) for _ in range(20)]
        await asyncio.sleep(0)
        gate.set()
        assert {caller and caller.principal for caller in await asyncio.gather(*waiting)} == {"User:alice"}
        assert len(logins.asked) == 1

    asyncio.run(run())


def test_other_mechanisms_are_tried_when_the_brokers_serve_or_know_not_the_first() -> None:
    async def plain_only(credentials: BrokerCredentials) -> float | None:
        if credentials.mechanism != "PLAIN":
            raise UnservedMechanismError(credentials.mechanism, ["PLAIN"])
        return None

    async def short_hash_only(credentials: BrokerCredentials) -> float | None:
        return await (accept if credentials.mechanism == "SCRAM-SHA-256" else refuse)(credentials)

    async def run() -> None:
        logins = FakeLogins(plain_only)
        passed = ForwardedLogins(logins, SECRET, mechanisms=("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"))
        assert await passed.authenticate(basic("alice")) is not None
        assert logins.asked == ["SCRAM-SHA-512", "PLAIN"]
        # A password is shown as it is where the settings say so, or the connection is encrypted.
        assert await ForwardedLogins(logins, SECRET).authenticate(basic("alice")) is None
        logins = FakeLogins(short_hash_only)
        assert await ForwardedLogins(logins, SECRET).authenticate(basic("alice")) is not None
        assert logins.asked == ["SCRAM-SHA-512", "SCRAM-SHA-256"]

    asyncio.run(run())


@pytest.mark.parametrize(
    "credentials",
    [
        bearer("opaque"),
        bearer("a.b.c"),
        bearer(jwt({"name": "alice"})),
        bearer(jwt({"sub": 7})),
        bearer(jwt({"sub": ""})),
        bearer(jwt(["alice"])),
        bearer(jwt({"sub": "alice"}, "more")),
        bearer(jwt({"sub": "alice"}) + "\x01auth=x"),
        bearer("x." + base64.urlsafe_b64encode(b"[" * 4_000).decode() + ".x"),
        basic("alice\0bob"),
        Credentials.of(["Basic ???"], None),
        Credentials.of(["Digest x"], None),
        Credentials.of([], None),
    ],
)
def test_nobody_is_asked_when_the_credentials_are_none(credentials: Credentials) -> None:
    async def run() -> tuple[Caller | None, list[str]]:
        logins = FakeLogins(accept)
        passed = ForwardedLogins(logins, SECRET, mechanisms=("PLAIN",))
        return await passed.authenticate(credentials), logins.asked

    assert asyncio.run(run()) == (None, [])


def test_name_of_a_token_is_the_claim_that_the_settings_name() -> None:
    async def run() -> None:
        passed = ForwardedLogins(FakeLogins(accept), SECRET, subject_claim="email")
        caller = await passed.authenticate(bearer(jwt({"sub": "7", "email": "alice@example.org"})))
        assert caller is not None
        assert caller.principal == "User:alice@example.org"
        only_basic = ForwardedLogins(FakeLogins(accept), SECRET, methods=("BASIC",))
        assert await only_basic.authenticate(bearer(jwt({"sub": "alice"}))) is None

    asyncio.run(run())


def test_logins_are_bounded_when_somebody_guesses_from_one_address() -> None:
    async def slow(_: BrokerCredentials) -> float | None:
        await pass_time(0.005)
        raise LoginRefusedError("no")

    async def run() -> None:
        limits = ForwardingLimits(most_per_address=2, most_waiting_per_address=10, most_under_way=3)
        logins = FakeLogins(slow)
        passed = ForwardedLogins(logins, SECRET, mechanisms=("SCRAM-SHA-512",), limits=limits)
        guesses = [passed.authenticate(basic("alice", str(number))) for number in range(50)]
        outcomes = await asyncio.gather(*guesses, return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 10
        assert sum(isinstance(outcome, LoginUnavailableError) for outcome in outcomes) == 40
        assert logins.most_under_way == 2
        everywhere = [passed.authenticate(basic("bob", address=f"10.0.1.{number}")) for number in range(9)]
        everywhere += [passed.authenticate(basic(f"bob{number}", address=f"10.0.2.{number}")) for number in range(9)]
        await asyncio.gather(*everywhere)
        assert logins.most_under_way == 3
        assert len(passed) == 0

    run_in_own_time(run())


def test_remembered_logins_are_bounded_when_many_callers_come() -> None:
    async def run() -> None:
        passed = ForwardedLogins(FakeLogins(accept), SECRET, limits=ForwardingLimits(most_remembered=5))
        for number in range(20):
            await passed.authenticate(basic(f"user{number}"))
        assert len(passed) == 5

    asyncio.run(run())


@pytest.mark.parametrize(("answer", "status"), [(refuse, 401), (hang, 503), (None, 503)])
def test_caller_is_told_whether_another_attempt_helps_when_a_login_fails(answer: Answer | None, status: int) -> None:
    async def away(_: BrokerCredentials) -> float | None:
        raise ConnectionClosedError("gone")

    async def use(listening: Listening) -> None:
        value = base64.b64encode(b"alice:secret").decode()
        refused = await listening.get("/", f"authorization: Basic {value}")
        assert refused.status == status
        assert ("www-authenticate: basic" in refused.headers) == (status == 401)
        assert ("retry-after: 1" in refused.headers) == (status == 503)
        assert (await listening.get("/health", f"authorization: Basic {value}")).status == 200
        assert listening.metrics.refused["login" if status == 401 else "login unavailable"] == 1

    class Later:
        """The authenticator belongs to the listener's loop."""

        challenges = ('Basic realm="penstock"',)
        passed: ForwardedLogins | None = None

        async def authenticate(self, credentials: Credentials) -> Caller | None:
            limits = ForwardingLimits(proof_s=0.05)
            self.passed = self.passed or ForwardedLogins(FakeLogins(answer or away), SECRET, limits=limits)
            return await self.passed.authenticate(credentials)

    with_listener(use, HttpLimits(refusal_delay_s=0), HttpSecurity(authenticator=Later()))
