"""A single broker whose clients need TLS and a login: its settings, from those that it would have without."""

from __future__ import annotations

import datetime
import re
import socket
from collections.abc import Mapping
from pathlib import Path

from penstock.securing.places import first_data_directory, security_directory
from penstock.securing.setup import LISTENER, BrokerAddress, SecureSetup, SecureSetupError
from penstock.server.stores import ADOPTED_FILE, METADATA_FILE

_ADDRESS = re.compile(r"(?:[^:/\s]+://)?(?:\[(?P<ip6>[^\]]*)\]|(?P<host>[^:]*)):(?P<port>[0-9]+)")
_DEFAULT_LISTENER = ":9092"
_ANY_PORT = "0"


def secure_single(properties: Mapping[str, str]) -> tuple[SecureSetup, dict[str, str]]:
    """Makes what is missing, and returns it with the broker's settings. What `properties` say wins, but for the
    listener, which keeps its address alone. Raises SecureSetupError.
    """
    if properties.get("zookeeper.connect"):
        raise SecureSetupError(
            "a broker of a cluster is secured by settings of its own, as `Turn security on in a running cluster` in "
            "docs/guides/security.md tells; --insecure starts it without"
        )
    setup = SecureSetup(Path(security_directory(properties)))
    data = Path(first_data_directory(properties))
    if not setup.is_there and any((data / name).exists() for name in (METADATA_FILE, ADOPTED_FILE)):
        raise SecureSetupError(
            f"{data} is that of a broker that is not secure, so that nobody could log in: take another directory, or "
            "see `Turn security on in a running cluster` in docs/guides/security.md"
        )
    node_id = int(properties.get("node.id") or properties.get("broker.id") or 1)
    host, port = _listening(properties)
    names = (host,) if host else (socket.gethostname(), socket.getfqdn())
    hosts = (*names, *_advertised(properties))
    servers = "" if port == _ANY_PORT else f"{host or 'localhost'}:{port}"
    setup.prepare([BrokerAddress(node_id, hosts)], datetime.datetime.now(datetime.UTC), servers)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return setup, {**setup.broker_properties(node_id), **properties, "listeners": f"{LISTENER}://{address}"}


def _listening(properties: Mapping[str, str]) -> tuple[str, str]:
    listeners = properties.get("listeners") or _DEFAULT_LISTENER
    match = None if "," in listeners else _ADDRESS.fullmatch(listeners.strip())
    if match is None:
        raise SecureSetupError(f"listeners={listeners}: a secure start has one listener, HOST:PORT")
    host = match["ip6"] or match["host"] or ""
    return "" if host in ("0.0.0.0", "::") else host, match["port"]  # noqa: S104 - recognised, not bound


def _advertised(properties: Mapping[str, str]) -> list[str]:
    found = (_ADDRESS.fullmatch(part.strip()) for part in properties.get("advertised.listeners", "").split(",") if part)
    return [match["ip6"] or match["host"] for match in found if match is not None and (match["ip6"] or match["host"])]
