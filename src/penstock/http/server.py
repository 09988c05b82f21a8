"""One HTTP listener on the caller's loop: `start`, `port`, `stop`."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.metrics.counters import HttpMetrics
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.http.acceptor import Acceptor, MakeProtocol
from penstock.http.authentication import Authenticator
from penstock.http.exposure import check_exposure
from penstock.http.limits import HttpLimits
from penstock.http.routes import PLAIN_ERRORS, ErrorForm, Route
from penstock.security.audit.events import NO_AUDIT, Auditor

if TYPE_CHECKING:
    from penstock.http.prompt_server import PromptServer

logger = logging.getLogger(__name__)

_BACKLOG = 128


@dataclass(frozen=True, slots=True)
class HttpSecurity:
    # Gives the current context, at every connection: another after a reload.
    tls: Callable[[], ssl.SSLContext] | None = None
    authenticator: Authenticator | None = None
    # Open on any address, without a login: the operator has confirmed it.
    is_insecure_allowed: bool = False


class HttpServer:
    def __init__(
        self,
        name: str,
        routes: Sequence[Route],
        security: HttpSecurity | None = None,
        *,
        limits: HttpLimits | None = None,
        metrics: HttpMetrics | None = None,
        auditor: Auditor = NO_AUDIT,
        errors: ErrorForm = PLAIN_ERRORS,
    ) -> None:
        self._name = name
        self._routes = tuple(routes)
        self._security = security or HttpSecurity()
        self._limits = limits or HttpLimits()
        self._metrics = metrics or HttpMetrics()
        self._auditor = auditor
        self._errors = errors
        self._server: PromptServer | None = None
        self._acceptor: Acceptor | None = None
        self._serving: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        """Listens before the imports: a port that is taken fails the start at once, with an OSError. Raises
        ExposedError where the listener would be open to other machines.
        """
        assert self._serving is None, "started twice"
        listener = await _listen(host, port, self._check)
        self.port = listener.getsockname()[1]
        try:
            server = await asyncio.to_thread(self._build)
        except BaseException:
            listener.close()
            raise
        self._server = server
        self._serving = asyncio.create_task(server.serve(sockets=[]), name=self._name)
        self._acceptor = Acceptor(listener, self._limits, self._metrics, self._security.tls)
        self._acceptor.open(self._protocols(server))
        scheme = "http" if self._security.tls is None else "https"
        logger.info("%s listens", self._name, extra={"host": host, "port": self.port, "scheme": scheme})

    def _protocols(self, server: PromptServer) -> MakeProtocol:
        from penstock.http.protocol import GuardedProtocol

        def make(on_lost: Callable[[], None]) -> GuardedProtocol:
            return GuardedProtocol(server.config, server.server_state, self._limits, self._metrics, on_lost)

        return make

    def _check(self, address: str) -> None:
        security = self._security
        check_exposure(
            self._name,
            address,
            is_authenticated=security.authenticator is not None,
            is_insecure_allowed=security.is_insecure_allowed,
            is_encrypted=security.tls is not None,
        )

    async def stop(self) -> None:
        """Refuses new connections, lets answers in progress finish for a moment, closes the rest. Safe to call
        twice.
        """
        if self._serving is None or self._server is None or self._acceptor is None:
            return
        serving, self._serving = self._serving, None
        await self._acceptor.close()
        self._server.stop()
        await serving

    def _build(self) -> PromptServer:
        """In a worker thread: the imports take a quarter of a second."""
        import uvicorn

        from penstock.http.application import Guard
        from penstock.http.prompt_server import PromptServer
        from penstock.http.protocol import GuardedProtocol

        limits, security = self._limits, self._security
        guard = Guard(
            self._name, self._routes, limits, security.authenticator, self._auditor, self._metrics, self._errors
        )
        config = uvicorn.Config(
            guard,
            http=GuardedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # an address in a header is not trusted
            timeout_keep_alive=int(limits.keep_alive_s),
            timeout_graceful_shutdown=int(limits.stop_s) or 1,
        )
        config.load()  # imports the rest of uvicorn here
        return PromptServer(config)


async def _listen(host: str, port: int, check: Callable[[str], None]) -> socket.socket:
    """On the first address of the name; an empty name is every address of the machine."""
    loop = asyncio.get_running_loop()
    try:
        with failing_as_unknown():
            found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise _named(error, host, port) from error
    family, kind, protocol, _, address = found[0]
    check(str(address[0]))
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise _named(error, host, port) from error
    except BaseException:
        listener.close()
        raise
    return listener


def _named(error: OSError, host: str, port: int) -> OSError:
    """The same error with the address in its text."""
    return OSError(error.errno, f"{host or '*'}:{port}: {error.strerror or error}")
