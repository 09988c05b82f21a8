"""One connection to a broker, for asyncio and for threads: a request and its response.

No retries, no metadata, no pooling; callers decide those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.connection.asyncio_connection import Connection
    from penstock.client.connection.blocking_connection import BlockingConnection
    from penstock.client.connection.core import CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S
    from penstock.client.connection.frames import ConnectionClosedError
    from penstock.client.connection.login import LoginRefusedError

__all__ = [
    "CONNECT_TIMEOUT_S",
    "REQUEST_TIMEOUT_S",
    "BlockingConnection",
    "Connection",
    "ConnectionClosedError",
    "LoginRefusedError",
]

_MODULES = {
    "BlockingConnection": "blocking_connection",
    "CONNECT_TIMEOUT_S": "core",
    "Connection": "asyncio_connection",
    "ConnectionClosedError": "frames",
    "LoginRefusedError": "login",
    "REQUEST_TIMEOUT_S": "core",
}


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        """Imported when it is first used: an executor of Spark does not pay for asyncio."""
        if name in _MODULES:
            import importlib

            return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
