"""The server of stores put together: settings, brokers, a replica, one HTTP listener.

The listener is there first, so that a port that is taken fails the start at once. Several servers may run beside each
other: each has its own copy, and none knows of the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from penstock.client.addresses import Address
from penstock.client.brokers import Brokers, LoginRefusedError
from penstock.client.credentials import CredentialsError
from penstock.client.routes.first_contact import wait_for_contact
from penstock.client.security import ClientSecurity, client_security
from penstock.core.clock import SystemClock
from penstock.core.config.types import ConfigError
from penstock.core.metrics.counters import HttpMetrics
from penstock.core.metrics.metric import COUNTER, GAUGE, MetricKind
from penstock.http.auditing import LoggedAudit
from penstock.http.authentication import Authenticator
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.http.callers.clients import CallerClients
from penstock.http.callers.delegation import DelegationTokens
from penstock.http.limits import HttpLimits
from penstock.http.monitoring import Published, http_numbers, metrics_route
from penstock.http.routes import Route
from penstock.http.server import HttpServer
from penstock.http.service_process import SECRET_BYTES, ListenerSecurity, ServiceError, login_by_brokers, parse_listener
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.streams.stores.answers import ERRORS, answer, refusal
from penstock.streams.stores.errors import StoreError
from penstock.streams.stores.followed_store import Followed
from penstock.streams.stores.replica import Replica, ReplicaError, Subject
from penstock.streams.stores.rights import StoreRights
from penstock.streams.stores.routes import Desk, routes
from penstock.streams.stores.settings import StoresSettings, servers_of
from penstock.streams.stores.store_queries import StoreQueries

logger = logging.getLogger(__name__)

NAME: Final = "streams"
_CLIENT_ID: Final = "penstock-stores"


class StoresServer:
    """A `Service` of penstock.http.service_process."""

    def __init__(self, settings: StoresSettings, now_ms: Callable[[], int] | None = None) -> None:
        """Raises ConfigError."""
        self._settings = settings
        self._listener = parse_listener(NAME, settings["listeners"])
        self._now_ms = now_ms or SystemClock().now_ms
        self._metrics = HttpMetrics()
        self._auditor = LoggedAudit(settings["penstock.audit.kinds"], SystemClock().monotonic_ms)
        self._cleanup = contextlib.AsyncExitStack()
        self._copy = contextlib.AsyncExitStack()  # closed after the last request
        self._brokers: Brokers | None = None
        self._servers: list[Address] = []
        self._http: HttpServer | None = None
        self._replica: Replica | None = None
        self._starting: asyncio.Task[None] | None = None
        self._contacted = asyncio.Event()
        self._was_ready = False

    @property
    def url(self) -> str:
        assert self._http is not None, "started first"
        return self._listener.url(self._http.port)

    @property
    def stores(self) -> list[Followed]:
        """Those that are followed now."""
        return [] if self._replica is None else list(self._replica.follower.stores.values())

    async def start(self) -> None:
        """Raises ConfigError, and OSError where the port is taken."""
        settings = self._settings
        self._servers = servers_of(settings["bootstrap.servers"])
        own = await asyncio.to_thread(_read_client_files, settings)
        self._brokers = brokers = self._open_client(own)
        self._cleanup.push_async_callback(brokers.close)
        self._cleanup.push_async_callback(self._copy.aclose)
        clients = self._caller_clients(own, brokers)
        more = [] if clients is None else [clients[1]]
        security = await ListenerSecurity.read(settings, self._listener.scheme, more)
        rights = StoreRights(None if clients is None else clients[0], self._auditor)
        desk = Desk(settings.application, self._cluster, self._queries, rights)
        connections = settings["penstock.streams.max.connections"]
        self._http = HttpServer(
            NAME,
            [*routes(desk), *self._health_routes(), metrics_route(self._numbers())],
            security.http,
            limits=HttpLimits(max_connections=connections, max_connections_per_address=max(1, connections // 2)),
            metrics=self._metrics,
            auditor=self._auditor,
            errors=ERRORS,
        )
        await self._http.start(self._listener.host, self._listener.port)
        self._cleanup.push_async_callback(self._http.stop)
        security.start()
        self._cleanup.push_async_callback(security.stop)
        self._starting = asyncio.create_task(self._begin(brokers), name="first contact with brokers")

    async def _begin(self, brokers: Brokers) -> None:
        """Raises ServiceError."""

        async def ask(timeout_s: float) -> MetadataResponse:
            return await brokers.metadata([], timeout_s=timeout_s)

        try:
            told = await wait_for_contact(ask, self._servers, self._contacted.set)
        except LoginRefusedError as error:
            raise ServiceError(f"the brokers refuse the login: {error}") from None
        settings = self._settings
        given = settings["penstock.streams.data.dir"]
        if given:
            directory = Path(given)
        else:
            directory = Path(self._copy.enter_context(tempfile.TemporaryDirectory(prefix="penstock-stores-")))
        subject = Subject(
            settings.application, told.cluster_id or "unknown", frozenset(settings["penstock.streams.stores"])
        )
        interval_s = settings["penstock.streams.listing.interval.ms"] / 1000
        try:
            self._replica = await Replica.open(brokers, subject, directory, self._now_ms, interval_s)
        except ReplicaError as error:
            raise ServiceError(str(error)) from None
        self._copy.push_async_callback(self._replica.close)
        self._contacted.set()

    async def wait_ready(self) -> str:
        await self._contact()
        if self._replica is None:
            return "no broker answers yet"
        try:
            await self._replica.wait_ready_or_failed()
        except ReplicaError as error:
            raise ServiceError(str(error)) from None
        if not self._replica.follower.stores:
            return f"there is no topic {self._settings.application}-*-changelog yet"
        return ""

    async def _contact(self) -> None:
        """Until the first try to reach brokers is over. Raises ServiceError."""
        assert self._starting is not None, "started first"
        waiting = asyncio.create_task(self._contacted.wait())
        try:
            await asyncio.wait([self._starting, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._starting.done():
            self._starting.result()

    async def wait_failed(self) -> None:
        assert self._starting is not None, "started first"
        await asyncio.shield(self._starting)
        assert self._replica is not None, "it was begun"
        try:
            await self._replica.wait_failed()
        except ReplicaError as error:
            raise ServiceError(str(error)) from None

    async def stop(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._cleanup.aclose()

    # ------------------------------------------------------------------------------------ parts

    def _open_client(self, security: ClientSecurity) -> Brokers:
        settings = self._settings
        timeout_s = settings["client.default.api.timeout.ms"] / 1000
        client_id = settings.client.get("id", _CLIENT_ID)
        return Brokers(self._servers, security, client_id=client_id, timeout_s=timeout_s)

    def _caller_clients(
        self, own: ClientSecurity, brokers: Brokers
    ) -> tuple[CallerClients[Brokers], Authenticator] | None:
        """None where brokers do not know the callers."""
        if not self._settings["penstock.http.broker.logins"]:
            return None
        logins = BrokerLogins(self._servers, own.tls)
        tokens = None if own.credentials is None else DelegationTokens(brokers.ask, logins)
        clients = CallerClients(self._open_client, own, is_shared=False, tokens=tokens)
        self._cleanup.push_async_callback(clients.close)
        return clients, login_by_brokers(self._settings, logins, secrets.token_bytes(SECRET_BYTES))

    def _cluster(self) -> str | None:
        return None if self._replica is None else self._replica.subject.cluster

    def _queries(self) -> StoreQueries | None:
        return None if self._replica is None else self._replica.queries

    def _why_not_ready(self) -> str:
        """A server that was ready stays so: answers come from the file, also while brokers are away."""
        if self._replica is None:
            return "no broker has answered yet"
        self._was_ready = self._was_ready or self._replica.is_ready
        return "" if self._was_ready else "stores are being read"

    def _health_routes(self) -> list[Route]:
        async def get_readiness(_: Request) -> Response:
            reason = self._why_not_ready()
            return refusal(StoreError(503, reason)) if reason else answer({"status": "ready"})

        async def get_life(_: Request) -> Response:
            return answer({"status": "alive"})

        ready = [Route(path, get_readiness, is_public=True) for path in ("/health", "/healthz", "/readyz")]
        return [*ready, Route("/livez", get_life, is_public=True)]

    def _numbers(self) -> tuple[Published, ...]:
        def of_stores(name: str, doc: str, read: Callable[[Followed], float | None]) -> Published:
            def by_store() -> dict[str, float]:
                read_all = {each.name: read(each) for each in self.stores}
                return {store: number for store, number in read_all.items() if number is not None}

            return Published(f"penstock_streams_store_{name}", GAUGE, doc, by_store, "store")

        def number(name: str, kind: MetricKind, doc: str, read: Callable[[], float]) -> Published:
            return Published(f"penstock_streams_{name}", kind, doc, read)

        return (
            number("ready", GAUGE, "1 when all stores were read once.", lambda: int(not self._why_not_ready())),
            number("records_total", COUNTER, "Records of changelogs that were read.", self._records),
            of_stores("rows", "Rows by store.", lambda store: store.rows),
            of_stores("lag", "Offsets that are not read yet, by store.", lambda store: store.lag),
            of_stores("skipped", "Records without a key that is JSON, by store.", lambda store: store.skipped),
            *http_numbers(NAME, self._metrics),
        )

    def _records(self) -> int:
        return 0 if self._replica is None else self._replica.follower.records


def _read_client_files(settings: StoresSettings) -> ClientSecurity:
    """In a thread: reads files."""
    try:
        return client_security(settings.client)
    except CredentialsError as error:
        raise ConfigError(f"client.*: {error}") from None
