"""The clients that speak to the brokers for callers: the broker authorises the caller, not the proxy.

Where logins are not passed on all callers share one client, with the proxy's own credentials.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from penstock.client.addresses import Address, parse_servers
from penstock.client.brokers import Brokers
from penstock.client.credentials import CredentialsError
from penstock.client.security import ClientSecurity, client_security
from penstock.core.config.types import ConfigError
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.http.authentication import Authenticator
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.http.callers.clients import CallerClients, ClientLimits
from penstock.http.callers.delegation import DelegationTokens
from penstock.http.service_process import SECRET_BYTES, login_by_brokers
from penstock.rest.record_producer import Producer
from penstock.rest.settings import RestSettings

_CLIENT_ID = "penstock-rest"
# The time after which a caller gets the error that no broker is reachable. A restarting broker takes less, as a rule.
_PATIENCE_S = 5.0


class CallerBrokers(Brokers):
    """The client of one caller, and the caller's producer, which ends with it."""

    delivery_timeout_s = 30.0
    _producer: Producer | None = None

    @property
    def producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(self, self.delivery_timeout_s)
        return self._producer

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
        await super().close()


Clients: TypeAlias = CallerClients[CallerBrokers]


@dataclass(frozen=True, slots=True)
class Access:
    """The credentials for the brokers on a caller's behalf, and the callers' logins by them."""

    clients: Clients
    own: Brokers  # with the proxy's own credentials
    authenticator: Authenticator | None
    servers: Sequence[Address]
    # False where callers bring their logins and the proxy has none.
    has_own_login: bool = True

    async def reach(self, timeout_s: float) -> None:
        """Raises OSError and ApiError where no broker answers; without a login of the proxy, where none listens."""
        if self.has_own_login:
            await self.own.metadata([], timeout_s=timeout_s)
            return
        failure: OSError | None = None
        for address in self.servers:
            try:
                with failing_as_unknown():
                    async with asyncio.timeout(timeout_s):
                        _, writer = await asyncio.open_connection(*address)
            except OSError as error:
                failure = error
            else:
                writer.close()
                return
        assert failure is not None, "there are servers"
        raise failure


async def open_access(settings: RestSettings, random_bytes: Callable[[int], bytes]) -> Access:
    """Makes no connection yet. Raises ConfigError."""
    try:
        servers = parse_servers(settings.text("bootstrap.servers"))
    except ValueError as error:
        raise ConfigError(f"bootstrap.servers: {error}", key="bootstrap.servers") from None
    if not servers:
        raise ConfigError("bootstrap.servers is empty", key="bootstrap.servers")
    try:
        security = await asyncio.to_thread(client_security, settings.client)  # reads files
    except CredentialsError as error:
        raise ConfigError(f"client.*: {error}") from None
    client_id = settings.client.get("id", _CLIENT_ID)
    timeout_s = settings.number("client.default.api.timeout.ms") / 1000
    delivery_timeout_s = settings.number("producer.delivery.timeout.ms") / 1000

    def open_client(shown: ClientSecurity) -> CallerBrokers:
        client = CallerBrokers(servers, shown, client_id=client_id, timeout_s=timeout_s, patience_s=_PATIENCE_S)
        client.delivery_timeout_s = delivery_timeout_s
        return client

    limits = ClientLimits(most=settings.number("penstock.rest.max.callers"))
    own = open_client(security)
    if not settings["penstock.http.broker.logins"]:
        return Access(CallerClients(open_client, security, is_shared=True, limits=limits), own, None, servers)
    logins = BrokerLogins(servers, security.tls)
    mechanisms = settings["penstock.rest.login.mechanisms"] or None
    authenticator = login_by_brokers(settings, logins, random_bytes(SECRET_BYTES), mechanisms)
    tokens = None if security.credentials is None else DelegationTokens(own.ask, logins)
    clients = CallerClients(open_client, security, is_shared=False, tokens=tokens, limits=limits)
    return Access(clients, own, authenticator, servers, has_own_login=security.credentials is not None)
