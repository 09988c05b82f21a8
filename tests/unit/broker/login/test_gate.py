"""Logins that end and begin anew (KIP-368), in the time of a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.login.gate import LoginGate
from penstock.broker.session import Session, Throttled, UnanswerableError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.unit.broker.served import Served, decode_reply, encode_frame, serving

PROPERTIES = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "connections.max.reauth.ms": "1500",
    "connection.failed.authentication.delay.ms": "0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="a" user_bob="b";'
    ),
}
ALICE, BOB = b"\0alice\0a", b"\0bob\0b"


class Client:
    def __init__(self, served: Served) -> None:
        self.broker, self.clock = served.broker, served.clock
        logins = served.broker.logins
        assert logins is not None
        self._gate = LoginGate(served.server.dispatcher.handle, logins, served.clock, served.broker.metrics.logins)
        self.session = Session("1", "10.0.0.1", "SASL_PLAINTEXT")

    async def ask(self, request: Message, version: int) -> Any:
        reply = self._gate.handle(self.session, encode_frame(request, version))
        if reply is not None and not isinstance(reply, list | Throttled):
            reply = await reply
        assert not isinstance(reply, Throttled)
        return decode_reply(reply, request.RESPONSE, version)

    async def begin(self, mechanism: str = "PLAIN") -> int:
        return int((await self.ask(SaslHandshakeRequest(mechanism=mechanism), 1)).error_code)

    async def show(self, token: bytes) -> Any:
        return await self.ask(SaslAuthenticateRequest(auth_bytes=token), 2)

    async def log_in(self, token: bytes = ALICE) -> None:
        assert await self.begin() == ErrorCode.NONE
        answer = await self.show(token)
        assert (answer.error_code, answer.session_lifetime_ms) == (ErrorCode.NONE, 1500)

    async def is_served(self) -> bool:
        return bool((await self.ask(MetadataRequest(topics=[]), 12)).brokers)


def with_client(tmp_path: Path, scene: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with serving(tmp_path, PROPERTIES) as served:
            await scene(Client(served))

    asyncio.run(run())


def test_client_is_served_until_its_login_ends_and_then_cut_off(tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        await client.log_in()
        client.clock.advance(1_499)
        assert await client.is_served()
        client.clock.advance(1)
        with pytest.raises(UnanswerableError, match="expired"):
            await client.is_served()
        assert client.broker.metrics.logins.expired == 1

    with_client(tmp_path, scene)


@pytest.mark.parametrize("after_ms", [0, 1_400, 1_500, 3_600_000])
def test_client_goes_on_when_it_logs_in_again_before_or_after_the_end(tmp_path: Path, after_ms: int) -> None:
    async def scene(client: Client) -> None:
        await client.log_in()
        client.clock.advance(after_ms)
        await client.log_in()
        client.clock.advance(1_499)
        assert await client.is_served()
        assert (client.broker.metrics.logins.succeeded, client.broker.metrics.logins.again) == (1, 1)

    with_client(tmp_path, scene)


def test_login_is_not_due_when_the_last_one_is_less_than_a_second_old(tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        await client.log_in()
        await client.log_in()
        client.clock.advance(999)
        assert await client.begin() == ErrorCode.ILLEGAL_SASL_STATE
        assert await client.is_served()
        client.clock.advance(1)
        await client.log_in()

    with_client(tmp_path, scene)


def test_nothing_but_a_login_is_served_when_one_has_begun_anew(tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        await client.log_in()
        assert await client.begin() == ErrorCode.NONE
        with pytest.raises(UnanswerableError, match="not served"):
            await client.is_served()

    with_client(tmp_path, scene)


@pytest.mark.parametrize("token", [BOB, b"\0alice\0wrong"], ids=["another user", "a wrong password"])
def test_client_is_cut_off_when_its_second_login_is_not_as_the_first(tmp_path: Path, token: bytes) -> None:
    async def scene(client: Client) -> None:
        await client.log_in()
        assert await client.begin() == ErrorCode.NONE
        with pytest.raises(UnanswerableError, match="login refused") as refusal:
            await client.show(token)
        answer = decode_reply(refusal.value.reply, SaslAuthenticateRequest.RESPONSE, 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert str(client.session.principal) == "User:alice"
        with pytest.raises(UnanswerableError):
            await client.is_served()

    with_client(tmp_path, scene)


def test_client_is_cut_off_when_it_logs_in_again_by_another_mechanism(tmp_path: Path) -> None:
    async def scene(client: Client) -> None:
        await client.log_in()
        assert await client.begin("SCRAM-SHA-256") == ErrorCode.NONE
        with pytest.raises(UnanswerableError, match="another mechanism"):
            await client.show(b"n,,n=alice,r=abc")

    with_client(tmp_path, scene)
