"""A schema registry inside your program, beside a broker: in a test, a notebook, or an application of its own.

with penstock.Broker() as broker, penstock.Registry(broker) as registry:
    SchemaRegistryClient({"url": registry.url})
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol, Self

from penstock.core.loops import OnAThread
from penstock.core.properties import ConfigMapping, as_properties
from penstock.registry.server import RegistryServer
from penstock.registry.settings import CLIENT_PREFIX, RegistrySettings

# Nobody waits in a test for an instance that was killed: a session is as short as a broker allows by default.
_DEFAULTS = {"kafkagroup.session.timeout.ms": "6000"}


class HasBrokers(Protocol):
    """A broker or a cluster of this package."""

    @property
    def bootstrap_servers(self) -> str: ...


def _properties(
    broker: HasBrokers | str, port: int, config: ConfigMapping | None, host: str, client: Mapping[str, Any] | None
) -> dict[str, str]:
    from penstock.client.security import kafka_properties

    given = client if client is not None else getattr(broker, "client_config", {})
    security = kafka_properties({name: str(value) for name, value in given.items() if name != "bootstrap.servers"})
    servers = broker if isinstance(broker, str) else broker.bootstrap_servers
    return {
        **_DEFAULTS,
        "listeners": f"http://{host}:{port}",
        **{f"{CLIENT_PREFIX}{name}": value for name, value in security.items()},
        f"{CLIENT_PREFIX}bootstrap.servers": servers,
        **as_properties(config),
    }


class AsyncRegistry:
    """A registry on the caller's event loop. `broker` is a broker or a cluster of this package, or the addresses of
    other brokers; `client_config` has settings of confluent-kafka's clients to reach them by, where they differ from
    the broker's own. `config` has the registry's settings, by their names.
    """

    def __init__(
        self,
        broker: HasBrokers | str,
        port: int = 0,
        config: ConfigMapping | None = None,
        host: str = "127.0.0.1",
        *,
        client_config: Mapping[str, Any] | None = None,
    ) -> None:
        self._broker = broker
        self._port = port
        self._config = config
        self._host = host
        self._client_config = client_config
        self._server: RegistryServer | None = None

    async def start(self) -> None:
        """Returns when the registry serves reads and writes. Raises ConfigError, ServiceError and OSError."""
        assert self._server is None, "the registry is running already"
        given = _properties(self._broker, self._port, self._config, self._host, self._client_config)
        server = RegistryServer(RegistrySettings.parse(given))
        try:
            await server.start()
            await server.wait_ready()
        except BaseException:
            await server.stop()
            raise
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()

    @property
    def server(self) -> RegistryServer:
        if self._server is None:
            raise RuntimeError("the registry is not running: use it inside its `with` block, or call start() first")
        return self._server

    @property
    def url(self) -> str:
        return self.server.url

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Registry(OnAThread):
    """A registry on a thread of its own, beside the caller's code."""

    def __init__(
        self,
        broker: HasBrokers | str,
        port: int = 0,
        config: ConfigMapping | None = None,
        host: str = "127.0.0.1",
        *,
        client_config: Mapping[str, Any] | None = None,
    ) -> None:
        self._registry = AsyncRegistry(broker, port, config, host, client_config=client_config)
        super().__init__("registry", self._registry)

    @property
    def url(self) -> str:
        return self._registry.url

    @property
    def client_config(self) -> dict[str, str]:
        """Settings for confluent-kafka's SchemaRegistryClient."""
        return {"url": self.url}
