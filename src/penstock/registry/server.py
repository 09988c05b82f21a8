"""A registry, composed: brokers, the state of schemas, the node, the API, one HTTP listener.

The listener is there first, so that a port in use fails the start at once and a load balancer sees 503 while the topic
is read. Only health is served before the topic was read to its end.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.client.brokers import Brokers
from penstock.client.credentials import CredentialsError
from penstock.client.security import ClientSecurity, client_security
from penstock.core.clock import SystemClock
from penstock.core.config.types import ConfigError
from penstock.core.metrics.counters import HttpMetrics
from penstock.core.metrics.metric import COUNTER, GAUGE, MetricKind
from penstock.http.auditing import LoggedAudit
from penstock.http.limits import HttpLimits
from penstock.http.monitoring import Published, http_numbers, metrics_route
from penstock.http.routes import ErrorForm, Route
from penstock.http.server import HttpServer
from penstock.http.service_process import ListenerSecurity, ServiceError, passed_logins
from penstock.registry.errors import RegistryError
from penstock.registry.node.forwarding import Forwarder
from penstock.registry.node.node import NodeError, RegistryNode
from penstock.registry.node.to_leader import ToLeader, is_lookup
from penstock.registry.service import SchemaService, ServiceSettings
from penstock.registry.settings import RegistrySettings
from penstock.registry.state import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from penstock.registry.api.calls import Identity
    from penstock.registry.api.rights_file import RightsFile

logger = logging.getLogger(__name__)

_NAME = "registry"


class RegistryServer:
    """A `Service` of penstock.http.service_process."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._auditor = LoggedAudit(settings.all["penstock.audit.kinds"], SystemClock().monotonic_ms)
        self._metrics = HttpMetrics()
        self._brokers: Brokers | None = None
        self._node: RegistryNode | None = None
        self._service: SchemaService | None = None
        self._security: ListenerSecurity | None = None
        self._http: HttpServer | None = None
        self._rights: RightsFile | None = None
        self._watching: asyncio.Task[None] | None = None
        self._was_ready = False
        self._identity: Identity | None = None

    @property
    def url(self) -> str:
        assert self._http is not None, "started first"
        return self._settings.listener.url(self._http.port)

    @property
    def node(self) -> RegistryNode:
        assert self._node is not None, "started first"
        return self._node

    async def start(self) -> None:
        settings = self._settings
        for key, reason in settings.ignored:
            logger.warning("a setting is ignored", extra={"key": key, "reason": reason})
        own, peers = await asyncio.to_thread(_read_client_files, settings)
        self._brokers = brokers = Brokers(settings.bootstrap, own, client_id="penstock-registry")
        state = State()
        self._node = node = RegistryNode(
            brokers, settings.node, state.replay, self._take_office, self._set_cluster, state.noop
        )
        self._service = SchemaService(state, node.leader_writer, ServiceSettings(default_level=settings.level))
        to_leader = ToLeader(
            node,
            Forwarder(peers, settings.node.timeout_s),
            wait_s=settings.leader_wait_s,
            timeout_s=settings.node.timeout_s,
        )
        more = passed_logins(settings.all, settings.bootstrap, own.tls)
        self._security = await ListenerSecurity.read(settings.all, settings.listener.scheme, more)
        if settings.all["penstock.rights.file"] and self._security.http.authenticator is None:
            raise ConfigError(
                "penstock.rights.file asks for logins, because strangers have no rights: give authentication.method",
                key="penstock.rights.file",
            )
        routes, limits, errors = await asyncio.to_thread(self._routes, self._service, to_leader)
        numbers = (*self._numbers(node, state, to_leader), *http_numbers(_NAME, self._metrics))
        self._http = HttpServer(
            _NAME,
            [*routes, metrics_route(numbers)],
            self._security.http,
            limits=limits,
            metrics=self._metrics,
            auditor=self._auditor,
            errors=errors,
        )
        await self._http.start(settings.listener.host, settings.listener.port)
        self._security.start()
        if self._rights is not None:
            self._watching = asyncio.create_task(self._rights.watch(), name="file of rights")
        node.start(settings.identity(self._http.port))

    async def wait_ready(self) -> str:
        ready = asyncio.create_task(self.node.wait_ready())
        failed = asyncio.create_task(self.wait_failed())
        try:
            await asyncio.wait([ready, failed], return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
        finally:
            ready.cancel()
            failed.cancel()
            await asyncio.gather(ready, failed, return_exceptions=True)
        self._was_ready = True
        return ""

    async def wait_failed(self) -> None:
        try:
            await self.node.wait_failed()
        except NodeError as error:
            raise ServiceError(str(error)) from error

    async def stop(self) -> None:
        """Requests under way end first; then the leader leaves, so that another one takes its place at once."""
        if self._http is not None:
            await self._http.stop()
        if self._security is not None:
            await self._security.stop()
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._node is not None:
            await self._node.close()
        if self._service is not None:
            self._service.close()
        if self._brokers is not None:
            await self._brokers.close()

    async def _take_office(self) -> None:
        assert self._service is not None, "made beside the node"
        await self._service.repair()

    def _set_cluster(self, cluster_id: str) -> None:
        assert self._identity is not None, "made before the node starts"
        self._identity.kafka_cluster_id = cluster_id

    def why_not_ready(self) -> str:
        """A server that was ready stays so while another leader is elected: it answers reads all the time."""
        node = self.node
        if not node.is_caught_up:
            if not node.was_reached:
                return "no broker has answered yet"
            return "the topic is not read to its end"
        self._was_ready = self._was_ready or node.is_ready
        return "" if self._was_ready else "no leader is elected"

    def _routes(self, service: SchemaService, to_leader: ToLeader) -> tuple[list[Route], HttpLimits, ErrorForm]:
        """In a thread: the API imports the libraries of JSON."""
        from penstock.registry.api.access import Access
        from penstock.registry.api.answers import ERRORS
        from penstock.registry.api.calls import Identity
        from penstock.registry.api.rights_file import RightsFile
        from penstock.registry.api.routes import LIMITS, routes

        self._identity = identity = Identity(group_id=self._settings.node.group, version=version("penstock"))
        rights_file = self._settings.all["penstock.rights.file"]
        access = Access(auditor=self._auditor)
        if rights_file:
            self._rights = RightsFile(Path(rights_file), access)
            self._rights.read()
        made = routes(
            service,
            forwarder=to_leader,
            access=access,
            identity=identity,
            why_not_ready=self.why_not_ready,
        )
        return [self._guarded(route, to_leader) for route in made], LIMITS, ERRORS

    def _guarded(self, route: Route, to_leader: ToLeader) -> Route:
        if route.is_public:
            return route
        served = to_leader.looking_again(route.endpoint) if is_lookup(route) else route.endpoint

        async def serve(request: Request) -> Response:
            if not self.node.is_caught_up:
                from penstock.registry.api.answers import error_answer

                return error_answer(RegistryError(503, f"The registry is not ready: {self.why_not_ready()}"))
            return await served(request)

        return route._replace(endpoint=serve)

    def _numbers(self, node: RegistryNode, state: State, to_leader: ToLeader) -> tuple[Published, ...]:
        def number(name: str, kind: MetricKind, doc: str, read: Callable[[], float]) -> Published:
            return Published(f"penstock_registry_{name}", kind, doc, read)

        return (
            number("ready", GAUGE, "1 when requests are served.", lambda: int(not self.why_not_ready())),
            number("leader", GAUGE, "1 on the instance that may write.", lambda: int(node.leader_writer.is_held)),
            number(
                "terms_total", COUNTER, "How often this instance became the leader.", lambda: node.leader_writer.terms
            ),
            number("position", GAUGE, "How far the topic was read.", lambda: node.position),
            number("records_total", COUNTER, "Records of the topic that were read.", lambda: node.reader.records),
            number("skipped_records_total", COUNTER, "Records that nobody could read.", lambda: state.skipped_records),
            number("forwarded_total", COUNTER, "Changes passed on to the leader.", lambda: to_leader.forwarded),
            number("forwarding_failures_total", COUNTER, "Changes that no leader took.", lambda: to_leader.failed),
        )


def _read_client_files(settings: RegistrySettings) -> tuple[ClientSecurity, ssl.SSLContext | None]:
    """The settings of the connections to brokers, and to other instances, which have the same `ssl.*` settings as this
    one. In a thread: reads files. Raises ConfigError.
    """
    try:
        own = client_security(settings.client)
    except CredentialsError as error:
        raise ConfigError(f"kafkastore.*: {error}") from None
    if settings.listener.scheme != "https":
        return own, None
    from penstock.security.tls.contexts import load_client
    from penstock.security.tls.settings import TlsSettings

    return own, load_client(TlsSettings.of_properties(settings.all.tls_properties()))
