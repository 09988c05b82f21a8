"""The HTTP side door: `/metrics`, `/healthz` and an index, on the broker's own loop.

Started only when `penstock.metrics.listen` is set. Where there are logins, `/healthz`, `/livez` and `/readyz` answer
strangers as well, with a word and a status: a load balancer has no password.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.limits import HttpLimits
from penstock.http.routes import Route
from penstock.http.server import HttpSecurity, HttpServer
from penstock.security.audit.events import NO_AUDIT, Auditor
from penstock.server.monitoring.health import Health

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.server.monitoring.security import MonitoringSecurity

METRICS_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# A scraper or two, a load balancer's checks and a person. Nobody sends anything but headers here.
LIMITS = HttpLimits(max_connections=64, max_connections_per_address=64, max_body_bytes=4_096)

_INDEX = """<!doctype html><title>Penstock broker</title>
<h1>Penstock broker</h1><ul><li><a href="/metrics">/metrics</a><li><a href="/healthz">/healthz</a></ul>
"""


RenderMetrics = Callable[[], bytes | Awaitable[bytes]]


class MonitoringServer:
    def __init__(
        self,
        render_metrics: RenderMetrics,
        health: Callable[[], Health],
        security: MonitoringSecurity | None = None,
        metrics: HttpMetrics | None = None,
        auditor: Auditor = NO_AUDIT,
    ) -> None:
        self._render_metrics = render_metrics
        self._health = health
        http = HttpSecurity() if security is None else security.http
        self._is_guarded = http.authenticator is not None
        self._reloading = None if security is None else security.reloading
        routes = (
            Route("/", self._get_index),
            Route("/metrics", self._get_metrics),
            Route("/healthz", self._get_health, is_public=True),
            Route("/readyz", self._get_health, is_public=True),
            Route("/livez", self._get_life, is_public=True),
        )
        self._server = HttpServer("monitoring", routes, http, limits=LIMITS, metrics=metrics, auditor=auditor)

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self, host: str, port: int) -> None:
        """Raises OSError where the port is taken, ExposedError where everybody could look."""
        await self._server.start(host, port)
        if self._reloading is not None:
            self._reloading.start()

    async def stop(self) -> None:
        await self._server.stop()
        if self._reloading is not None:
            await self._reloading.close()

    async def _get_index(self, _: Request) -> Response:
        from starlette.responses import HTMLResponse

        return HTMLResponse(_INDEX)

    async def _get_metrics(self, request: Request) -> Response:
        from starlette.responses import Response

        rendered = self._render_metrics()
        text = await _finish_unless_gone(rendered, request) if inspect.isawaitable(rendered) else rendered
        return Response(text, headers={"content-type": METRICS_CONTENT_TYPE})

    async def _get_health(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        state = self._health()
        body: dict[str, object] = {"status": "ok" if state.is_serving else "unavailable"}
        if not self._is_guarded or request.state.principal is not None:
            body |= {"reasons": list(state.reasons), **state.details}
        return JSONResponse(body, status_code=200 if state.is_serving else 503)

    async def _get_life(self, _: Request) -> Response:
        """The loop answers: whoever restarts what does not answer has no reason to."""
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok"})


async def _finish_unless_gone(rendering: Awaitable[bytes], request: Request) -> bytes:
    """The text. A scraper that closes its connection meanwhile gets nothing, and the rendering is given up."""
    from penstock.http.application import wait_until_gone

    rendered = asyncio.ensure_future(rendering)
    gone = asyncio.ensure_future(wait_until_gone(request))
    try:
        await asyncio.wait((rendered, gone), return_when=asyncio.FIRST_COMPLETED)
        return rendered.result() if rendered.done() else b""
    finally:
        rendered.cancel()
        gone.cancel()
