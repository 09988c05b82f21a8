"""Requests to the current controller.

The image names the controller. The image may be outdated, and a controller may be away: a request that finds no
controller is sent again when the next image comes or a pause has passed, until its time is up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from penstock.broker.peers.peer_requests import AnswerLostError
from penstock.broker.peers.peers import SHARED, Peers, PeerUnavailableError
from penstock.client.sendings import Sendings
from penstock.cluster.image import NO_CONTROLLER, MetadataImage
from penstock.core.time.backoff import Backoff, Chance, Pauses
from penstock.protocol.message import Message

Result = TypeVar("Result")

_BACKOFF = Backoff(0.05, 1.0)
# Images follow the controller's answers within milliseconds.
_LEARNING_TIMEOUT_S = 5.0


class ControllerView(Protocol):
    """The controller as `Metadata` knows it."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_controller(self) -> bool: ...

    def subscribe(self, listener: Callable[[MetadataImage, MetadataImage], None]) -> Callable[[], None]: ...


class Controller:
    def __init__(self, node_id: int, peers: Peers, metadata: ControllerView, chance: Chance) -> None:
        self._node_id = node_id
        self._peers = peers
        self._metadata = metadata
        self._chance = chance
        self._waiting: list[asyncio.Future[None]] = []
        metadata.subscribe(lambda _old, _new: self._wake())

    @property
    def is_here(self) -> bool:
        """Whether this broker is the controller."""
        return self._metadata.is_controller

    async def ask(
        self,
        request: Message,
        accept: Callable[[Any], Awaitable[Result | None]],
        *,
        timeout_s: float,
        channel: str = SHARED,
        sendings: Sendings | None = None,
    ) -> Result | None:
        """The result of `accept` for the answer. `accept` returns None for an answer of a broker that is no controller,
        and another attempt follows.

        None when this broker has become the controller: the caller does the work itself. Raises PeerUnavailableError
        when the time is up. The controller may have performed the request even so, and more than once: `sendings`
        knows.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        pauses = Pauses(_BACKOFF, self._chance)
        reason = "there is no controller"
        while not self.is_here:
            image = self._metadata.image
            if image.controller_id not in (NO_CONTROLLER, self._node_id):
                try:
                    remaining_s = deadline - loop.time()
                    answer = await self._peers.ask(image.controller_id, request, timeout_s=remaining_s, channel=channel)
                    result = await accept(answer)
                    if result is not None:
                        return result
                    reason = f"broker {image.controller_id} is not the controller any more"
                except PeerUnavailableError as error:
                    reason = str(error)
                    if sendings is not None and isinstance(error, AnswerLostError):
                        sendings.lost()
            remaining_s = deadline - loop.time()
            if remaining_s <= 0:
                raise PeerUnavailableError(f"no answer of a controller within {timeout_s:g} s: {reason}")
            pause_s = pauses.next_s()
            if self._metadata.image is image:
                await self.next_image(min(pause_s, remaining_s))
        return None

    async def next_image(self, timeout_s: float) -> None:
        """Waits until the metadata has another image, up to a limit of time."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await asyncio.wait([waiting], timeout=timeout_s)
        if not waiting.done():
            self._waiting.remove(waiting)

    async def wait_until(self, is_known: Callable[[], bool], timeout_s: float = _LEARNING_TIMEOUT_S) -> None:
        """Checks each new image, up to a limit of time."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while not is_known() and loop.time() < deadline:
            await self.next_image(deadline - loop.time())

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
