"""The first answer of a cluster, for services that start before their brokers do, or with an address that is wrong.

The first try is short, so that an operator reads within two seconds what hinders the service. Later tries take longer
each, and each failure is told: a line every half minute in the end.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from penstock.client.addresses import Address
from penstock.client.connection import LoginRefusedError
from penstock.client.retries import SYSTEM_CHANCE
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

T = TypeVar("T")

# How long a try may take, and the next one waits for.
TRIES = Backoff(1.5, 30.0)


async def wait_for_contact(
    ask: Callable[[float], Awaitable[T]],
    servers: Sequence[Address],
    on_failure: Callable[[], None] = lambda: None,
) -> T:
    """What `ask` returns, which is given the seconds that it may take and raises OSError or ApiError. `on_failure` is
    called after each try in vain. Raises LoginRefusedError: asking again would not help.
    """
    loop = asyncio.get_running_loop()
    names = ",".join(f"{host}:{port}" for host, port in servers)
    tries = Pauses(TRIES, SYSTEM_CHANCE)
    while True:
        try_s = tries.next_s()
        next_at = loop.time() + try_s
        try:
            return await ask(try_s)
        except LoginRefusedError:
            raise
        except (OSError, ApiError) as error:
            extra = {"servers": names, "error": describe_failure(error), "hint": hint_for(error)}
            logger.warning("no broker answers yet", extra=extra)
        on_failure()
        await asyncio.sleep(max(0.0, next_at - loop.time()))


def describe_failure(error: Exception) -> str:
    """The reason without the wrapping of tries."""
    reason = error if error.__cause__ is None else error.__cause__
    strerror = reason.strerror if isinstance(reason, OSError) else None
    return strerror or str(reason) or type(reason).__name__


# By what the reason says: the reasons of several brokers come as one text.
_HINTS = (
    ("speaks HTTP", "give the port of a broker, 9092 as a rule"),
    ("asks for TLS", "give a --command-config with security.protocol=SSL or SASL_SSL, and ssl.truststore.location"),
    ("record layer", "the port does not speak TLS: give security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
    ("wrong version number", "the port does not speak TLS: give security.protocol=PLAINTEXT or SASL_PLAINTEXT"),
    ("certificate verify failed", "give ssl.truststore.location: the authority that signed the broker's certificate"),
    ("closed the connection", "it may ask for a login or for TLS: give a --command-config with security.protocol"),
    ("connection was lost", "it may ask for a login or for TLS: give a --command-config with security.protocol"),
    ("issuer gave no token", "check the issuer, and sasl.oauthbearer.token.endpoint.url"),
    ("refused", "is the broker up, and the port right?"),
)
_NAME_HINT = "the name does not resolve: check the spelling and the name service"
_HINT = "check bootstrap.servers, security.protocol and the network between"


def hint_for(error: Exception) -> str:
    """What an operator may do about it."""
    reason = describe_failure(error)
    if isinstance(error, socket.gaierror) or "Name or service not known" in reason or "name resolution" in reason:
        return _NAME_HINT
    for words, hint in _HINTS:
        if words.lower() in reason.lower():
            return hint
    return _HINT
