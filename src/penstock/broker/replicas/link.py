"""What replication needs of the way to another broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from penstock.protocol.message import Message


class Link(Protocol):
    """A connection of its own to one broker. A request that fails for any reason makes it useless."""

    async def request(self, message: Message, *, timeout_s: float) -> Any: ...

    async def close(self) -> None: ...


OpenLink = Callable[[int], Awaitable[Link]]
