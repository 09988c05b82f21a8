"""Connections to the other brokers: opened at the first use, shared, and closed when a broker registers anew.

Rules:
- Requests to one broker share a connection per channel, so a slow request delays those of its own channel alone. A
  caller that needs a connection alone, such as a replica fetcher, opens one.
- Connections to one broker are opened one after the other. After a failed attempt no caller tries again before a pause
  has passed; until then every request fails at once. So a broker that is away costs one attempt per pause, whoever
  asks.
- A broker that registered anew, with another epoch or address, is another broker: the connections to its former
  registration end, and the pause with them.
- Nothing is sent twice here. The caller knows whether a request may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from penstock.broker.peers.peer import Connect, Link, Peer, PeerUnavailableError, ask_versions
from penstock.broker.peers.peer_requests import AnswerLostError
from penstock.cluster.image import BrokerRegistration, MetadataImage
from penstock.core.listeners import Endpoint
from penstock.core.time.backoff import Backoff, Chance, Pauses
from penstock.protocol.message import Message

__all__ = ["Peer", "PeerUnavailableError", "Peers"]

logger = logging.getLogger(__name__)

# The time from the first packet to the known versions. A broker on the same network needs milliseconds; a broker that
# replays its logs accepts connections late.
_OPENING_TIMEOUT_S = 10.0
# Kafka's request.timeout.ms.
_SILENCE_S = 30.0
SHARED = "shared"


# Kafka's reconnect.backoff.ms and reconnect.backoff.max.ms.
KAFKAS_BACKOFF = Backoff(0.05, 1.0)


class _Node:
    """The open connections to one broker, and the time of the next attempt."""

    __slots__ = ("opening", "own", "pauses", "retry_at", "shared", "turn", "was_connected")

    def __init__(self, pauses: Pauses) -> None:
        self.shared: dict[str, Peer] = {}  # by channel; the channels are a few words of ours
        self.opening: dict[str, asyncio.Task[Peer]] = {}
        self.own: list[Peer] = []
        self.turn = asyncio.Lock()
        self.retry_at = 0.0
        self.pauses = pauses
        self.was_connected = False


class Peers:
    def __init__(
        self,
        node_id: int,
        find: Callable[[int], Endpoint | None],
        connect: Connect,
        chance: Chance,
        backoff: Backoff = KAFKAS_BACKOFF,
    ) -> None:
        """`find` gives the address of a broker on the inter-broker listener, in the current image."""
        self._node_id = node_id
        self._find = find
        self._connect = connect
        self._chance = chance
        self._backoff = backoff
        self._nodes: dict[int, _Node] = {}
        self._lost: list[Callable[[int], None]] = []
        self._ended: list[Callable[[int], None]] = []
        self._connected: list[Callable[[int], None]] = []
        self._closing: dict[asyncio.Task[None], None] = {}
        self._is_closed = False

    # ------------------------------------------------------------------------------------ asking

    async def ask(self, node_id: int, request: Message, *, timeout_s: float, channel: str = SHARED) -> Any:
        """The response, an object of `request.RESPONSE`, in the highest version that both brokers know.

        Raises PeerUnavailableError when there is no such broker, no connection, or no answer in time. The last is
        AnswerLostError: the other broker may have performed the request even so.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        peer = await self._shared(node_id, channel, deadline)
        remaining_s = deadline - loop.time()
        if remaining_s <= 0:  # a request that times out ends the connection, which other callers use
            raise PeerUnavailableError(f"broker {node_id} could not be reached in time")
        # The callers of a shared connection must not suffer from the shortest timeout among them, so the request goes
        # on without its caller. A silence longer than any answer takes ends the connection.
        asked = asyncio.ensure_future(peer.request(request, max(remaining_s, _SILENCE_S)))
        asked.add_done_callback(_fetch_error)
        try:
            async with asyncio.timeout(remaining_s):
                return await asyncio.shield(asked)
        except TimeoutError as error:
            raise AnswerLostError(f"broker {node_id} did not answer within {timeout_s:g} s") from error

    async def open(self, node_id: int, name: str) -> Peer:
        """Opens a connection for one owner, which closes it. `name` shows in the client id. Raises
        PeerUnavailableError.
        """
        peer = await self._open(node_id, name)
        node = self._node(node_id)
        node.own = [each for each in node.own if each.is_open]
        node.own.append(peer)
        return peer

    def on_lost(self, listener: Callable[[int], None]) -> None:
        """Calls `listener(node_id)` when the other side or the network ended an open connection to that broker, or when
        a new connection was refused after an earlier one existed. The call does not mean that the broker is dead. A
        refusal alone makes no call: a starting broker is registered before it listens.
        """
        self._lost.append(listener)

    def on_ended(self, listener: Callable[[int], None]) -> None:
        """The same without connections that fell silent: a dead process leaves a kernel behind that reports the end. A
        machine without power does not: the end of its session shows that.
        """
        self._ended.append(listener)

    def on_connected(self, listener: Callable[[int], None]) -> None:
        """Calls `listener(node_id)` when a connection to that broker was opened and the broker has answered on it."""
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
        """Ends everything at once: callers that wait for an answer get PeerUnavailableError."""
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
        node = self._node(node_id)
        peer = node.shared.get(channel)
        if peer is not None and peer.is_open and peer.endpoint == self._find(node_id):
            return peer
        task = node.opening.get(channel)
        if task is None:
            task = asyncio.ensure_future(self._open_shared(node_id, node, channel))
            node.opening[channel] = task
            task.add_done_callback(lambda done: _opened(node, channel, done))
        # The attempt goes on when one of its waiting callers gives up.
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(task)
        except TimeoutError as error:
            raise PeerUnavailableError(f"broker {node_id} could not be reached in time") from error
        except asyncio.CancelledError:
            if task.cancelled():  # by `_drop`, not by our caller
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
        node = self._node(node_id)
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
            node.retry_at = 0.0
            node.pauses.reset()
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

    def _node(self, node_id: int) -> _Node:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node(Pauses(self._backoff, self._chance))
        return node

    def _count_failure(self, node: _Node, now: float) -> None:
        node.retry_at = now + node.pauses.next_s()

    def _tell_lost(self, node_id: int, node: _Node, *, is_silent: bool = False) -> None:
        if self._nodes.get(node_id) is node:  # otherwise the connection belonged to a former registration of the broker
            _tell(self._lost, node_id)
            if not is_silent:
                _tell(self._ended, node_id)


def _tell(listeners: list[Callable[[int], None]], node_id: int) -> None:
    for listener in listeners:
        try:
            listener(node_id)
        except Exception:  # the other listeners must be called
            logger.exception("a listener of connections failed")


def _is_same(before: BrokerRegistration, after: BrokerRegistration) -> bool:
    return before.epoch == after.epoch and before.endpoints == after.endpoints


def _opened(node: _Node, channel: str, task: asyncio.Task[Peer]) -> None:
    if node.opening.get(channel) is task:
        del node.opening[channel]
    _fetch_error(task)


def _fetch_error(task: asyncio.Task[Any]) -> None:
    """The waiting callers have seen the error; all of them may have given up."""
    if not task.cancelled():
        task.exception()


async def _close_quietly(link: Link) -> None:
    try:
        await link.close()
    except OSError as error:
        logger.debug("closing a connection that failed: %s", error)
