"""How the monitoring listener is encrypted and who may look, from the broker's settings.

Its TLS is that of a listener called METRICS: `listener.name.metrics.ssl.*` before `ssl.*`, files that change are read
again, names of certificates become principals by the same rules.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.authorizer import CLUSTER_NAME, Operation, ResourceType
from penstock.broker.broker import Broker
from penstock.broker.login.users import StoredUsers
from penstock.broker.session import Principal, RequestContext, Session
from penstock.core.clock import Clock
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.config.types import ConfigError
from penstock.core.listeners import Endpoint
from penstock.core.metrics.counters import SocketMetrics
from penstock.http.authentication import (
    AnyOf,
    Authenticator,
    BasicAuthenticator,
    BearerAuthenticator,
    CertificateAuthenticator,
    Entitled,
    Passwords,
    Tokens,
    parse_pairs,
)
from penstock.http.scram_users import FindCredential, ScramPasswords
from penstock.http.server import HttpSecurity
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest
from penstock.security.tls.der import DerError, read_certificate
from penstock.security.tls.distinguished_names import format_name
from penstock.security.tls.principal_rules import map_name
from penstock.server.net.tls_reloading import ServedTls, TlsReloading, load_served

LISTENER = "METRICS"
_SECRET_BYTES = 32


class MonitoringSecurity(NamedTuple):
    http: HttpSecurity
    reloading: TlsReloading | None = None


class ClusterUsers(NamedTuple):
    """Users that the cluster keeps: what is stored of them, and which of them may look, from an address."""

    find: FindCredential
    may_look: Callable[[str, str], bool]


async def read_security(
    config: Callable[[], BrokerConfig], metrics: SocketMetrics, clock: Clock, users: ClusterUsers
) -> MonitoringSecurity:
    """Raises ConfigError. `config` is the configuration in effect."""
    settings = config().monitoring
    ways: list[Authenticator] = []
    if settings.penstock_metrics_users:
        ways.append(BasicAuthenticator(Passwords(_pairs("users", settings.penstock_metrics_users)).check))
    if settings.penstock_metrics_cluster_users:
        passwords = ScramPasswords(users.find, secrets.token_bytes(_SECRET_BYTES))
        ways.append(Entitled(BasicAuthenticator(passwords.check), users.may_look))
    if settings.penstock_metrics_tokens:
        ways.append(BearerAuthenticator(Tokens(_pairs("tokens", settings.penstock_metrics_tokens)).check))
    served = await _load(config()) if settings.penstock_metrics_security_protocol == "SSL" else None
    if served is not None and served.settings.client_auth == "required":
        ways.append(CertificateAuthenticator(lambda der: _name_client(served, der)))
    http = HttpSecurity(
        tls=None if served is None else lambda: served.tls.context,
        authenticator=AnyOf(ways) if ways else None,
        is_insecure_allowed=settings.penstock_metrics_insecure,
    )
    if served is None:
        return MonitoringSecurity(http)
    # What is new is asked for at every connection: nobody needs to be told.
    return MonitoringSecurity(http, TlsReloading([served], lambda _: None, config, metrics, clock))


async def _load(config: BrokerConfig) -> ServedTls:
    endpoint = Endpoint(LISTENER, "", 0, "SSL")
    return await asyncio.to_thread(load_served, config, endpoint, is_inter_broker=False)


def cluster_users(broker: Broker) -> ClusterUsers:
    """Those of a broker. They need the right to describe the cluster, where rights are asked for at all."""

    def may_look(principal: str, address: str) -> bool:
        kind, _, name = principal.partition(":")
        session = Session("http", address, LISTENER, Principal(kind, name))
        context = RequestContext(session, DescribeClusterRequest.API_KEY, 0, None)
        return broker.authorizer.would_allow(context, Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    return ClusterUsers(StoredUsers(lambda: broker.metadata.image.security, broker.config).find_user, may_look)


def _name_client(served: ServedTls, der: bytes) -> str | None:
    try:
        name = format_name(read_certificate(der).subject)
    except DerError:
        return None
    user = map_name(served.tls.rules, name)
    return None if user is None else f"User:{user}"


def _pairs(name: str, text: str) -> dict[str, str]:
    try:
        return parse_pairs(text)
    except ValueError as error:
        key = f"penstock.metrics.{name}"
        raise ConfigError(f"Invalid value [hidden] for configuration {key}: {error}", key=key) from None
