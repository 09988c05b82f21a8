"""Where brokers are, as people write it."""

from __future__ import annotations

from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
DEFAULT_PORT = 9092


def parse_servers(text: str) -> list[Address]:
    """`host`, `host:port`, `[::1]:9092`, `PLAINTEXT://host:port`, comma-separated. ValueError names the part that is
    none of these."""
    servers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        address = part.partition("://")[2] or part
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):
            host, port = address, str(DEFAULT_PORT)
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not the address of a broker")
        servers.append((host.strip("[]"), int(port)))
    return servers
