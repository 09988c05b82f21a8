"""The registry's topic, read from its beginning and followed.

Positions, not offsets of records, measure the reader's progress: a transaction ends in a marker, which is no record.
No record stops the reader; the state skips what it cannot read as a record of the registry.
"""

from __future__ import annotations

import asyncio
import logging

from penstock.client.brokers import Brokers
from penstock.client.partition_fetch import EARLIEST, LATEST, fetch, offset_of
from penstock.client.retries import SYSTEM_CHANCE
from penstock.core.logs import Limiter, RateLimitedLog
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.registry.log import Replay

logger = logging.getLogger(__name__)

_FETCH_BYTES = 4 * 1024 * 1024
# How long a fetch waits inside the broker for records: an idle registry sends two fetches a second.
_WAIT_MS = 500
_BACKOFF = Backoff(0.1, 2.0)
# Records between two looks at the rest of the loop: some 2 ms.
_SLICE = 200


class LogCutError(Exception):
    """The topic is shorter than the part that was read: it was made anew, or its brokers have lost records. The state
    of this instance is not true any more.
    """


class Reader:
    """`run` is the work of a task: it ends with LogCutError, and with errors that are none of the network's."""

    def __init__(self, brokers: Brokers, topic: str, replay: Replay) -> None:
        self._brokers = brokers
        self._topic = topic
        self._replay = replay
        # One for each request that waits, so there are no more than connections.
        self._waiting: set[tuple[int, asyncio.Future[None]]] = set()
        self._log = RateLimitedLog(logger, Limiter(), lambda: int(asyncio.get_running_loop().time() * 1000))
        self._position = 0
        self.records = 0

    @property
    def position(self) -> int:
        """Everything before it was replayed."""
        return self._position

    async def end(self) -> int:
        """Behind the last record that is committed now. Raises ApiError and OSError."""
        return await offset_of(self._brokers, self._topic, 0, LATEST, committed=True)

    async def wait_for(self, position: int) -> None:
        """Until everything before `position` was replayed."""
        if self.position >= position:
            return
        waiting = (position, asyncio.get_running_loop().create_future())
        self._waiting.add(waiting)
        try:
            await waiting[1]
        finally:
            self._waiting.discard(waiting)

    async def run(self) -> None:
        connections = self._brokers.dedicated()
        try:
            pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
            while True:
                try:
                    await self._step(connections)
                    pauses.reset()
                except (OSError, ApiError) as error:
                    self._log.once_per(
                        "read", logging.WARNING, "cannot read the topic of the registry", {"reason": str(error)}
                    )
                    await asyncio.sleep(pauses.next_s())
        finally:
            await connections.close()

    async def _step(self, connections: Brokers) -> None:
        try:
            fetched = await fetch(
                connections, self._topic, 0, self.position, max_bytes=_FETCH_BYTES, wait_ms=_WAIT_MS, committed=True
            )
        except ApiError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            await self._find_place()
            return
        for number, record in enumerate(fetched.records, start=1):
            if record.key is not None:  # a record without a key means nothing
                self._replay(record.key, record.value, record.offset)
            self.records += 1
            self._move(record.offset + 1)
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        self._move(fetched.next_offset)

    async def _find_place(self) -> None:
        """The first records of a topic may be gone, deleted by hand. Its end may not go back."""
        first = await offset_of(self._brokers, self._topic, 0, EARLIEST)
        end = await self.end()
        if self.position > end:
            raise LogCutError(f"{self._topic} ends at {end}, and was read up to {self.position}")
        if self.position < first:
            self._move(first)

    def _move(self, position: int) -> None:
        if position <= self.position:
            return
        self._position = position
        for awaited, waiter in self._waiting:
            if awaited <= position and not waiter.done():
                waiter.set_result(None)
