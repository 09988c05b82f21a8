"""The connections to the other brokers: opened when first needed, shared, and closed when a broker is another one.

Rules:
- Requests to one broker share a connection per channel, so a slow request delays those of its own channel alone. Who
  needs a connection alone, as a replica fetcher does, opens one.
- Connections to one broker are opened one after the other. After a failed attempt nobody tries again before a pause has
  passed; until then every request fails at once. So a broker that is away costs one attempt per pause, whoever asks.
- A broker that registered anew, with another epoch or address, is another broker: the connections to its former self
  end, and the pause with them.
- Nothing is sent twice here. Who asks knows whether a request may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from penstock.broker.peers.asking import AnswerLostError
from penstock.broker.peers.peer import Connect, Link, Peer, PeerUnavailableError, ask_versions
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.core.listeners import Endpoint
from penstock.protocol.message import Message

__all__ = ["BackOff", "Peer", "PeerUnavailableError", "Peers"]

logger = logging.getLogger(__name__)

# From the first packet to the known versions. A broker on the same network needs milliseconds; one that replays its
# logs accepts connections late.
_OPENING_TIMEOUT_S = 10.0
# Kafka's request.timeout.ms.
_SILENCE_S = 30.0
SHARED = "shared"


class BackOff(NamedTuple):
    """Kafka's reconnect.backoff.ms and reconnect.backoff.max.ms."""

    first_s: float = 0.05
    longest_s: float = 1.0
    spread: float = 0.2  # of each pause, so that brokers do not come back in step


KAFKA_BACK_OFF = BackOff()


class _Node:
    """What is open to one broker, and when it may be tried again."""

    __slots__ = ("opening", "own", "pause_s", "retry_at", "shared", "turn", "was_connected")

    def __init__(self) -> None:
        self.shared: dict[str, Peer] = {}  # by channel, which are a few words of ours
        self.opening: dict[str, asyncio.Task[Peer]] = {}
        self.own: list[Peer] = []
        self.turn = asyncio.Lock()
        self.retry_at = 0.0
        self.pause_s = 0.0
        self.was_connected = False


class Peers:
    def __init__(
        self,
        node_id: int,
        find: Callable[[int], Endpoint | None],
        connect: Connect,
        chance: Random,
        back_off: BackOff = KAFKA_BACK_OFF,
    ) -> None:
        """`find` gives the address of a broker on the inter-broker listener, in the image of the moment."""
        self._node_id = node_id
        self._find = find
        self._connect = connect
        self._chance = chance
        self._back_off = back_off
        self._nodes: dict[int, _Node] = {}
        self._lost: list[Callable[[int], None]] = []
        self._ended: list[Callable[[int], None]] = []
        self._connected: list[Callable[[int], None]] = []
        self._closing: dict[asyncio.Task[None], None] = {}
        self._is_closed = False

    # ------------------------------------------------------------------------------------ asking

    async def ask(self, node_id: int, request: Message, *, timeout_s: float, channel: str = SHARED) -> Any:
        """The response, an object of `request.RESPONSE`, asked for in the highest version that both brokers know.

        Raises PeerUnavailableError when there is no such broker, no connection, or no answer in time. The last is
        AnswerLostError: the request may have been carried out even so.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        peer = await self._shared(node_id, channel, deadline)
        remaining_s = deadline - loop.time()
        if remaining_s <= 0:  # a request that times out ends the connection, which others use
            raise PeerUnavailableError(f"broker {node_id} could not be reached in time")
        # Those who share the connection must not suffer from the one that waits least, so the request goes on without
        # its caller. Silence that lasts longer than any answer takes ends the connection.
        asked = asyncio.ensure_future(peer.request(request, max(remaining_s, _SILENCE_S)))
        asked.add_done_callback(_fetch_error)
        try:
            async with asyncio.timeout(remaining_s):
                return await asyncio.shield(asked)
        except TimeoutError as error:
            raise AnswerLostError(f"broker {node_id} did not answer within {timeout_s:g} s") from error

    async def open(self, node_id: int, name: str) -> Peer:
        """A connection of its own, which its owner closes. `name` shows in the client id. Raises
        PeerUnavailableError."""
        peer = await self._open(node_id, name)
        node = self._nodes.setdefault(node_id, _Node())
        node.own = [each for each in node.own if each.is_open]
        node.own.append(peer)
        return peer

    def on_lost(self, listener: Callable[[int], None]) -> None:
        """Calls `listener(node_id)` when an open connection to that broker was ended by the other side or the network,
        or a new connection was refused after there had been one. Whether the broker is dead is not said by that. A
        refusal alone is not told: a broker that starts is registered before it listens."""
        self._lost.append(listener)

    def on_ended(self, listener: Callable[[int], None]) -> None:
        """The same without connections that fell silent: a process that dies leaves a kernel behind that says so.
        A machine that loses power does not: the end of its session tells of it."""
        self._ended.append(listener)

    def on_connected(self, listener: Callable[[int], None]) -> None:
        """Calls `listener(node_id)` when a connection to that broker was opened, and the broker has answered on it."""
        self._connected.append(listener)

    def is_connected(self, node_id: int) -> bool:
        node = self._nodes.get(node_id)
        return node is not None and any(peer.is_open for peer in (*node.shared.values(), *node.own))

    # ------------------------------------------------------------------------------------ the image, and the end

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        """Ends the connections to brokers that are gone or have registered anew."""
        for node_id in list(self._nodes):
            before, after = old.brokers.get(node_id), new.brokers.get(node_id)
            if before is None or after is None or not _is_same(before, after):
                self._drop(self._nodes.pop(node_id))

    async def close(self) -> None:
        """Ends everything at once: whoever waits for an answer gets PeerUnavailableError."""
        self._is_closed = True
        nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            self._drop(node)
        while self._closing:
            await asyncio.wait(list(self._closing))

    def _drop(self, node: _Node) -> None:
        for task in node.opening.values():
            task.cancel()
        for peer in (*node.shared.values(), *node.own):
            closing = asyncio.ensure_future(peer.close())
            self._closing[closing] = None
            closing.add_done_callback(self._closing.pop)

    # ------------------------------------------------------------------------------------ opening

    async def _shared(self, node_id: int, channel: str, deadline: float) -> Peer:
        node = self._nodes.setdefault(node_id, _Node())
        peer = node.shared.get(channel)
        if peer is not None and peer.is_open and peer.endpoint == self._find(node_id):
            return peer
        task = node.opening.get(channel)
        if task is None:
            task = asyncio.ensure_future(self._open_shared(node_id, node, channel))
            node.opening[channel] = task
            task.add_done_callback(lambda done: _opened(node, channel, done))
        # The attempt goes on when one of those who wait for it gives up.
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise PeerUnavailableError(f"broker {node_id} could not be reached in time") from error
        except asyncio.CancelledError:
            if task.cancelled():  # by `_drop`, not our caller
                raise PeerUnavailableError(f"broker {node_id} is gone or registered anew") from None
            raise

    async def _open_shared(self, node_id: int, node: _Node, channel: str) -> Peer:
        peer = await self._open(node_id, channel)
        former = node.shared.pop(channel, None)
        node.shared[channel] = peer
        if former is not None:
            await former.close()
        return peer

    async def _open(self, node_id: int, name: str) -> Peer:
        node = self._nodes.setdefault(node_id, _Node())
        async with node.turn:
            endpoint = self._endpoint(node_id)
            loop = asyncio.get_running_loop()
            if loop.time() < node.retry_at:
                raise PeerUnavailableError(f"broker {node_id} could not be reached a moment ago")
            try:
                peer = await self._connect_to(node_id, node, endpoint, name)
            except (TimeoutError, OSError) as error:
                self._count_failure(node, loop.time())
                if node.was_connected and isinstance(error, ConnectionRefusedError):
                    self._tell_lost(node_id, node)
                raise PeerUnavailableError(f"broker {node_id} cannot be reached at {endpoint}: {error}") from error
            node.pause_s, node.retry_at = 0.0, 0.0
        if self._is_closed or self._nodes.get(node_id) is not node:  # dropped meanwhile
            await peer.close()
            raise PeerUnavailableError(f"broker {node_id} is gone or registered anew")
        _tell(self._connected, node_id)
        return peer

    def _endpoint(self, node_id: int) -> Endpoint:
        if self._is_closed:
            raise PeerUnavailableError("this broker is closing")
        endpoint = self._find(node_id)
        if endpoint is None:
            raise PeerUnavailableError(f"broker {node_id} is not registered with the inter-broker listener")
        return endpoint

    async def _connect_to(self, node_id: int, node: _Node, endpoint: Endpoint, name: str) -> Peer:
        async with asyncio.timeout(_OPENING_TIMEOUT_S):
            link = await self._connect(endpoint, f"broker-{self._node_id}-{name}")
            node.was_connected = True
            link.on_lost(lambda: self._tell_lost(node_id, node, is_silent=link.fell_silent))
            try:
                served = await ask_versions(link, _OPENING_TIMEOUT_S)
            except BaseException:
                await _close_quietly(link)
                raise
        return Peer(node_id, endpoint, link, served)

    def _count_failure(self, node: _Node, now: float) -> None:
        back_off = self._back_off
        node.pause_s = min(back_off.longest_s, max(back_off.first_s, node.pause_s * 2))
        node.retry_at = now + node.pause_s * (1 + back_off.spread * self._chance.uniform(-1, 1))

    def _tell_lost(self, node_id: int, node: _Node, *, is_silent: bool = False) -> None:
        if self._nodes.get(node_id) is node:  # else it was lost by a former self of the broker
            _tell(self._lost, node_id)
            if not is_silent:
                _tell(self._ended, node_id)


def _tell(listeners: list[Callable[[int], None]], node_id: int) -> None:
    for listener in listeners:
        try:
            listener(node_id)
        except Exception:  # the others must hear of it
            logger.exception("a listener of connections failed")


def _is_same(before: BrokerRegistration, after: BrokerRegistration) -> bool:
    return before.epoch == after.epoch and before.endpoints == after.endpoints


def _opened(node: _Node, channel: str, task: asyncio.Task[Peer]) -> None:
    if node.opening.get(channel) is task:
        del node.opening[channel]
    _fetch_error(task)


def _fetch_error(task: asyncio.Task[Any]) -> None:
    """Those who waited have seen it; all of them may have given up."""
    if not task.cancelled():
        task.exception()


async def _close_quietly(link: Link) -> None:
    try:
        await link.close()
    except OSError as error:
        logger.debug("closing a connection that failed: %s", error)
