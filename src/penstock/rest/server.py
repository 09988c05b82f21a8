"""Assembles the REST proxy: settings, clients of brokers, routes of v2 and v3, one listener."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable

from penstock.client.brokers import LoginRefusedError
from penstock.client.routes.first_contact import wait_for_contact
from penstock.core.clock import SystemClock
from penstock.core.metrics.counters import HttpMetrics
from penstock.http.auditing import LoggedAudit
from penstock.http.limits import HttpLimits
from penstock.http.server import HttpServer
from penstock.http.service_process import ListenerSecurity, parse_listener
from penstock.rest.answers import ERRORS
from penstock.rest.clients import open_access
from penstock.rest.consumers.instances import Instances
from penstock.rest.consumers.owners import read_peers
from penstock.rest.consumers.settings import InstanceLimits
from penstock.rest.formats.payloads import Payloads
from penstock.rest.health import health_routes
from penstock.rest.inflight_bytes import InflightBytes
from penstock.rest.proxy import Proxy
from penstock.rest.settings import RestSettings
from penstock.security.audit.events import Auditor

logger = logging.getLogger(__name__)

NAME = "rest"


def limits_of(settings: RestSettings) -> HttpLimits:
    connections = settings.number("penstock.rest.max.connections")
    return HttpLimits(
        max_connections=connections,
        max_connections_per_address=max(1, connections // 2),
        max_body_bytes=settings.number("penstock.rest.max.body.bytes"),
    )


class RestServer:
    """A `Service` of penstock.http.service_process."""

    def __init__(
        self,
        settings: RestSettings,
        *,
        metrics: HttpMetrics | None = None,
        auditor: Auditor | None = None,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._listener = parse_listener(NAME, settings.text("listeners"))
        self._metrics = metrics or HttpMetrics()
        self._auditor = auditor or LoggedAudit(settings["penstock.audit.kinds"], SystemClock().monotonic_ms)
        self._random_bytes = random_bytes
        self._server: HttpServer | None = None
        self._security: ListenerSecurity | None = None
        self._proxy: Proxy | None = None
        self._contact: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        return 0 if self._server is None else self._server.port

    @property
    def url(self) -> str:
        return self._listener.url(self.port)

    @property
    def proxy(self) -> Proxy:
        assert self._proxy is not None, "started"
        return self._proxy

    async def start(self) -> None:
        """Raises ConfigError, and OSError where the port is taken."""
        from penstock.rest.table import routes

        settings = self._settings
        if settings.ignored:
            words = ", ".join(settings.ignored)
            logger.warning("settings of kafka-rest that have no effect here", extra={"settings": words})
        access = await open_access(settings, self._random_bytes)
        more = [] if access.authenticator is None else [access.authenticator]
        self._security = await ListenerSecurity.read(settings, self._listener.scheme, more)
        self._proxy = proxy = Proxy(
            settings,
            access,
            await Payloads.open(settings.registry, settings.number("penstock.rest.max.encoded.bytes")),
            InflightBytes(settings.number("penstock.rest.max.inflight.bytes")),
            Instances(_instance_limits(settings), asyncio.get_running_loop().time),
            read_peers(settings.text("id"), settings["penstock.rest.peers"]),
        )
        self._server = HttpServer(
            NAME,
            [*routes(proxy), *health_routes(proxy, NAME, self._metrics)],
            self._security.http,
            limits=limits_of(settings),
            metrics=self._metrics,
            auditor=self._auditor,
            errors=ERRORS,
        )
        await self._server.start(self._listener.host, self._listener.port)
        self._security.start()

    async def wait_ready(self) -> str:
        """The proxy serves as soon as it listens: each caller gets the error for unreachable brokers."""
        failed = asyncio.Event()
        self._contact = contact = asyncio.create_task(self._reach(failed.set), name="first contact with brokers")
        waiting = asyncio.create_task(failed.wait())
        try:
            await asyncio.wait([contact, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return "no broker answers yet" if failed.is_set() else ""

    async def _reach(self, on_failure: Callable[[], None]) -> None:
        access = self.proxy.access
        try:
            await wait_for_contact(access.reach, access.servers, on_failure)
        except LoginRefusedError as error:
            logger.error("the brokers refuse the login of the proxy", extra={"error": str(error)})
            on_failure()
        else:
            logger.info("a broker answers")

    async def stop(self) -> None:
        if self._contact is not None:
            self._contact.cancel()
            await asyncio.gather(self._contact, return_exceptions=True)
        if self._proxy is not None:
            await self._proxy.instances.close()  # long polls end with them
        if self._server is not None:
            await self._server.stop()
        if self._proxy is not None:
            await self._proxy.close()
        if self._security is not None:
            await self._security.stop()


def _instance_limits(settings: RestSettings) -> InstanceLimits:
    return InstanceLimits(
        settings.number("consumer.instance.timeout.ms") / 1000,
        settings.number("penstock.rest.max.instances"),
        settings.number("penstock.rest.max.instances.per.client"),
    )
