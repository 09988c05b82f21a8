"""Brokers of the rounds that log in to each other, over TLS where the network is a real one.

Clients stay on the plain listener: what is struck here is all that brokers ask of each other, with handshakes, logins
and logins again on every connection that a fault costs.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

from penstock.security_setup.setup import ADMIN, BROKER, LISTENER, BrokerAddress, SecureSetup

PEERS = "PEERS"
# Brokers log in again every few seconds (KIP-368), so that faults meet that, too.
_LOGIN_MS = 3_000


def secure_peers(directory: Path, hosts: Mapping[int, str]) -> dict[int, dict[str, str]]:
    """The settings of each broker, for a listener that is called PEERS."""
    setup = SecureSetup(directory / "security")
    addresses = [BrokerAddress(node_id, (host,)) for node_id, host in hosts.items()]
    setup.prepare(addresses, datetime.datetime.now(datetime.UTC))
    return {node_id: _of_peers({**setup.broker_properties(node_id), **setup.store_properties()}) for node_id in hosts}


def _of_peers(properties: Mapping[str, str]) -> dict[str, str]:
    prefix, own = (f"listener.name.{name.lower()}." for name in (LISTENER, PEERS))
    settings = {key.replace(prefix, own): value for key, value in properties.items()}
    del settings["security.inter.broker.protocol"]  # the listener is named instead
    return {
        **settings,
        f"{own}connections.max.reauth.ms": str(_LOGIN_MS),
        "super.users": f"User:{ADMIN};User:{BROKER};User:ANONYMOUS",
    }
