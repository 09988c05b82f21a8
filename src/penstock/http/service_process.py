"""The parts that the process of every HTTP service shares: its listener, authentication, log lines, signals, exit
codes.

    settings = Settings.parse((*HTTP_KEYS, *OWN_KEYS), properties)
    return run_service(settings, lambda: MyService(settings))

The first line on standard output appears when the service answers, and has its address. Exit codes: 0 after SIGTERM or
SIGINT, 2 for wrong settings, 1 for every other obstacle to the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import secrets
import signal
import ssl
from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from penstock.client.addresses import Address
from penstock.core import logs
from penstock.core.config.types import ConfigError
from penstock.core.loops import new_event_loop, raise_file_limit
from penstock.core.words.failure_text import PORTS_END, describe_os_error, tell_error
from penstock.http.authentication import (
    AnyOf,
    Authenticator,
    BasicAuthenticator,
    BearerAuthenticator,
    CertificateAuthenticator,
    Passwords,
    Tokens,
    parse_pairs,
)
from penstock.http.callers.broker_logins import BrokerLogins
from penstock.http.callers.credential_forwarding import BASIC, BEARER, ForwardedLogins
from penstock.http.exposure import DEFAULT_PORTS
from penstock.http.server import HttpSecurity
from penstock.http.settings import Settings
from penstock.http.tls import ServedTls

logger = logging.getLogger(__name__)

T = TypeVar("T")

SECRET_BYTES = 32
_TITLES = {"rest": "REST proxy", "streams": "server of stores"}
# The number of new objects before the collector looks for cycles among them: a request leaves hardly any behind. A
# refused request may leave some thousands, and of those the last number decides how many there can be: 10,000 times 10
# times 10 new objects.
_COLLECTOR_THRESHOLDS = (10_000, 10, 10)


class ServiceError(Exception):
    """The service cannot start, and a wait would not help. The text is for its operator."""


class Service(Protocol):
    @property
    def url(self) -> str:
        """The address, with the port that the system gave."""
        ...

    async def start(self) -> None:
        """Listens. Raises OSError, ConfigError and ServiceError."""
        ...

    async def wait_ready(self) -> str:
        """Returns when the service serves requests; with a sentence where most of them will still fail. Raises
        ServiceError where it never will serve.
        """
        ...

    async def stop(self) -> None:
        """Also stops a service that is not ready, or whose start has failed."""
        ...


@runtime_checkable
class CanFail(Protocol):
    """A service that may break after its start, so that only a restart helps."""

    async def wait_failed(self) -> None:
        """Ends with ServiceError, or never."""
        ...


class Listener(NamedTuple):
    scheme: str
    host: str
    port: int

    def url(self, port: int) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "localhost"
        return f"{self.scheme}://{host}:{port}"


def parse_listener(service: str, text: str) -> Listener:
    """`http://HOST:PORT`, `https://HOST:PORT`, or `HOST:PORT`; empty for loopback and the usual port. Raises
    ConfigError.
    """
    key, default = "listeners", DEFAULT_PORTS[service]
    if "," in text:
        raise ConfigError.of_value(key, text, "Expected one listener: start another process for a second one")
    parts = urlsplit(text if "://" in text else f"http://{text or '127.0.0.1'}")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError.of_value(key, text, f"a port is a number, and {PORTS_END}") from None
    if parts.scheme not in ("http", "https"):
        raise ConfigError.of_value(key, text, "Expected http://HOST:PORT or https://HOST:PORT")
    return Listener(parts.scheme, parts.hostname or "", default if port is None else port)


class ListenerSecurity:
    """The authentication of a listener, and its certificate. `start` begins to watch its files."""

    def __init__(self, http: HttpSecurity, tls: ServedTls | None = None) -> None:
        self.http = http
        self._tls = tls
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def read(cls, settings: Settings, scheme: str, more: Sequence[Authenticator] = ()) -> ListenerSecurity:
        """From the settings of `HTTP_KEYS`; `more` are the service's own login methods. Raises ConfigError."""
        tls = await ServedTls.load(settings.tls_properties()) if scheme == "https" else None
        ways = [*_ways_of(settings), *more]
        # An open listener stays open where certificates are optional.
        if tls is not None and (tls.needs_certificates or (tls.takes_certificates and ways)):
            ways.append(CertificateAuthenticator(tls.name_client))
        methods = settings["authentication.method"]
        if not ways and any(each != "NONE" for each in methods):
            raise ConfigError(
                "authentication.method asks for logins, and nobody could log in: give penstock.http.users, "
                "penstock.http.tokens or penstock.http.broker.logins=true",
                key="authentication.method",
            )
        http = HttpSecurity(
            tls=None if tls is None else tls.context,
            authenticator=AnyOf(ways) if ways else None,
            is_insecure_allowed=settings["penstock.http.insecure"],
        )
        return cls(http, tls)

    def start(self) -> None:
        if self._tls is not None:
            self._watching = asyncio.create_task(self._tls.watch(), name="certificates")

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)


def _ways_of(settings: Settings) -> list[Authenticator]:
    """Users and tokens of the settings count for the named methods; without named methods they always count."""
    methods = settings["authentication.method"]
    ways: list[Authenticator] = []
    if settings["penstock.http.users"] and (not methods or "BASIC" in methods):
        ways.append(BasicAuthenticator(Passwords(_pairs(settings, "penstock.http.users")).check))
    if settings["penstock.http.tokens"] and (not methods or "BEARER" in methods):
        ways.append(BearerAuthenticator(Tokens(_pairs(settings, "penstock.http.tokens")).check))
    return ways


def passed_logins(settings: Settings, bootstrap: Sequence[Address], tls: ssl.SSLContext | None) -> list[Authenticator]:
    """For `more` of `ListenerSecurity.read`, where the settings leave logins to the brokers."""
    if not settings["penstock.http.broker.logins"]:
        return []
    return [login_by_brokers(settings, BrokerLogins(bootstrap, tls), secrets.token_bytes(SECRET_BYTES))]


def login_by_brokers(
    settings: Settings, logins: BrokerLogins, secret: bytes, mechanisms: Sequence[str] | None = None
) -> ForwardedLogins:
    methods = [each for each in settings["authentication.method"] if each != "NONE"] or [BASIC, BEARER]
    return ForwardedLogins(logins, secret, methods=methods, mechanisms=mechanisms)


def _pairs(settings: Settings, key: str) -> dict[str, str]:
    try:
        return parse_pairs(settings[key])
    except ValueError as error:
        raise ConfigError(f"Invalid value [hidden] for configuration {key}: {error}", key=key) from None


def run_service(name: str, settings: Settings, make: Callable[[], Service]) -> int:
    """Runs the service until SIGTERM or SIGINT, or until its `wait_failed` raises, if it has one. `make` runs on the
    service's loop. Returns the exit code.
    """
    logs.configure(settings["penstock.log.format"], settings["penstock.log.level"])
    raise_file_limit()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(name, make))


async def _serve(name: str, make: Callable[[], Service]) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    what = "cannot start"
    try:
        service = make()
        async with contextlib.AsyncExitStack() as cleanup:
            cleanup.push_async_callback(service.stop)
            await service.start()
            but = await _ends_before(service.wait_ready(), stopping)
            if but is not None:
                gc.freeze()  # the objects of the start stay until the end
                gc.set_threshold(*_COLLECTOR_THRESHOLDS)
                words = f"listens at {service.url}, but {but}" if but else f"is ready at {service.url}"
                print(f"penstock {name} {words}", flush=True)
            what = "cannot go on"
            if isinstance(service, CanFail):
                await _ends_before(service.wait_failed(), stopping)
            await stopping.wait()
            logger.info("shutting down")
    except ConfigError as error:
        tell_error(error.message)
        return 2
    except (OSError, ServiceError) as error:
        words = describe_os_error(error) if isinstance(error, OSError) else str(error)
        tell_error(f"the {_TITLES.get(name, name)} {what}: {words}")
        return 1
    logger.info("shut down cleanly")
    return 0


async def _ends_before(work: Coroutine[object, object, T], stopping: asyncio.Event) -> T | None:
    """The result of `work`; None when the process has to stop before. Raises the errors of `work`."""
    working, waiting = asyncio.create_task(work), asyncio.create_task(stopping.wait())
    try:
        done, _ = await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working in done else None
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
