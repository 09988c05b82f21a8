"""Clients of callers: one each, bounded, closed when they are idle and not before."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.http.authentication import Caller
from penstock.http.callers.clients import CallerClients, ClientLimits, NoBrokerLoginError, TooManyClientsError
from tests.own_time import pass_time, run_in_own_time

OWN = ClientSecurity()


class FakeClient:
    def __init__(self, security: ClientSecurity) -> None:
        self.security = security
        self.is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class FakeToken:
    security = ClientSecurity()

    def __init__(self) -> None:
        self.ended = asyncio.Event()

    async def end(self) -> None:
        self.ended.set()


class FakeTokens:
    def __init__(self) -> None:
        self.made: dict[str, FakeToken] = {}
        self.is_away = False

    async def delegate(self, principal: str) -> FakeToken:
        await asyncio.sleep(0)
        if self.is_away:
            raise OSError("nobody there")
        assert principal not in self.made
        self.made[principal] = FakeToken()
        return self.made[principal]


def caller(name: str, key: bytes = b"k") -> Caller:
    return Caller(f"User:{name}", key, ClientSecurity())


def new_clients(
    *, is_shared: bool = False, tokens: FakeTokens | None = None, limits: ClientLimits | None = None
) -> CallerClients[FakeClient]:
    return CallerClients(FakeClient, OWN, is_shared=is_shared, tokens=tokens, limits=limits)


def test_each_caller_has_a_client_of_its_own_with_its_own_login() -> None:
    async def run() -> None:
        clients = new_clients()
        alice = caller("alice")
        held = await clients.hold(alice)
        assert held.client.security is alice.security
        assert (await clients.hold(alice)).client is held.client
        others = [await clients.hold(each) for each in (caller("alice", b"other"), caller("bob"))]
        assert len({id(each.client) for each in (held, *others)}) == 3
        await clients.close()
        assert held.client.is_closed

    asyncio.run(run())


def test_nobody_gets_the_services_own_rights_when_callers_have_to_log_in() -> None:
    async def run() -> None:
        clients = new_clients()
        for stranger in (None, Caller(""), Caller("User:by-certificate")):
            with pytest.raises(NoBrokerLoginError):
                await clients.hold(stranger)
        assert len(clients) == 0

    asyncio.run(run())


def test_all_callers_share_a_client_when_the_service_is_open() -> None:
    async def run() -> None:
        clients = new_clients(is_shared=True, limits=ClientLimits(idle_s=0))
        first = await clients.hold(None)
        first.release()
        await pass_time(60)
        second = await clients.hold(caller("alice"))
        assert second.client is first.client
        assert second.client.security is OWN
        assert not second.client.is_closed
        await clients.close()

    run_in_own_time(run())


def test_caller_is_refused_when_all_clients_are_in_use() -> None:
    async def run() -> None:
        clients = new_clients(limits=ClientLimits(most=3, most_per_principal=2))
        held = [await clients.hold(each) for each in (caller("a"), caller("b"), caller("c"))]
        with pytest.raises(TooManyClientsError):
            await clients.hold(caller("d"))
        held[1].release()
        held[1].release()
        assert (await clients.hold(caller("d"))).client is not held[1].client
        await asyncio.sleep(0)
        assert [each.client.is_closed for each in held] == [False, True, False]
        assert len(clients) == 3
        await clients.close()

    asyncio.run(run())


def test_one_principal_gets_no_more_than_its_share_when_it_has_many_logins() -> None:
    async def run() -> None:
        clients = new_clients(limits=ClientLimits(most=10, most_per_principal=2))
        held = [await clients.hold(caller("a", bytes([number]))) for number in range(2)]
        with pytest.raises(TooManyClientsError):
            await clients.hold(caller("a", b"third"))
        held[0].release()
        await clients.hold(caller("a", b"third"))
        await clients.hold(caller("b"))
        assert len(clients) == 3
        await clients.close()

    asyncio.run(run())


def test_client_is_closed_when_it_is_idle_and_never_in_use() -> None:
    async def run() -> None:
        tokens = FakeTokens()
        clients = new_clients(tokens=tokens, limits=ClientLimits(idle_s=0.01))
        used, idle = await clients.hold(Caller("User:used")), await clients.hold(Caller("User:idle"))
        again = await clients.hold(Caller("User:used"))
        idle.release()
        used.release()
        await tokens.made["User:idle"].ended.wait()
        assert idle.client.is_closed
        assert not used.client.is_closed
        again.release()
        await tokens.made["User:used"].ended.wait()
        assert len(clients) == 0
        await clients.close()

    asyncio.run(run())


def test_one_token_is_made_when_requests_of_a_caller_come_together() -> None:
    async def run() -> None:
        tokens = FakeTokens()
        clients = new_clients(tokens=tokens)
        tokens.is_away = True
        with pytest.raises(OSError, match="nobody"):
            await clients.hold(Caller("User:scraper"))
        assert len(clients) == 0
        tokens.is_away = False
        held = await asyncio.gather(*(clients.hold(Caller("User:scraper")) for _ in range(5)))
        assert len({id(each.client) for each in held}) == 1
        assert held[0].client.security is not PLAINTEXT
        await clients.close()
        assert tokens.made["User:scraper"].ended.is_set()

    asyncio.run(run())


class StubbornClient(FakeClient):
    async def close(self) -> None:
        raise OSError("it does not close")


def test_token_is_ended_when_its_client_does_not_close() -> None:
    async def run() -> None:
        tokens = FakeTokens()
        clients = CallerClients(StubbornClient, OWN, is_shared=False, tokens=tokens)
        await clients.hold(Caller("User:by-certificate"))
        await clients.close()
        assert tokens.made["User:by-certificate"].ended.is_set()

    asyncio.run(run())


def test_nothing_is_left_when_the_service_ends_while_a_token_is_made() -> None:
    class SlowTokens(FakeTokens):
        async def delegate(self, principal: str) -> FakeToken:
            begun.set()
            await proceed.wait()
            return await super().delegate(principal)

    opened: list[FakeClient] = []

    def open_client(security: ClientSecurity) -> FakeClient:
        opened.append(FakeClient(security))
        return opened[-1]

    begun, proceed = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        tokens = SlowTokens()
        clients = CallerClients(open_client, OWN, is_shared=False, tokens=tokens)
        holding = asyncio.create_task(clients.hold(Caller("User:by-certificate")))
        await begun.wait()
        await clients.close()
        proceed.set()
        with pytest.raises(TooManyClientsError):
            await holding
        async with asyncio.timeout(10):
            await tokens.made["User:by-certificate"].ended.wait()
        assert [each.is_closed for each in opened] == [True]
        assert len(clients) == 0

    asyncio.run(run())
