"""Brokers that may be dead: a connection to them has ended for an unknown reason.

Clients lose their connections at the same moment and ask at once for the new leader. An answer with the old leader
would send them to a closed port, and a client with an answer does not ask again soon (librdkafka: after a second). So:

- An answer about leaders waits for a new image: mostly the broker's death is known within 50 ms. On a busy machine it
  takes longer, and an answer that gives up too early makes the client wait for its next question on top of that.
- After that time an answer does not name a suspected leader: LEADER_NOT_AVAILABLE.

A connection that falls silent is no suspicion: a dead process leaves a kernel behind, which ends its connections. A
machine without power does not, and answers name it as leader until its session ends. But a network that is cut between
two brokers would otherwise hide a leader that all clients reach, for as long as a suspicion lasts and once for each of
the connections.

A suspicion ends with a sign of life that was requested after the loss, with a new connection, with an image in which
the broker is gone or registered anew, or by itself. So the next question clears a broker that merely closed a
connection which was idle for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import NamedTuple

from penstock.broker.peers.peers import Peers
from penstock.cluster.decisions.leadership import can_take_over
from penstock.cluster.image import MetadataImage

# The time that answers wait. Other answers on the same connection wait behind them, so the time has a limit.
_PATIENCE_S = 2.0
# The pause between attempts to find out that the broker lives.
_RETRY_S = 0.1
# By then a dead broker is out of the image; the store's session decides about a broker that is cut off.
_LONGEST_S = 3.0


class _Suspicion(NamedTuple):
    end: asyncio.TimerHandle
    loss: int  # the number of the last loss


class Suspects:
    def __init__(self, peers: Peers, image: Callable[[], MetadataImage], changed: Callable[[], None]) -> None:
        """`changed` is called when a broker comes under suspicion."""
        self._image = image
        self._changed = changed
        self.losses = 0  # lost connections so far, of all brokers
        self._suspicions: dict[int, _Suspicion] = {}
        self._patience_ends = 0.0
        self._settled = asyncio.Event()  # set while no broker is suspected
        self._settled.set()
        peers.on_ended(self._suspect)
        peers.on_connected(self._clear)

    def __len__(self) -> int:
        return len(self._suspicions)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._suspicions

    @property
    def is_worth_waiting(self) -> bool:
        return bool(self._suspicions) and asyncio.get_running_loop().time() < self._patience_ends

    async def settle(self) -> None:
        """Returns when no broker is suspected, the time is over, or another sign of life is due."""
        left_s = self._patience_ends - asyncio.get_running_loop().time()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(left_s, _RETRY_S)):
                await self._settled.wait()

    def hear_sign(self, node_id: int, *, after: int) -> None:
        """The broker has answered a request that was sent when there had been `after` losses. A later loss may be its
        death. The suspects count losses because a clock may stand still between a request and a loss.
        """
        suspicion = self._suspicions.get(node_id)
        if suspicion is not None and suspicion.loss <= after:
            self._clear(node_id)

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        for node_id in list(self._suspicions):
            before, after = old.brokers.get(node_id), new.brokers.get(node_id)
            if before is None or after is None or before.epoch != after.epoch:
                self._clear(node_id)

    def close(self) -> None:
        for node_id in list(self._suspicions):
            self._clear(node_id)

    def _suspect(self, node_id: int) -> None:
        self.losses += 1
        suspicion = self._suspicions.get(node_id)
        if suspicion is not None:
            self._suspicions[node_id] = suspicion._replace(loss=self.losses)
        # No wait is needed where the image showed the broker's death before an attempt to reach it failed, or where the
        # broker stops: a stopping broker has handed over its leaderships, and closes its port by itself.
        elif can_take_over(node_id, self._image().brokers):
            loop = asyncio.get_running_loop()
            end = loop.call_later(_LONGEST_S, self._clear, node_id)
            self._suspicions[node_id] = _Suspicion(end, self.losses)
            self._patience_ends = loop.time() + _PATIENCE_S
            self._settled.clear()
            self._changed()

    def _clear(self, node_id: int) -> None:
        suspicion = self._suspicions.pop(node_id, None)
        if suspicion is not None:
            suspicion.end.cancel()
        if not self._suspicions:
            self._settled.set()
