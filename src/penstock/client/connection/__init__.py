"""One connection to a broker, for asyncio and for threads: a request and its response.

No retries, no metadata, no pooling; callers decide those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.lazy.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.client.connection.asyncio_connection import Connection
    from penstock.client.connection.blocking_connection import BlockingConnection
    from penstock.client.connection.core import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
    from penstock.client.connection.frames import ConnectionClosedError
    from penstock.client.connection.login import LoginPutOffError, LoginRefusedError

__all__ = [
    "CONNECT_TIMEOUT_S",
    "REQUEST_TIMEOUT_S",
    "BlockingConnection",
    "Connection",
    "ConnectionClosedError",
    "LoginPutOffError",
    "LoginRefusedError",
]

_MODULES = {
    "BlockingConnection": "penstock.client.connection.blocking_connection",
    "CONNECT_TIMEOUT_S": "penstock.client.connection.core",
    "Connection": "penstock.client.connection.asyncio_connection",
    "ConnectionClosedError": "penstock.client.connection.frames",
    "LoginPutOffError": "penstock.client.connection.login",
    "LoginRefusedError": "penstock.client.connection.login",
    "REQUEST_TIMEOUT_S": "penstock.client.connection.core",
}

if not TYPE_CHECKING:  # an executor of Spark does not pay for asyncio
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)
