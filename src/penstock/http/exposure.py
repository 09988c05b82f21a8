"""The rule for a listener's address: open on loopback alone. Any other address needs authentication, or an operator who
confirms the exposure.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Final

from penstock.core.config.types import ConfigError

logger = logging.getLogger(__name__)

DEFAULT_PORTS: Final = {
    "console": 8080,
    "registry": 8081,
    "rest": 8082,
    "connect": 8083,
    "streams": 8084,
    "metrics": 9644,
}


class ExposedError(ConfigError):
    """An open listener would be reachable from other machines."""


def is_loopback(address: str) -> bool:
    """Whether a system's address is loopback. An empty one, 0.0.0.0 and :: are every address of the machine."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def check_exposure(
    name: str, address: str, *, is_authenticated: bool, is_insecure_allowed: bool, is_encrypted: bool = False
) -> None:
    """Raises ExposedError. `address` is the resolved address of the host's name."""
    if is_loopback(address):
        return
    shown = address or "every address"
    if is_authenticated:
        if not is_encrypted:
            logger.warning("%s takes passwords and tokens in plain text on %s: give it TLS", name, shown)
        return
    if not is_insecure_allowed:
        raise ExposedError(
            f"{name} would be open to everybody who reaches {shown}: give it authentication, listen on 127.0.0.1, "
            "or say --insecure"
        )
    logger.warning("%s is open to everybody who reaches %s, as --insecure allows", name, shown)
