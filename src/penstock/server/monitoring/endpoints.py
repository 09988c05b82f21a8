"""The HTTP side door: `/metrics`, `/healthz` and an index, on the broker's own loop.

Started only when `penstock.metrics.listen` is set. Starlette and uvicorn take a quarter of a second to import, so that
happens in a worker thread after the broker serves clients, and not at all in a broker nobody monitors.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import socket
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING

from penstock.server.monitoring.health import Health

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

logger = logging.getLogger(__name__)

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A scraper or two, a load balancer's checks and a person; anything above is answered with 503 by uvicorn.
MAX_CONNECTIONS = 64
# A rendering that is under way when the broker stops may finish; the broker does not wait longer for a slow reader.
STOP_TIMEOUT_S = 2
KEEP_ALIVE_S = 30

_INDEX = """<!doctype html><title>Penstock broker</title>
<h1>Penstock broker</h1><ul><li><a href="/metrics">/metrics</a><li><a href="/healthz">/healthz</a></ul>
"""


RenderMetrics = Callable[[], bytes | Awaitable[bytes]]


class MonitoringServer:
    def __init__(self, render_metrics: RenderMetrics, health: Callable[[], Health]) -> None:
        self._render_metrics = render_metrics
        self._health = health
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listen before importing anything: a port that is taken fails the start at once, with an OSError."""
        assert self._serving is None, "started twice"
        listener = await _listen(host, port)
        self.port = listener.getsockname()[1]
        try:
            self._server = await asyncio.to_thread(_build_server, self._render_metrics, self._health)
        except BaseException:
            listener.close()
            raise
        self._serving = asyncio.create_task(self._server.serve(sockets=[listener]), name="monitoring")
        logger.info("monitoring listens", extra={"host": host, "port": self.port})

    async def stop(self) -> None:
        """Refuse new connections, let answers under way finish for a moment, close the rest. Safe to call twice."""
        if self._serving is None or self._server is None:
            return
        self._server.should_exit = True
        serving, self._serving = self._serving, None
        await serving


async def _listen(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    family, kind, protocol, _, address = (await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(MAX_CONNECTIONS)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _build_server(render_metrics: RenderMetrics, health: Callable[[], Health]) -> uvicorn.Server:
    import uvicorn

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            """Signals belong to the broker, or to the program it is embedded in."""
            yield

    config = uvicorn.Config(
        build_application(render_metrics, health),
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_TIMEOUT_S,
    )
    config.load()  # imports the rest of uvicorn here, in the worker thread
    return Server(config)


def build_application(render_metrics: RenderMetrics, health: Callable[[], Health]) -> Starlette:
    from starlette.applications import Starlette
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route

    async def get_index(_: Request) -> Response:
        return HTMLResponse(_INDEX)

    async def get_metrics(request: Request) -> Response:
        rendered = render_metrics()
        text = await _finish_unless_gone(rendered, request) if inspect.isawaitable(rendered) else rendered
        return Response(text, headers={"content-type": METRICS_CONTENT_TYPE})

    async def get_health(_: Request) -> Response:
        state = health()
        body = {"status": "ok" if state.is_serving else "unavailable", "reasons": list(state.reasons), **state.details}
        return JSONResponse(body, status_code=200 if state.is_serving else 503)

    return Starlette(routes=[Route("/", get_index), Route("/metrics", get_metrics), Route("/healthz", get_health)])


async def _finish_unless_gone(rendering: Awaitable[bytes], request: Request) -> bytes:
    """The text. A scraper that closes its connection meanwhile gets nothing, and the rendering is given up."""
    rendered = asyncio.ensure_future(rendering)
    gone = asyncio.ensure_future(_wait_until_gone(request))
    try:
        await asyncio.wait((rendered, gone), return_when=asyncio.FIRST_COMPLETED)
        return rendered.result() if rendered.done() else b""
    finally:
        rendered.cancel()
        gone.cancel()


async def _wait_until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
