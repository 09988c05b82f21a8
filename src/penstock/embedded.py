"""A broker inside your program: in a test, a notebook, or an application that wants its own log.

with penstock.Broker() as broker:
    Producer({"bootstrap.servers": broker.bootstrap_servers})
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from penstock.broker.topic_creation import create_topic, delete_topic
from penstock.core.config.broker_config import BrokerConfig
from penstock.core.leftovers import make_temporary, remove_temporary
from penstock.core.loops import OnAThread
from penstock.core.properties import ConfigMapping, as_properties
from penstock.security_setup.places import stays_secure
from penstock.server.broker_server import BrokerServer

if TYPE_CHECKING:
    from penstock.security_setup.setup import SecureSetup

# What differs from a broker of its own process: nobody waits in a test for members that will not come.
_DEFAULTS = {"group.initial.rebalance.delay.ms": "0"}


def _properties(data_dir: Path, host: str, port: int, config: ConfigMapping | None) -> dict[str, str]:
    settings = {**_DEFAULTS, "log.dirs": str(data_dir), "listeners": f"PLAINTEXT://{host}:{port}"}
    return {**settings, **as_properties(config)}


class AsyncBroker:
    """A broker on the caller's event loop. Data goes to `data_dir`, or to a temporary directory that is removed at
    the end. With `secure` clients need TLS and a login, which `client_config` has; certificates and passwords go to a
    directory beside `data_dir`. Data that was secure once stays so, unless `secure` is False: a start that says nothing
    raises SecureSetupError where files of that directory are lost.
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        port: int = 0,
        config: ConfigMapping | None = None,
        host: str = "127.0.0.1",
        *,
        secure: bool | None = None,
    ) -> None:
        self._is_secure = secure
        self._setup: SecureSetup | None = None
        self._given_dir = None if data_dir is None else Path(data_dir)
        self._port = port
        self._config = config
        self._host = host
        self._temporary: Path | None = None
        self._server: BrokerServer | None = None

    async def start(self) -> None:
        assert self._server is None, "the broker is running already"
        data_dir = self._given_dir
        if data_dir is None:
            self._temporary = make_temporary("penstock-")
            data_dir = self._temporary / "data"
        try:
            config = BrokerConfig.parse(await self._properties(data_dir))
            self._server = await BrokerServer.start(config, is_temporary=self._given_dir is None)
        except BaseException:
            self._remove_temporary()
            raise

    async def _properties(self, data_dir: Path) -> dict[str, str]:
        properties = _properties(data_dir, self._host, self._port, self._config)
        if not (stays_secure(properties) if self._is_secure is None else self._is_secure):
            return properties
        from penstock.security_setup.single import secure_single

        is_asked = self._is_secure is True
        self._setup, secured = await asyncio.to_thread(secure_single, properties, is_asked=is_asked)
        return secured

    async def stop(self) -> None:
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop()
        self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            remove_temporary(self._temporary)
            self._temporary = None

    @property
    def server(self) -> BrokerServer:
        if self._server is None:
            raise RuntimeError("the broker is not running: use it inside its `with` block, or call start() first")
        return self._server

    @property
    def bootstrap_servers(self) -> str:
        return self.server.bootstrap_servers

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def client_config(self) -> dict[str, Any]:
        """Settings for confluent-kafka's clients, as the administrator where the broker is secure."""
        if self._setup is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return self._setup.client_config(self.bootstrap_servers)

    @property
    def client_file(self) -> Path | None:
        """Kafka's client properties of the administrator; None where the broker is not secure."""
        return None if self._setup is None else self._setup.client_file

    async def create_topic(self, name: str, partitions: int = 1, config: ConfigMapping | None = None) -> None:
        configs = {key: str(value) for key, value in (config or {}).items()}
        await create_topic(self.server.broker.metadata, name, partitions, configs)

    async def delete_topic(self, name: str) -> None:
        await delete_topic(self.server.broker.metadata, name)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Broker(OnAThread):
    """A broker on a thread of its own, beside the caller's code."""

    def __init__(
        self,
        data_dir: str | Path | None = None,
        port: int = 0,
        config: ConfigMapping | None = None,
        host: str = "127.0.0.1",
        *,
        secure: bool | None = None,
    ) -> None:
        self._broker = AsyncBroker(data_dir, port, config, host, secure=secure)
        super().__init__("broker", self._broker)

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    @property
    def port(self) -> int:
        return self._broker.port

    @property
    def client_config(self) -> dict[str, Any]:
        """Settings for confluent-kafka's clients, as the administrator where the broker is secure."""
        return self._broker.client_config

    @property
    def client_file(self) -> Path | None:
        """Kafka's client properties of the administrator; None where the broker is not secure."""
        return self._broker.client_file

    def create_topic(self, name: str, partitions: int = 1, config: ConfigMapping | None = None) -> None:
        self._thread.call(self._broker.create_topic(name, partitions, config))

    def delete_topic(self, name: str) -> None:
        self._thread.call(self._broker.delete_topic(name))
