"""Connects a broker to another broker over TCP, and sets how soon it notices that the other is gone."""

from __future__ import annotations

from collections.abc import Callable

from penstock.broker.peers.peer import Connect
from penstock.client.connection import Connection
from penstock.client.routes.socket_options import set_options
from penstock.client.security import ClientSecurity
from penstock.core.listeners import Endpoint

CONNECT_TIMEOUT_S = 5.0


def connect_by_tcp(security: Callable[[], ClientSecurity]) -> Connect:
    """`security` gives the current security of connections between brokers: certificates change while a broker runs."""

    async def connect(endpoint: Endpoint, client_id: str) -> Connection:
        """Raises OSError; TimeoutError and the errors of TLS are subclasses."""
        return await Connection.open(
            endpoint.host,
            endpoint.port,
            client_id=client_id,
            timeout_s=CONNECT_TIMEOUT_S,
            security=security(),
            set_options=set_options,
        )

    return connect
