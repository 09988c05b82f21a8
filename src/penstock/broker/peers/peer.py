"""One connection to another broker, with the versions that the other broker serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from penstock.broker.peers.peer_requests import AnswerLostError, PeerUnavailableError
from penstock.client.connection import versions
from penstock.client.connection.asyncio_connection import take_steps
from penstock.client.connection.versions import UnservedApiError, Versions
from penstock.core.listeners import Endpoint
from penstock.protocol.errors import ApiError
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["SOFTWARE", "Connect", "Link", "Peer", "PeerUnavailableError", "ask_versions"]

SOFTWARE = "penstock-broker"


class Link(Protocol):
    """A connection for requests, several at a time. `client.connection.Connection` is a Link.

    `request` raises TimeoutError or ConnectionError when no answer comes. `on_lost` takes the one listener, which is
    called once when the other side or the network ends the connection; a `close` on this side does not call it.
    `fell_silent` then shows that the network was the cause: nothing came from the other side any more.
    """

    @property
    def is_open(self) -> bool: ...

    @property
    def fell_silent(self) -> bool: ...

    def on_lost(self, listener: Callable[[], None]) -> None: ...

    async def request(self, message: Message, version: int, *, timeout_s: float | None) -> Any: ...

    async def close(self) -> None: ...


Connect = Callable[[Endpoint, str], Awaitable[Link]]  # endpoint, client id; raises OSError


class Peer:
    """Any number of requests may be outstanding; the other broker answers them in order."""

    def __init__(self, node_id: int, endpoint: Endpoint, link: Link, served: ApiVersionsResponse) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self._link = link
        self._versions = Versions(served)

    @property
    def is_open(self) -> bool:
        return self._link.is_open

    def version_of(self, request: type[Message]) -> int:
        """The highest version that both brokers know. Raises PeerUnavailableError when there is none."""
        try:
            return self._versions.choose(request)
        except UnservedApiError as error:
            raise PeerUnavailableError(f"broker {self.node_id}: {error.message}") from error

    async def request(self, message: Message, timeout_s: float) -> Any:
        """The response, an object of `message.RESPONSE`. Without an answer in time the connection ends, and `request`
        raises AnswerLostError.
        """
        version = self.version_of(type(message))
        try:
            return await self._link.request(message, version, timeout_s=timeout_s)
        except (TimeoutError, OSError) as error:
            raise AnswerLostError(f"broker {self.node_id}: {error}") from error

    async def close(self) -> None:
        await self._link.close()


def versions_request() -> ApiVersionsRequest:
    return versions.versions_request(SOFTWARE)


async def ask_versions(link: Link, timeout_s: float) -> ApiVersionsResponse:
    """The versions that the other broker serves. Raises TimeoutError or OSError."""

    def ask(message: Message, version: int) -> Awaitable[Any]:
        return link.request(message, version, timeout_s=timeout_s)

    try:
        return await take_steps(versions.ask_versions(SOFTWARE), ask)
    except ApiError as error:
        raise ConnectionError(f"the versions were refused with error {error.code}: {error.message}") from error
