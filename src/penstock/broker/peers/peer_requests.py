"""The interface for requests to other brokers: `Peers.ask`, or a refusal on a standalone broker.

A standalone broker loads this module of the package, and no other.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.protocol.message import Message


class PeerUnavailableError(Exception):
    """The other broker is unknown, unreachable, did not answer in time, or does not serve the request."""


class AnswerLostError(PeerUnavailableError):
    """The request was sent, and no answer came: the other broker may have performed it."""


class Ask(Protocol):
    """The response, an object of `request.RESPONSE`. Raises PeerUnavailableError. The other broker answers requests of
    one channel in order, so requests that may wait long have a channel of their own.
    """

    async def __call__(self, node_id: int, request: Message, *, timeout_s: float, channel: str) -> Any: ...


async def no_peers(node_id: int, request: Message, *, timeout_s: float, channel: str) -> Any:
    """The Ask of a standalone broker."""
    raise PeerUnavailableError(f"broker {node_id} cannot be asked: this broker has no others")
