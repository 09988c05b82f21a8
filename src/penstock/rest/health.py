"""Health of the proxy: whether it can serve (`/healthz`, `/readyz`), whether it lives (`/livez`), and metrics
(`/metrics`).

Ready means that a broker answers. Strangers may ask, so the proxy asks the brokers one request at a time and once in a
while, however many clients ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.core.metrics.counters import HttpMetrics
from penstock.core.metrics.metric import MetricKind
from penstock.http.monitoring import Published, http_numbers, metrics_route
from penstock.http.routes import Route
from penstock.protocol.errors import ApiError
from penstock.rest.answers import answer
from penstock.rest.clients import Access
from penstock.rest.proxy import Proxy

_KEPT_S: Final = 1.0
_ANSWER_S: Final = 3.0


class Readiness:
    def __init__(self, access: Access) -> None:
        self._access = access
        self._turn = asyncio.Lock()
        self._asked_at = float("-inf")
        self._is_ready = False

    async def is_ready(self) -> bool:
        async with self._turn:
            loop = asyncio.get_running_loop()
            if loop.time() - self._asked_at >= _KEPT_S:
                try:
                    await self._access.reach(_ANSWER_S)
                    self._is_ready = True
                except (OSError, ApiError):
                    self._is_ready = False
                self._asked_at = loop.time()
            return self._is_ready


def health_routes(proxy: Proxy, name: str, metrics: HttpMetrics) -> list[Route]:
    readiness = Readiness(proxy.access)

    async def get_readiness(_: Request) -> Response:
        if await readiness.is_ready():
            return answer({"status": "ready"})
        return answer({"error_code": 503, "message": "no broker answers"}, 503)

    async def get_life(_: Request) -> Response:
        return answer({"status": "alive"})

    def gauge(own_name: str, doc: str, read: Callable[[], float]) -> Published:
        return Published(f"penstock_{name}_{own_name}", MetricKind.GAUGE, doc, read)

    numbers = (
        gauge("consumer_instances", "Consumer instances.", lambda: len(proxy.instances)),
        gauge("callers", "Clients of brokers that are kept for callers.", lambda: len(proxy.clients)),
        gauge("reading_bytes", "Bytes of large bodies that are being read.", lambda: proxy.inflight_bytes.reading),
        gauge("sending_bytes", "Bytes of bodies on their way to brokers.", lambda: proxy.inflight_bytes.sending),
        *http_numbers(name, metrics),
    )
    return [
        Route("/healthz", get_readiness, is_public=True),
        Route("/readyz", get_readiness, is_public=True),
        Route("/livez", get_life, is_public=True),
        metrics_route(numbers),
    ]
