"""Requests passed on to the leader over HTTP."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest

from penstock.http.routes import Route
from penstock.http.server import HttpServer
from penstock.registry.node.election import Identity
from penstock.registry.node.forwarding import ForwardedAnswer, Forwarder, ForwardingError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HEADERS = [
    (b"host", b"follower"),
    (b"authorization", b"Basic YTpi"),
    (b"content-type", b"application/json"),
    (b"content-length", b"999"),
    (b"connection", b"keep-alive"),
    (b"x-anything", b"1"),
]


async def echo(request: Request) -> Response:
    from starlette.responses import JSONResponse

    names = ("host", "authorization", "content-type", "x-forward", "x-anything")
    seen = {
        "target": request.scope["raw_path"].decode() + "?" + request.scope["query_string"].decode(),
        "body": (await request.body()).decode(),
        "headers": {name: request.headers[name] for name in names if name in request.headers},
    }
    return JSONResponse(seen, 201, headers={"x-penstock-position": "42", "retry-after": "3"})


def with_leader(scenario: Callable[[Identity], Awaitable[None]]) -> None:
    async def main() -> None:
        server = HttpServer("leader", [Route("/subjects/{name}", echo, ("POST",))])
        await server.start("127.0.0.1", 0)
        try:
            await scenario(Identity("127.0.0.1", server.port))
        finally:
            await server.stop()

    asyncio.run(main())


def test_the_leader_gets_the_request_as_it_came_with_the_caller_s_credentials_and_a_mark() -> None:
    async def scenario(leader: Identity) -> None:
        answer = await Forwarder(None, 10).forward(leader, "POST", b"/subjects/a%2Fb?normalize=true", HEADERS, b"{}")
        assert answer == ForwardedAnswer(201, "application/json", 42, answer.body, (("retry-after", "3"),))
        expected = (
            b'{"target":"/subjects/a%2Fb?normalize=true","body":"{}","headers":{"host":"127.0.0.1:'
            + str(leader.port).encode()
            + b'","authorization":"Basic YTpi","content-type":"application/json","x-forward":"true"}}'
        )
        assert answer.body == expected

    with_leader(scenario)


def test_a_leader_that_is_not_there_has_not_got_the_request() -> None:
    async def main() -> None:
        server = HttpServer("leader", [])
        await server.start("127.0.0.1", 0)
        port = server.port
        await server.stop()
        with pytest.raises(ForwardingError) as failed:
            await Forwarder(None, 10).forward(Identity("127.0.0.1", port), "POST", b"/", HEADERS, b"")
        assert not failed.value.is_sent

    asyncio.run(main())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf", b"\xff\xff\r\n\r\n"])
def test_a_leader_that_goes_away_in_the_middle_may_have_got_the_request(answer: bytes) -> None:
    async def go_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def main() -> None:
        async with await asyncio.start_server(go_away, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ForwardingError) as failed:
                await Forwarder(None, 10).forward(Identity("127.0.0.1", port), "POST", b"/", HEADERS, b"")
            assert failed.value.is_sent

    asyncio.run(main())


def test_a_leader_behind_https_is_not_asked_in_plain_text() -> None:
    async def main() -> None:
        with pytest.raises(ForwardingError, match="https"):
            await Forwarder(None, 10).forward(Identity("127.0.0.1", 1, scheme="https"), "POST", b"/", HEADERS, b"")

    asyncio.run(main())


def test_a_leader_that_speaks_http_alone_is_not_asked_by_an_instance_with_https() -> None:
    async def scenario(leader: Identity) -> None:
        with pytest.raises(ForwardingError, match="plain text") as failed:
            await Forwarder(ssl.create_default_context(), 10).forward(leader, "POST", b"/subjects/a", HEADERS, b"")
        assert not failed.value.is_sent

    with_leader(scenario)
