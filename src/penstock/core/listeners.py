"""Listeners: `NAME://HOST:PORT` lists, and which security protocol each speaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from penstock.core.config.types import ConfigError
from penstock.core.words.failure_text import MAX_PORT, PORTS_END

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ENDPOINT = re.compile(
    r"(?P<name>[^:/\s]+)://(?:\[(?P<ip6>[0-9A-Za-z:.%]+)\]|(?P<host>[0-9A-Za-z._%-]*)):(?P<port>[0-9]{1,5})"
)
_ANY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104  # recognised, not bound


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def is_encrypted(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def has_login(self) -> bool:
        return has_sasl(self.security_protocol)

    @property
    def is_any_address(self) -> bool:
        return self.host in _ANY_ADDRESS


def parse_protocol_map(text: str) -> dict[str, str]:
    key = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not colon or not name or protocol not in SECURITY_PROTOCOLS:
            reason = f"Expected NAME:PROTOCOL pairs with one of {', '.join(SECURITY_PROTOCOLS)}"
            raise ConfigError.of_value(key, entry, reason)
        protocols[name.upper()] = protocol
    return protocols


def parse_endpoints(key: str, entries: Iterable[str], protocols: Mapping[str, str]) -> tuple[Endpoint, ...]:
    endpoints = tuple(_parse_endpoint(key, entry, protocols) for entry in entries)
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError.of_value(key, ",".join(map(str, endpoints)), "Each listener must have a different name")
    return endpoints


def _parse_endpoint(key: str, entry: str, protocols: Mapping[str, str]) -> Endpoint:
    match = _ENDPOINT.fullmatch(entry)
    if match is not None and int(match["port"]) > MAX_PORT:
        raise ConfigError.of_value(key, entry, f"there is no port {match['port']}, {PORTS_END}")
    if match is None:
        raise ConfigError.of_value(key, entry, "Expected NAME://HOST:PORT, for example PLAINTEXT://localhost:9092")
    name = match["name"].upper()
    if name not in protocols:
        reason = f"No security protocol is defined for listener {name}; add it to listener.security.protocol.map"
        raise ConfigError.of_value(key, entry, reason)
    return Endpoint(name, match["ip6"] or match["host"] or "", int(match["port"]), protocols[name])


def has_sasl(security_protocol: str) -> bool:
    return security_protocol.startswith("SASL_")


def check_ports(endpoints: Iterable[Endpoint]) -> None:
    """Two listeners cannot share a port, unless they are on different addresses."""
    used: dict[tuple[str, int], Endpoint] = {}
    for endpoint in endpoints:
        place = ("" if endpoint.is_any_address else endpoint.host, endpoint.port)
        if endpoint.port and place in used:
            raise ConfigError.of_value("listeners", endpoint, f"Port {endpoint.port} is used by {used[place]} too")
        used[place] = endpoint


def advertise(
    listening: Iterable[Endpoint], advertised: Iterable[Endpoint] | None, ports: Mapping[str, int], host_name: str
) -> tuple[Endpoint, ...]:
    """The addresses that clients connect to. The bound port replaces a port 0, and `host_name` the address of a
    listener on every address.
    """
    return tuple(
        endpoint._replace(
            host=host_name if endpoint.is_any_address else endpoint.host,
            port=endpoint.port or ports[endpoint.name],
        )
        for endpoint in (listening if advertised is None else advertised)
    )
