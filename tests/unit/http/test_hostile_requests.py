"""Hostile HTTP: refused with the right status, counted, and without memory for whoever sends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import tracemalloc

import pytest
import uvloop
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.application import wait_until_gone
from penstock.http.limits import HttpLimits
from penstock.http.routes import Route
from penstock.http.server import HttpServer
from tests.unit.http.talking import Listening, hello, parse, run_listening, with_listener
from tests.waiting import turns, until

QUICK = HttpLimits(headers_s=0.2, body_s=0.2, stalled_s=0.3)
SMALL = HttpLimits(max_body_bytes=1_000)
POST = b"POST /echo HTTP/1.1\r\nhost: x\r\n"


AMBIGUOUS = (
    # two lengths: which one counts?
    (
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /hello/smuggled HTTP/1.1\r\n\r\n",
        400,
    ),
    (POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", 400),
    (POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello", 400),
    (POST + b"content-length: 5, 6\r\n\r\nhello", 400),
    # encodings that others may know
    (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    (POST + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n", 400),
    (POST + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    (b"POST /echo HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    # lengths that are none
    (POST + b"content-length: -1\r\n\r\n", 400),
    (POST + b"content-length: +5\r\n\r\nhello", 400),
    (POST + b"content-length: 0x5\r\n\r\nhello", 400),
    (POST + b"content-length: 5 5\r\n\r\nhello", 400),
    (POST + b"content-length: 99999999999999999999999999\r\n\r\n", 400),
    # chunks that are none
    (POST + b"transfer-encoding: chunked\r\n\r\n-1\r\n\r\n", 400),
    (POST + b"transfer-encoding: chunked\r\n\r\nfffffffffffffffffffffffff\r\n\r\n", 400),
    (POST + b"transfer-encoding: chunked\r\n\r\n5\r\nhelloXX0\r\n\r\n", 400),
    # lines that are none
    (b"GET / HTTP/1.1\r\nhost: x\r\nname : value\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: x\r\nno colon\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: x\r\na: b\x00c\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\n\r\n", 400),
    (b"GET / HTTP/3.7\r\nhost: x\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nhost: x\r\n\r\n", 505),
    (b"GET / HTTP/1.1\nhost: x\n\n", 400),
    (b"GET / HTTP/1.1\r\nhost: x\r\na: b\r\n c: d\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\nhost: x\r\na: b\rc: d\r\n\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    (b"\x00\x00\x00\x17\x00\x12\x00\x04\x00\x00\x00\x00\x00\x00\r\n\r\n", 400),
)


def test_request_is_refused_when_two_readers_could_read_it_differently() -> None:
    async def use(listening: Listening) -> None:
        statuses = {}
        for request, _ in AMBIGUOUS:
            answer = await listening.send(request)
            statuses[request] = answer.status
            assert b"smuggled" not in answer.body
        assert statuses == dict(AMBIGUOUS)
        assert sum(listening.metrics.answers.values()) == len(AMBIGUOUS)  # nothing was answered twice
        assert (await listening.get("/")).status == 200  # others are served

    with_listener(use)


def test_what_comes_behind_a_body_is_no_header() -> None:
    async def use(listening: Listening) -> None:
        chunked = POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"
        answer = await listening.send(chunked + b"authorization: Basic x\r\n" * 3 + b"\r\n")
        assert (answer.status, answer.body) == (200, b"hello")

    with_listener(use)


def test_request_is_refused_when_what_is_no_body_has_no_end() -> None:
    """The parser would put a trailer together, copying all of it for each piece that comes."""

    async def use(listening: Listening) -> None:
        chunked = POST + b"transfer-encoding: chunked\r\n\r\n"
        trailer, extension = b"5\r\nhello\r\n0\r\na: ", b"5;a="
        for begin in (trailer, extension):
            for path in (b"/echo", b"/upload/x"):
                reader, writer = await listening.connect()
                try:
                    writer.write(chunked.replace(b"/echo", path) + begin)
                    sent = 0
                    with contextlib.suppress(ConnectionError):
                        while listening.metrics.connections and sent < 32 << 20:
                            writer.write(bytes(65_536).replace(b"\0", b"x"))
                            await writer.drain()
                            sent += 65_536
                            await asyncio.sleep(0)
                    assert sent < 32 << 20
                    if path == b"/echo":
                        with contextlib.suppress(ConnectionError):
                            assert parse(await reader.read()).status in (431, 0)
                finally:
                    writer.transport.abort()
        assert listening.metrics.refused["trailers"] == 4

    with_listener(use)


def test_body_is_read_to_its_end_when_its_pieces_are_small() -> None:
    async def use(listening: Listening) -> None:
        chunked = POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        pieces = [b"1;name=value\r\nx\r\n" * 50] * 100
        answer = await listening.send(chunked, *pieces, b"0\r\n\r\n")
        assert (answer.status, answer.body) == (200, b"x" * 5_000)

    with_listener(use)


def test_few_requests_wait_behind_the_one_that_is_answered() -> None:
    async def use(listening: Listening) -> None:
        requests = b"GET /hello/there HTTP/1.1\r\nhost: x\r\n\r\n" * 5_000
        answers = await listening.send_raw(requests)
        # Some are answered, in order, and the last of them says that the connection ends.
        assert 1 < answers.count(b"HTTP/1.1 200") < 50
        assert answers.count(b"connection: close") == 1

    with_listener(use)


def test_request_behind_a_good_one_is_refused_without_harm_to_its_answer() -> None:
    async def use(listening: Listening) -> None:
        good = b"GET /hello/there HTTP/1.1\r\nhost: x\r\n\r\n"
        answers = await listening.send_raw(good + b"no request\r\n\r\n")
        assert answers.startswith(b"HTTP/1.1 200")
        assert answers.count(b"HTTP/1.1") == 1
        assert listening.metrics.refused["malformed"] == 1

    with_listener(use)


LARGE = (
    (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 100_000 + b"\r\n\r\n", 431, "headers"),
    (b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 1_000_000, 431, "headers"),
    (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 1_000 + b"\r\n", 431, "headers"),
    (b"GET /" + b"x" * 9_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "target"),
    (b"GET /?" + b"x" * 9_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414, "target"),
    (POST + b"content-length: 1001\r\n\r\n", 413, "body"),
    (POST + b"content-length: 9999999999\r\n\r\n", 413, "body"),
    (POST + b"transfer-encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1_001 + b"\r\n0\r\n\r\n", 413, "body"),
)


def test_request_is_refused_when_it_is_too_large() -> None:
    async def use(listening: Listening) -> None:
        for request, status, reason in LARGE:
            before = listening.metrics.refused.get(reason, 0)
            assert (await listening.send(request)).status == status, request[:50]
            assert listening.metrics.refused[reason] == before + 1

    with_listener(use, SMALL)


def test_connection_is_closed_when_headers_come_too_slowly() -> None:
    async def use(listening: Listening) -> None:
        reader, writer = await listening.connect()
        with contextlib.suppress(ConnectionError):
            for byte in b"GET / HTTP/1.1\r\nhost: x\r\nmore":
                writer.write(bytes((byte,)))
                await asyncio.sleep(0.02)
        assert parse(await reader.read()).status == 408
        assert listening.metrics.refused == {"slow headers": 1}
        writer.close()

    with_listener(use, QUICK)


def test_connection_is_closed_without_a_word_when_nothing_comes() -> None:
    async def use(listening: Listening) -> None:
        assert (await listening.send()).status == 0

    with_listener(use, QUICK)


def test_connection_is_closed_when_the_second_request_comes_too_slowly() -> None:
    async def use(listening: Listening) -> None:
        reader, writer = await listening.connect()
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert parse(head).status == 200
        writer.write(b"GET / HT")
        rest = await asyncio.wait_for(reader.read(), 10)
        assert b"408" in rest
        writer.close()

    with_listener(use, QUICK)


def test_body_is_given_up_when_it_comes_too_slowly() -> None:
    async def use(listening: Listening) -> None:
        assert (await listening.send(POST + b"content-length: 10\r\n\r\nhal")).status == 408

    with_listener(use, QUICK)


def test_connection_is_cut_when_its_client_takes_nothing_of_an_answer() -> None:
    async def use(listening: Listening) -> None:
        _, writer = await listening.connect()
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        writer.write(b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: listening.metrics.refused.get("slow reader"))
        writer.transport.abort()

    with_listener(use, QUICK)


def test_connection_ends_when_a_body_that_nobody_reads_has_no_end() -> None:
    async def use(listening: Listening) -> None:
        reader, writer = await listening.connect()
        writer.write(b"POST /ignore HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert "connection: close" in parse(head).headers
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                while True:
                    if writer.transport.is_closing():
                        break
                    writer.write(b"400\r\n" + bytes(1_024) + b"\r\n")
                    await writer.drain()
        writer.transport.abort()

    with_listener(use)


def test_connections_beyond_the_limit_are_refused_and_others_served_when_many_come() -> None:
    async def use(listening: Listening) -> None:
        held = [await listening.connect() for _ in range(5)]
        assert (await listening.send()).status == 503
        assert listening.metrics.refused == {"connections": 1}
        held.pop()[1].close()
        await until(lambda: listening.metrics.connections < 5)
        assert (await listening.get("/")).status == 200
        for _, writer in held:
            writer.close()

    with_listener(use, HttpLimits(max_connections=5))


def test_requests_under_way_are_bounded_when_clients_leave_before_their_answers() -> None:
    release = asyncio.Event()
    begun = 0

    async def change(_: Request) -> Response:
        nonlocal begun
        begun += 1
        await release.wait()
        return Response()

    async def leave(listening: Listening) -> None:
        before = begun + listening.metrics.refused.get("requests", 0)
        _, writer = await listening.connect()
        writer.write(b"POST /change HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        await until(lambda: begun + listening.metrics.refused.get("requests", 0) > before)
        writer.transport.abort()
        await until(lambda: not listening.metrics.connections)

    async def use(listening: Listening) -> None:
        for _ in range(20):
            await leave(listening)
        assert begun == 7  # four with a connection, three without
        assert listening.metrics.refused["requests"] == 13
        answer = await listening.get("/")
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        release.set()
        await turns(20)  # they end, with nobody to answer to
        assert (await listening.get("/")).status == 200

    metrics = HttpMetrics()
    limits = HttpLimits(
        max_connections=8, max_connections_per_address=4, max_requests_left=8, max_requests_left_per_address=3
    )
    server = HttpServer(
        "test", [Route("/change", change, ("POST",)), Route("/", hello)], limits=limits, metrics=metrics
    )
    run_listening(server, use, metrics)


def test_one_address_does_not_take_all_places() -> None:
    async def use(listening: Listening) -> None:
        held = [await listening.connect() for _ in range(3)]
        assert (await listening.send()).status == 503
        for _, writer in held:
            writer.close()

    with_listener(use, HttpLimits(max_connections=10, max_connections_per_address=3))


def test_memory_stays_flat_when_clients_send_what_is_refused() -> None:
    async def pour(listening: Listening, data: bytes) -> None:
        """As much of it as the server takes."""
        _, writer = await listening.connect()
        with contextlib.suppress(ConnectionError):
            for _ in range(200):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def use(listening: Listening) -> int:
        await listening.get("/")  # everything is loaded
        tracemalloc.start()
        for _ in range(5):
            await pour(listening, b"x" * 65_536)
            await pour(listening, b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 65_536)
            await pour(listening, POST + b"content-length: 99999999\r\n\r\n" + bytes(65_536))
            await pour(listening, POST + b"transfer-encoding: chunked\r\n\r\n10000\r\n" + bytes(65_536) + b"\r\n")
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    assert with_listener(use) < 8 * 1024 * 1024


@pytest.mark.parametrize("ends", ["half closed", "closed", "reset"])
def test_no_failure_is_logged_and_the_page_is_told_when_a_client_leaves_with_requests_behind_the_first(
    ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    has_begun, was_told = asyncio.Event(), asyncio.Event()

    async def wait(request: Request) -> Response:
        has_begun.set()
        await wait_until_gone(request)
        was_told.set()
        return Response("for nobody")

    async def use(listening: Listening) -> None:
        async with asyncio.timeout(20):
            _, writer = await asyncio.open_connection("127.0.0.1", listening.port)
            writer.write(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n" * 3)
            await has_begun.wait()
            if ends == "half closed":
                writer.write_eof()
            elif ends == "closed":
                writer.close()
            else:
                writer.transport.abort()
            await was_told.wait()
            writer.close()

    server = HttpServer("test", [Route("/wait", wait)])
    run_listening(server, use, new_loop=uvloop.new_event_loop)  # whose transports raise errors once they are closed
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
