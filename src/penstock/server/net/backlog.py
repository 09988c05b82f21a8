"""Requests in memory over all connections: their bytes and their number, and whose turn it is when there is no room.

Rules:
- What counts is what has arrived: frames under assembly, whole frames that wait for the one before them, and large
  requests that are being served. A request that is read and answered in one turn never counts.
- When there is no room, a connection that holds something is not read any more. A connection that holds nothing is read
  as ever: a client with small requests does not notice what others do.
- Connections are read again in the order in which they had to stop.
- One of those that wait may always go on, beyond the bound, until its request is whole: else half requests could take
  all the room, and none would become whole.
- While there is no room, a connection that holds something and sends nothing for long is closed.
- Strangers have a backlog of their own. While it has no room, a stranger that holds more than a little is closed at
  once: each connection may be read once, and ten thousand of them would hold 2.5 GB.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from penstock.broker.session import Outcome
from penstock.core.metrics.counters import SocketMetrics
from penstock.server.net import limits

# Where `queued.max.request.bytes` sets no bound. Five of the largest requests that a broker takes by default, or a
# batch of 1 MiB from each of 500 producers; a broker's own memory is a few hundred megabytes besides.
DEFAULT_MAX_BYTES = 512 * 1024 * 1024
# How often it is looked for connections that hold room and do not use it. Whoever is seen twice so is closed.
_LOOK_S = 10.0


class Holder(Protocol):
    def abort(self) -> None: ...

    def pace_reading(self) -> None: ...


class _Holding(NamedTuple):
    requests: int
    size: int
    changed_in: int  # the round of looking


_NOTHING = _Holding(0, 0, 0)


class Backlog:
    def __init__(
        self,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_requests: int = 2**31 - 1,
        metrics: SocketMetrics | None = None,
        refused_above: int | None = None,
    ) -> None:
        """Whoever holds more than `refused_above` while there is no room is closed, and does not wait."""
        self.metrics = metrics or SocketMetrics()
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._refused_above = refused_above
        self.size = 0
        self.count = 0
        self._holdings: dict[Holder, _Holding] = {}
        self._waiting: dict[Holder, None] = {}  # in the order in which they stopped
        self._favoured: Holder | None = None  # it goes on although there is no room
        self._round = 0
        self._look: asyncio.TimerHandle | None = None
        self._is_resuming = False

    def limit(self, max_bytes: int, max_requests: int) -> None:
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._resume_soon()

    @property
    def is_full(self) -> bool:
        return self.size > self._max_bytes or self.count > self._max_requests

    def has_room_for(self, holder: Holder, count: int, size: int) -> bool:
        """Notes what a connection holds. Returns whether it may be read; if not, it is told when it may."""
        before = self._holdings.get(holder, _NOTHING)
        if (count, size) != (before.requests, before.size):
            self._change(holder, before, count, size)
        if not size or holder is self._favoured or not self.is_full:
            self._waiting.pop(holder, None)
            return True
        if self._favoured is None and not self._waiting:
            self._favoured = holder
            self._look_later()
            return True
        if self._refused_above is not None and size > self._refused_above:
            self.metrics.backlog_evictions += 1
            asyncio.get_running_loop().call_soon(holder.abort)  # which is in the middle of something
            return False
        if holder not in self._waiting:
            self._waiting[holder] = None
            self.metrics.backlog_pauses += 1
            self._look_later()
        return False

    def serve(self, size: int, served: asyncio.Future[Outcome] | None) -> None:
        """A large request that waits is held until it is answered."""
        if served is None or size <= limits.LARGE_REQUEST:
            return
        self.size += size
        self.count += 1
        served.add_done_callback(lambda _: self._served(size))

    def leave(self, holder: Holder) -> None:
        """May be called for one that holds nothing."""
        before = self._holdings.get(holder)
        if before is not None:
            self._waiting.pop(holder, None)
            self._change(holder, before, 0, 0)

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _served(self, size: int) -> None:
        self.size -= size
        self.count -= 1
        self._resume_soon()

    def _change(self, holder: Holder, before: _Holding, count: int, size: int) -> None:
        if size:
            self._holdings[holder] = _Holding(count, size, self._round)
        else:
            self._holdings.pop(holder, None)
        self.size += size - before.size
        self.count += count - before.requests
        if not size and holder is self._favoured:
            self._favoured = None
            self._resume_soon()
        elif size < before.size:
            self._resume_soon()

    def _resume_soon(self) -> None:
        if self._waiting and not self._is_resuming:
            self._is_resuming = True
            asyncio.get_running_loop().call_soon(self._resume)

    def _resume(self) -> None:
        self._is_resuming = False
        while self._waiting and not self.is_full:
            first = next(iter(self._waiting))
            del self._waiting[first]
            first.pace_reading()
        if self._waiting and self._favoured is None:
            self._favour_next()

    def _favour_next(self) -> None:
        self._favoured = next(iter(self._waiting), None)
        if self._favoured is not None:
            del self._waiting[self._favoured]
            self._favoured.pace_reading()

    # ------------------------------------------------------------------------------------- those that do not go on

    def _look_later(self) -> None:
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(_LOOK_S, self.look)

    def look(self) -> None:
        """Closes connections that were seen before with what they have now, and could have sent more."""
        self._look = None
        if not self.is_full:
            return
        idle = [
            holder
            for holder, holding in self._holdings.items()
            if holder not in self._waiting and holding.changed_in < self._round
        ]
        self._round += 1
        for holder in idle:
            self.metrics.backlog_evictions += 1
            holder.abort()
        self._look_later()
