"""Detects that another broker's process has died, long before that broker's session in the store expires.

A dead process leaves its kernel behind: the kernel resets its connections, and its port refuses new connections. The
controller keeps an idle connection to every registered broker, and every broker keeps a connection to the controller,
so they notice within milliseconds. A cut network or a paused process looks otherwise: nothing is reset, or nothing
answers. Rules:

- A broker is dead when this broker had a connection to it in its present epoch, some connection to it was lost, and a
  fresh attempt to connect is refused afterwards.
- An attempt that times out, finds no route or is accepted shows nothing; the session in the store decides then.
- A refusal without a former connection shows nothing either: a starting broker is registered before it listens.
- The other broker ends connections that are idle for too long. So this broker sends a request on the connection in
  time.
- The epoch is that of the watched registration. A broker that came back meanwhile has another epoch, so a wrong guess
  cannot hit it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import socket
from collections.abc import Awaitable, Callable

from penstock.broker.peers.peer import versions_request
from penstock.broker.peers.peers import Peer, Peers, PeerUnavailableError
from penstock.cluster.image import MetadataImage
from penstock.core.listeners import Endpoint
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.core.time.backoff import Backoff, Chance, Pauses
from penstock.protocol.errors import ApiError

logger = logging.getLogger(__name__)

# The pause between two attempts to watch an unreachable broker: a starting broker is registered before it listens.
_BACKOFF = Backoff(0.05, 0.5)
# The pause between probes of a broker's port after a lost connection. A dying process closes its sockets one after the
# other, so its port may accept for some milliseconds more.
_LOOKS_S = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
# A port on a live machine refuses within a round trip; later answers show nothing.
_PROBE_TIMEOUT_S = 1.0
# Kafka's request.timeout.ms: a broker that is silent for longer is paused or cut off.
_KEEP_ALIVE_TIMEOUT_S = 30.0
_WATCH = "watch"


class Probe(enum.Enum):
    """The result of a fresh attempt to connect."""

    REFUSED = enum.auto()
    ACCEPTED = enum.auto()
    UNKNOWN = enum.auto()


def is_dead(*, was_connected: bool, probe: Probe) -> bool:
    return was_connected and probe is Probe.REFUSED


def watched_brokers(image: MetadataImage, node_id: int) -> dict[int, int]:
    """The epochs of the brokers that `node_id` watches, by their ids: the controller, or all others if `node_id` is the
    controller. A stopping broker closes its port by itself, and has handed over its leaderships.
    """
    is_controller = image.controller_id == node_id
    return {
        each.node_id: each.epoch
        for each in image.brokers.values()
        if each.node_id != node_id and not each.is_stopping and (is_controller or each.node_id == image.controller_id)
    }


class FailureDetector:
    """Call `follow` with every image, the first one included."""

    def __init__(
        self,
        node_id: int,
        peers: Peers,
        find: Callable[[int], Endpoint | None],
        probe: Callable[[Endpoint], Awaitable[Probe]],
        report_dead: Callable[[int, int], Awaitable[object]],
        chance: Chance,
        keep_alive_s: float | None = None,
    ) -> None:
        """`report_dead(node_id, broker_epoch)` may raise ApiError; the detector reports the broker again after a pause.
        `keep_alive_s` is well below the time after which brokers end idle connections; None where they do not.
        """
        self._node_id = node_id
        self._peers = peers
        self._find = find
        self._probe = probe
        self._report_dead = report_dead
        self._chance = chance
        self._keep_alive_s = keep_alive_s
        self._watches: dict[int, _Watch] = {}
        peers.on_lost(self._lost)
        peers.on_connected(self._connected)

    def follow(self, image: MetadataImage) -> None:
        wanted = watched_brokers(image, self._node_id)
        for node_id, watch in list(self._watches.items()):
            if wanted.get(node_id) != watch.epoch:
                self._watches.pop(node_id).cancel()
        for node_id, epoch in wanted.items():
            if node_id not in self._watches:
                watch = self._watches[node_id] = _Watch(epoch)
                watch.task = asyncio.ensure_future(self._watch(node_id, watch))
                watch.task.add_done_callback(_log_failure)

    async def close(self) -> None:
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _lost(self, node_id: int) -> None:
        watch = self._watches.get(node_id)
        if watch is not None:
            watch.lost.set()

    def _connected(self, node_id: int) -> None:
        watch = self._watches.get(node_id)
        if watch is not None:
            watch.connected.set()

    async def _watch(self, node_id: int, watch: _Watch) -> None:
        peer: Peer | None = None
        pauses = Pauses(_BACKOFF, self._chance)
        try:
            while True:
                watch.lost.clear()
                watch.connected.clear()
                opened = await self._open(node_id, peer)
                if opened is None:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pauses.next_s()):
                            await watch.connected.wait()  # another caller has reached the broker
                else:
                    peer = opened
                    pauses.reset()
                    if peer.is_open:  # otherwise the connection was lost before the listener was set
                        await self._wait_until_lost(peer, watch)
                if peer is not None:
                    await self._look(node_id, watch.epoch)
        finally:
            if peer is not None:
                await peer.close()

    async def _wait_until_lost(self, peer: Peer, watch: _Watch) -> None:
        keeping = asyncio.ensure_future(self._keep_alive(peer, watch))
        try:
            await watch.lost.wait()
        finally:
            keeping.cancel()

    async def _keep_alive(self, peer: Peer, watch: _Watch) -> None:
        while self._keep_alive_s is not None:
            await asyncio.sleep(self._keep_alive_s)
            try:
                await peer.request(versions_request(), _KEEP_ALIVE_TIMEOUT_S)
            except PeerUnavailableError as error:
                logger.debug("broker %d gave no answer on the connection that watches it: %s", peer.node_id, error)
                watch.lost.set()  # a connection that this side ends is not reported as lost
                return

    async def _look(self, node_id: int, epoch: int) -> None:
        """Looks several times, before it tries a new connection: that may wait for other attempts, and for an
        answer.
        """
        for pause_s in _LOOKS_S:
            await asyncio.sleep(pause_s)
            endpoint = self._find(node_id)
            probe = Probe.UNKNOWN if endpoint is None else await self._probe(endpoint)
            if is_dead(was_connected=True, probe=probe):
                await self._report(node_id, epoch)
                return

    async def _open(self, node_id: int, peer: Peer | None) -> Peer | None:
        """The open connection; None when there is none and no attempt succeeds."""
        if peer is not None and peer.is_open:
            return peer
        try:
            return await self._peers.open(node_id, _WATCH)
        except PeerUnavailableError as error:
            logger.debug("broker %d cannot be watched: %s", node_id, error)
            return None

    async def _report(self, node_id: int, epoch: int) -> None:
        """Does not repeat a report: while the store is away the same broker is reported every moment."""
        watch = self._watches.get(node_id)
        level = logging.DEBUG if watch is not None and watch.is_reported else logging.WARNING
        if watch is not None:
            watch.is_reported = True
        logger.log(level, "broker %d with epoch %d is dead: its connections ended and its port refuses", node_id, epoch)
        try:
            await self._report_dead(node_id, epoch)
        except ApiError as error:
            logger.log(level, "the death of broker %d could not be recorded yet: %s", node_id, error.message)


class _Watch:
    __slots__ = ("connected", "epoch", "is_reported", "lost", "task")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_reported = False
        self.lost = asyncio.Event()
        self.connected = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("watching a broker failed", exc_info=task.exception())


async def probe_by_tcp(endpoint: Endpoint) -> Probe:
    """Makes one attempt for each address of the host; only the refusal of all addresses is a refusal."""
    loop = asyncio.get_running_loop()
    outcome = Probe.UNKNOWN
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            with failing_as_unknown():
                found = await loop.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
            for family, kind, protocol, _, address in found:
                with socket.socket(family, kind, protocol) as sock:
                    sock.setblocking(False)
                    with contextlib.suppress(ConnectionRefusedError):
                        await loop.sock_connect(sock, address)
                        return Probe.ACCEPTED
                outcome = Probe.REFUSED
    except (TimeoutError, OSError):
        return Probe.UNKNOWN
    return outcome
