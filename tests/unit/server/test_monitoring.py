"""The monitoring server as a scraper and a load balancer see it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

import pytest

from penstock.server.monitoring.endpoints import MonitoringServer
from penstock.server.monitoring.health import Health

Result = TypeVar("Result")
SERVING = Health(is_serving=True, details={"node_id": 1})


class Answer(NamedTuple):
    status: int
    headers: str
    body: str


async def get(port: int, path: str, method: str = "GET") -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return Answer(int(head.split()[1]), head.lower(), body)


def with_server(
    use: Callable[[MonitoringServer], Awaitable[Result]],
    render_metrics: Callable[[], bytes | Awaitable[bytes]] = lambda: b"up 1\n",
    health: Callable[[], Health] = lambda: SERVING,
) -> Result:
    async def run() -> Result:
        server = MonitoringServer(render_metrics, health)
        await server.start("127.0.0.1", 0)
        try:
            return await use(server)
        finally:
            await server.stop()

    return asyncio.run(run())


def test_metrics_are_served_when_rendered_at_once() -> None:
    answer = with_server(lambda server: get(server.port, "/metrics"))
    assert (answer.status, answer.body) == (200, "up 1\n")
    assert "content-type: text/plain; version=0.0.4; charset=utf-8" in answer.headers


def test_metrics_are_served_when_rendered_by_a_coroutine() -> None:
    async def render() -> bytes:
        return await asyncio.to_thread(lambda: b"up 2\n")

    assert with_server(lambda server: get(server.port, "/metrics"), render).body == "up 2\n"


def test_rendering_is_given_up_when_the_scraper_closes_its_connection() -> None:
    begun, given_up = asyncio.Event(), asyncio.Event()

    async def render() -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            given_up.set()
            raise
        raise AssertionError

    async def leave(server: MonitoringServer) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await begun.wait()
        writer.close()
        await asyncio.wait_for(given_up.wait(), 10)

    with_server(leave, render)


def test_health_is_200_when_the_broker_serves() -> None:
    answer = with_server(lambda server: get(server.port, "/healthz"))
    assert answer.status == 200
    assert json.loads(answer.body) == {"status": "ok", "reasons": [], "node_id": 1}


def test_health_is_503_with_reasons_when_the_broker_does_not_serve() -> None:
    broken = Health(is_serving=False, reasons=("all log directories are offline",))
    answer = with_server(lambda server: get(server.port, "/healthz"), health=lambda: broken)
    assert answer.status == 503
    assert json.loads(answer.body) == {"status": "unavailable", "reasons": ["all log directories are offline"]}


def test_index_links_to_both_pages_when_opened_in_a_browser() -> None:
    body = with_server(lambda server: get(server.port, "/")).body
    assert "/metrics" in body
    assert "/healthz" in body


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/metrics", 405)])
def test_request_is_refused_when_there_is_no_such_page(method: str, path: str, status: int) -> None:
    assert with_server(lambda server: get(server.port, path, method)).status == status


def test_signal_handlers_stay_as_they_were_when_started() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    async def look(server: MonitoringServer) -> tuple[object, object]:
        await get(server.port, "/")  # the server certainly runs now
        return signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    # asyncio.run replaces SIGINT's handler itself for as long as it runs.
    assert with_server(look)[1] == before[1]
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_port_is_free_again_when_stopped() -> None:
    async def port_of(server: MonitoringServer) -> int:
        return server.port

    port = with_server(port_of)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_start_fails_with_an_os_error_when_the_port_is_taken() -> None:
    async def run(port: int) -> None:
        await MonitoringServer(lambda: b"", lambda: SERVING).start("127.0.0.1", port)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            asyncio.run(run(taken.getsockname()[1]))


def test_stop_does_nothing_when_never_started_and_when_called_twice() -> None:
    async def run() -> None:
        never_started = MonitoringServer(lambda: b"", lambda: SERVING)
        await never_started.stop()
        server = MonitoringServer(lambda: b"", lambda: SERVING)
        await server.start("127.0.0.1", 0)
        await server.stop()
        await server.stop()

    asyncio.run(run())


def test_stop_ends_soon_when_a_connection_is_idle() -> None:
    async def open_and_leave(server: MonitoringServer) -> asyncio.StreamWriter:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        return writer

    async def run() -> None:
        server = MonitoringServer(lambda: b"", lambda: SERVING)
        await server.start("127.0.0.1", 0)
        writer = await open_and_leave(server)
        await asyncio.wait_for(server.stop(), timeout=10)
        writer.close()

    asyncio.run(run())
