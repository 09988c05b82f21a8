"""An HTTP listener as a well-meaning client sees it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from penstock.http.exposure import ExposedError, check_exposure, is_loopback
from penstock.http.limits import HttpLimits
from penstock.http.routes import Route
from penstock.http.server import HttpSecurity, HttpServer
from tests.unit.http.talking import ROUTES, Listening, echo, parse, run_listening, with_listener
from tests.waiting import until

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def test_pages_answer_with_json_when_asked() -> None:
    answer = with_listener(lambda listening: listening.get("/hello/alice"))
    assert (answer.status, json.loads(answer.body)) == (200, {"hello": "alice", "principal": None})
    assert "x-content-type-options: nosniff" in answer.headers
    assert "server:" not in answer.headers


def test_answer_comes_in_pieces_when_a_page_streams() -> None:
    answer = with_listener(lambda listening: listening.get("/numbers"))
    assert "transfer-encoding: chunked" in answer.headers
    assert answer.body == b"2\r\n0\n\r\n2\r\n1\n\r\n2\r\n2\n\r\n0\r\n\r\n"


def test_body_comes_back_when_it_is_below_the_limit() -> None:
    head = b"POST /echo HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\n"
    assert with_listener(lambda listening: listening.send(head, b"he", b"llo")).body == b"hello"


def test_body_and_answer_stream_at_once_when_a_page_reads_and_writes_by_pieces() -> None:
    async def use(listening: Listening) -> None:
        reader, writer = await listening.connect()
        writer.write(b"POST /upload/x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n")
        async with asyncio.timeout(20):
            assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
            assert await reader.readuntil(b"5\n\r\n") == b"2\r\n5\n\r\n"  # while the body is still on its way
            writer.write(b"6\r\n world\r\n0\r\n\r\n")
            assert await reader.readuntil(b"11\n\r\n") == b"3\r\n11\n\r\n"
        writer.close()

    with_listener(use)


def test_answer_that_waits_for_news_is_given_up_when_its_client_is_gone() -> None:
    async def run() -> None:
        ended = asyncio.Event()

        async def wait(_: Request) -> Response:
            from starlette.responses import StreamingResponse

            async def lines() -> AsyncIterator[bytes]:
                try:
                    yield b"first"
                    await asyncio.Event().wait()
                finally:
                    ended.set()

            return StreamingResponse(lines())

        server = HttpServer("test", [Route("/wait", wait)])
        await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
        async with asyncio.timeout(20):
            await reader.readuntil(b"first")
            writer.close()
            await ended.wait()
        await server.stop()

    asyncio.run(run())


def test_body_may_be_larger_when_its_page_says_so() -> None:
    size = 2 << 20
    head = "POST {} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n"
    for path, given, status in (("/upload/x", size, 200), ("/echo", size, 413), ("/upload/x", 9 << 20, 413)):
        data = head.format(path, given).encode()
        answer = with_listener(lambda listening, data=data: listening.send(data, bytes(size)))  # type: ignore[misc]
        assert answer.status == status, path


@pytest.mark.parametrize(
    ("request_line", "status"),
    [("GET /nothing", 404), ("DELETE /echo", 405), ("GET /hello/%2e%2e/etc", 404), ("HEAD /", 200)],
)
def test_status_fits_when_there_is_no_such_page(request_line: str, status: int) -> None:
    data = f"{request_line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
    assert with_listener(lambda listening: listening.send(data)).status == status


def test_connection_serves_several_requests_when_kept_alive() -> None:
    async def use(listening: Listening) -> list[int]:
        reader, writer = await listening.connect()
        statuses = []
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            statuses.append(parse(head).status)
            length = int(parse(head).headers.partition("content-length: ")[2].split()[0])
            await reader.readexactly(length)
        writer.close()
        return statuses

    assert with_listener(use) == [200, 200, 200]


def test_both_are_answered_in_order_when_two_requests_come_at_once() -> None:
    first, second = (
        b"GET /hello/a HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET /hello/b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    answer = with_listener(lambda listening: listening.send(first + second))
    assert answer.body.index(b'"a"') < answer.body.index(b'"b"')


def test_failure_is_answered_and_logged_once_when_a_page_is_defective(caplog: pytest.LogCaptureFixture) -> None:
    async def use(listening: Listening) -> list[int]:
        return [(await listening.get("/fail")).status for _ in range(3)]

    caplog.set_level(logging.ERROR)
    assert with_listener(use) == [500, 500, 500]
    assert 1 <= len(caplog.records) <= 3


def test_answers_are_counted_by_status() -> None:
    async def use(listening: Listening) -> dict[str, int]:
        await listening.get("/")
        await listening.get("/nothing")
        return listening.metrics.answers

    assert with_listener(use) == {"200": 1, "404": 1}


def test_stop_lets_an_answer_under_way_finish_and_closes_idle_connections() -> None:
    begun = asyncio.Event()

    async def echo_later(request: Request) -> Response:
        begun.set()
        return await echo(request)

    async def use(listening: Listening) -> bytes:
        idle, idle_writer = await listening.connect()
        reader, writer = await listening.connect()
        writer.write(b"POST /echo HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\n\r\nha")
        await begun.wait()
        stopping = asyncio.create_task(listening.server.stop())
        assert await asyncio.wait_for(idle.read(), 10) == b""
        assert not stopping.done()
        writer.write(b"lf")
        answer = await asyncio.wait_for(reader.read(), 10)
        await stopping
        for each in (idle_writer, writer):
            each.close()
        return parse(answer).body

    assert run_listening(HttpServer("test", [Route("/echo", echo_later, ("POST",))]), use) == b"half"


def test_stop_does_not_wait_when_nobody_is_inside() -> None:
    """uvicorn's own pauses made it a tenth of a second and more, each time."""

    async def stop_once() -> float:
        server = HttpServer("test", ROUTES)
        await server.start("127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0)
        began = loop.time()
        await server.stop()
        return loop.time() - began

    async def stop_often() -> float:
        return min([await stop_once() for _ in range(5)])

    assert asyncio.run(stop_often()) < 0.1


def test_connections_are_counted_down_when_they_end() -> None:
    async def use(listening: Listening) -> int:
        for _ in range(3):
            await listening.get("/")
        await until(lambda: not listening.metrics.connections)
        return listening.metrics.connections

    assert with_listener(use, HttpLimits(max_connections=1)) == 0


# ------------------------------------------------------------------------------------------------- where it listens


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_address_is_known_as_loopback_or_not(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


def test_open_listener_is_refused_when_others_could_reach_it() -> None:
    with pytest.raises(ExposedError, match="--insecure"):
        asyncio.run(HttpServer("metrics", ROUTES).start("0.0.0.0", 0))
    with pytest.raises(ExposedError, match="open to everybody"):
        asyncio.run(HttpServer("metrics", ROUTES).start("", 0))


def test_open_listener_warns_when_its_owner_means_it(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        server = HttpServer("metrics", ROUTES, HttpSecurity(is_insecure_allowed=True))
        await server.start("0.0.0.0", 0)
        await server.stop()

    caplog.set_level(logging.WARNING)
    asyncio.run(run())
    assert "open to everybody" in caplog.text


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_any_address_is_fine_when_there_are_logins(caplog: pytest.LogCaptureFixture, is_encrypted: bool) -> None:
    caplog.set_level(logging.WARNING)
    check_exposure("x", "10.0.0.1", is_authenticated=True, is_insecure_allowed=False, is_encrypted=is_encrypted)
    assert ("plain text" in caplog.text) is not is_encrypted


def test_start_fails_at_once_when_the_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            asyncio.run(HttpServer("x", ROUTES).start("127.0.0.1", taken.getsockname()[1]))


def test_name_is_unknown_when_no_host_can_have_it() -> None:
    with pytest.raises(OSError, match=r"kafka\.\.example:1: Name or service not known"):
        asyncio.run(HttpServer("x", ROUTES).start("kafka..example", 1))
