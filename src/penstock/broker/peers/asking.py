"""How the parts of a broker ask other brokers: `Peers.ask`, or nothing on a broker that has no others.

A broker that is alone loads this module of the package, and no other.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.protocol.message import Message


class PeerUnavailableError(Exception):
    """The other broker is not known, cannot be reached, did not answer in time, or does not serve the request."""


class AnswerLostError(PeerUnavailableError):
    """The request was sent, and no answer came: it may have been carried out."""


class Ask(Protocol):
    """The response, an object of `request.RESPONSE`. Raises PeerUnavailableError. Requests of one channel are answered
    in order, so those that may wait long have a channel of their own.
    """

    async def __call__(self, node_id: int, request: Message, *, timeout_s: float, channel: str) -> Any: ...


async def no_peers(node_id: int, request: Message, *, timeout_s: float, channel: str) -> Any:
    """Of a broker that is alone."""
    raise PeerUnavailableError(f"broker {node_id} cannot be asked: this broker has no others")
