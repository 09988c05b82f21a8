"""The settings of `penstock streams serve`: one table. `client.*` are of the client that speaks to the brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.client.addresses import Address, parse_servers
from penstock.core.config.types import ConfigError, ConfigKey, ConfigKind, Importance, Range
from penstock.http.settings import HTTP_KEYS, Settings
from penstock.streams.stores.followed_store import APPLICATION

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_CLIENT: Final = "client."

STORES_KEYS: Final[tuple[ConfigKey, ...]] = (
    ConfigKey(
        "application.id",
        ConfigKind.STRING,
        "",
        "The application whose stores are served: topics APPLICATION-STORE-changelog.",
        importance=_HIGH,
    ),
    ConfigKey(
        "bootstrap.servers",
        ConfigKind.STRING,
        "localhost:9092",
        "Brokers to begin with, as HOST:PORT,HOST:PORT. The others are found through them.",
        importance=_HIGH,
    ),
    ConfigKey(
        "penstock.streams.data.dir",
        ConfigKind.STRING,
        "",
        "Where the copies of stores are kept, a file for each application and cluster. Empty: in a temporary "
        "directory, so that each start reads the changelogs from their beginning.",
        importance=_HIGH,
    ),
    ConfigKey(
        "penstock.streams.stores",
        ConfigKind.LIST,
        (),
        "Which stores are served. Empty: all of the application.",
    ),
    ConfigKey(
        "penstock.streams.listing.interval.ms",
        ConfigKind.INT,
        5_000,
        "How often topics are listed, so that new stores are found.",
        rule=Range(100),
        importance=_LOW,
    ),
    ConfigKey(
        "client.default.api.timeout.ms",
        ConfigKind.INT,
        10_000,
        "How long a broker may take for an answer.",
        rule=Range(1),
        importance=_LOW,
    ),
    ConfigKey(
        "penstock.streams.max.connections",
        ConfigKind.INT,
        1024,
        "How many connections of callers may be open.",
        rule=Range(1),
    ),
)


def servers_of(text: str) -> list[Address]:
    """Raises ConfigError."""
    try:
        servers = parse_servers(text)
    except ValueError as error:
        raise ConfigError(f"bootstrap.servers: {error}", key="bootstrap.servers") from None
    if not servers:
        raise ConfigError("bootstrap.servers is empty", key="bootstrap.servers")
    return list(servers)


def check_application(name: str) -> str:
    """Returns the name. Raises ConfigError."""
    if not APPLICATION.fullmatch(name):
        raise ConfigError.of_value("application.id", name, "Expected letters, digits, dots, dashes or underscores")
    return name


class StoresSettings(Settings):
    @classmethod
    def of(cls, properties: Mapping[str, str]) -> StoresSettings:
        """Raises ConfigError for an unknown key, and for values that make no sense."""
        settings = cls.parse((*HTTP_KEYS, *STORES_KEYS), properties, (_CLIENT,))
        check_application(settings["application.id"])
        return settings

    @property
    def application(self) -> str:
        name: str = self["application.id"]
        return name

    @property
    def client(self) -> dict[str, str]:
        """By Kafka's names."""
        return self.under(_CLIENT)
