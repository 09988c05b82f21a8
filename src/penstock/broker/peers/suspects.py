"""Brokers that may be dead: a connection to them has ended, and nobody knows yet why.

Clients lose their connections at the same moment and ask at once who leads now. Whoever named the old leader would send
them to a closed port, and a client that has got an answer does not ask again soon (librdkafka: after a second). So:

- An answer about leaders waits for a new image: mostly the broker's death is known within 50 ms. On a busy machine it
  takes longer, and whoever gives up too early makes the client wait for its next question on top of that.
- After that time a suspected leader is not named: LEADER_NOT_AVAILABLE.

A suspicion ends with a connection that works, with an image in which the broker is gone or another one, or by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.broker.peers.peers import Peers
from penstock.cluster.decisions.leadership import can_take_over
from penstock.cluster.image import MetadataImage

# How long answers wait. Other answers on the same connection wait behind them, so it is not for ever.
_PATIENCE_S = 2.0
# Between attempts to find out by a new connection that the broker lives.
_RETRY_S = 0.1
# By then a dead broker is out of the image; one that is cut off is left to the store's session.
_LONGEST_S = 3.0


class Suspects:
    def __init__(self, peers: Peers, image: Callable[[], MetadataImage], changed: Callable[[], None]) -> None:
        """`changed` is called when a broker comes under suspicion."""
        self._image = image
        self._changed = changed
        self._ends: dict[int, asyncio.TimerHandle] = {}
        self._patience_ends = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        peers.on_lost(self._suspect)
        peers.on_connected(self._clear)

    def __len__(self) -> int:
        return len(self._ends)

    def __contains__(self, node_id: object) -> bool:
        return node_id in self._ends

    @property
    def is_worth_waiting(self) -> bool:
        return bool(self._ends) and asyncio.get_running_loop().time() < self._patience_ends

    async def settle(self) -> None:
        """Returns when nobody is suspected, the time to wait is over, or it is time to try another connection."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        left_s = self._patience_ends - asyncio.get_running_loop().time()
        await asyncio.wait([waiting], timeout=min(left_s, _RETRY_S))
        if not waiting.done():
            self._waiting.remove(waiting)

    def follow(self, old: MetadataImage, new: MetadataImage) -> None:
        for node_id in list(self._ends):
            before, after = old.brokers.get(node_id), new.brokers.get(node_id)
            if before is None or after is None or before.epoch != after.epoch:
                self._clear(node_id)

    def close(self) -> None:
        for node_id in list(self._ends):
            self._clear(node_id)

    def _suspect(self, node_id: int) -> None:
        # Nothing is left to wait for where the image has told of the broker's death before an attempt to reach it
        # failed, or where the broker stops: it has handed over what it led, and closes its port by itself.
        if node_id not in self._ends and can_take_over(node_id, self._image().brokers):
            loop = asyncio.get_running_loop()
            self._ends[node_id] = loop.call_later(_LONGEST_S, self._clear, node_id)
            self._patience_ends = loop.time() + _PATIENCE_S
            self._changed()

    def _clear(self, node_id: int) -> None:
        end = self._ends.pop(node_id, None)
        if end is not None:
            end.cancel()
        if not self._ends:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                if not each.done():
                    each.set_result(None)
