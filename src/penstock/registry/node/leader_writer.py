"""The leader's right to write to the registry's topic, its office: taken, used and lost.

All leaders write with the same transactional id. A new leader begins with that id, which fences every earlier writer,
writes a NOOP, and reads up to it. Only then does this instance decide anything: it knows all writes of earlier leaders,
and the brokers refuse what those still send. No waiting for a late leader is needed.

Rules:
- The NOOP takes the place of the one before it, which may hold removed ids: it holds the same ids, so the topic is read
  to its end before the NOOP is made.
- `write` sends its records without a request or a wait before: the service decided them on the present state, and a
  term that ends in between might be followed by another one unnoticed.
- A write of unknown outcome ends the term. The next one begins by finding out the outcome.
- An instance that is fenced, or that lost its membership, has no term from that moment on. However a pending write
  ends, an instance that has left office does not take it again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from penstock.client.batch_producer import NewRecord
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.transactional_writer import FencedError
from penstock.core.time.backoff import Backoff, Pauses
from penstock.protocol.errors import ApiError
from penstock.registry.errors import NotLeaderError, StoreError, StoreTimeoutError
from penstock.registry.log import LogRecord
from penstock.registry.node.changes import Changes

logger = logging.getLogger(__name__)

_BACKOFF = Backoff(0.1, 2.0)


class LogWriter(Protocol):
    """As `client.transactional_writer` has it."""

    @property
    def has_begun(self) -> bool: ...

    async def begin(self) -> None: ...

    async def write(self, records: Sequence[NewRecord]) -> int: ...


class Replayed(Protocol):
    """The position of this instance's reader."""

    @property
    def position(self) -> int: ...

    async def end(self) -> int: ...

    async def wait_for(self, position: int) -> None: ...


def empty_noop() -> LogRecord:
    """Of a log in which no id is gone."""
    return LogRecord(b'{"keytype":"NOOP","magic":0}', None)


class LeaderCallbacks(NamedTuple):
    """The calls of the writer to the instance that leads."""

    noop: Callable[[], LogRecord]  # of the records replayed until now
    on_taken: Callable[[], Awaitable[None]]  # runs before any other write
    on_fenced: Callable[[], None]  # another instance has begun
    on_failed: Callable[[Exception], None]  # office could not be taken, for a reason that no retry helps against


class LeaderWriter:
    """The log that the registry writes to (`registry.log.Log`), for as long as this instance leads."""

    def __init__(
        self,
        writer: LogWriter,
        reader: Replayed,
        callbacks: LeaderCallbacks,
        *,
        timeout_s: float,
        changes: Changes,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._timeout_s = timeout_s
        self._callbacks = callbacks
        self._taking: asyncio.Task[None] | None = None
        self._is_elected = False
        self._is_open = False  # to `on_taken` already, to other callers when it has returned
        self._is_writing = False
        self._one_at_a_time = asyncio.Lock()  # a writer is for one task; free whenever `write` may be called
        self._changes = changes
        self.terms = 0
        self.is_held = False

    def enter(self) -> None:
        """This instance was elected."""
        self._is_elected = True
        if self._taking is None and not self.is_held:
            self._taking = asyncio.create_task(self._take(), name="taking office")

    def leave(self) -> None:
        """This instance does not lead any more, from now on. A pending write may still be written."""
        self._is_elected = False
        self._close()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    async def write(self, records: Sequence[LogRecord]) -> None:
        if not self._is_open:
            raise NotLeaderError
        assert not self._is_writing, "writes are decided one at a time"
        term = self.terms
        self._is_writing = True
        try:
            position = await self._send([NewRecord(record.key, record.value) for record in records])
        finally:
            self._is_writing = False
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._reader.wait_for(position)
        except TimeoutError:
            if term == self.terms:
                self._begin_anew()  # the next decision must know these records
            raise StoreTimeoutError("The records are written, and were not read back in time") from None

    async def _send(self, records: Sequence[NewRecord]) -> int:
        try:
            # A caller that goes away must not leave half a transaction behind.
            return await asyncio.shield(asyncio.ensure_future(self._write_whole(records)))
        except FencedError as error:
            self._close()
            logger.warning("another instance leads: it has fenced this one")
            self._callbacks.on_fenced()
            if error.is_unknown:
                raise StoreError("Another instance leads now, and may know the records") from error
            raise NotLeaderError("Another instance leads now") from None
        except ApiError as error:
            if not self._writer.has_begun:
                self._begin_anew()
            raise StoreError(f"The topic did not take the records: {error.message}") from error
        except TimeoutError as error:
            self._begin_anew()
            raise StoreTimeoutError from error
        except OSError as error:
            self._begin_anew()
            raise StoreError(f"It is unknown whether the records were written: {error}") from error
        except asyncio.CancelledError:
            self._begin_anew()
            raise

    async def _write_whole(self, records: Sequence[NewRecord]) -> int:
        async with self._one_at_a_time:
            return await self._writer.write(records)

    def _begin_anew(self) -> None:
        self._close()
        if self._is_elected and self._taking is None:
            self._taking = asyncio.create_task(self._take(), name="taking office")

    def _close(self) -> None:
        self._is_open = self.is_held = False
        self._changes.tell()

    async def _take(self) -> None:
        pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
        try:
            while True:
                if await self._try_to_take():
                    break
                await asyncio.sleep(pauses.next_s())
        except Exception as error:  # noqa: BLE001  # the instance supervises: an elected leader that never writes blocks all
            self._taking = None
            self._close()
            self._callbacks.on_failed(error)
            return
        self.is_held = True
        self._taking = None
        self._changes.tell()
        logger.info("this instance leads", extra={"position": self._reader.position})

    async def _try_to_take(self) -> bool:
        try:
            async with self._one_at_a_time:
                await self._writer.begin()
                await self._reader.wait_for(await self._reader.end())
                noop = self._callbacks.noop()
                position = await self._writer.write([NewRecord(noop.key, noop.value)])
            await self._reader.wait_for(position)
            self.terms += 1
            self._is_open = True
            await self._callbacks.on_taken()
        except FencedError:
            logger.warning("another instance took office at the same time")
        except (ApiError, OSError, NotLeaderError, StoreError, StoreTimeoutError) as error:
            logger.warning("cannot take office yet", extra={"error": str(error)})
        else:
            return True
        self._is_open = False
        return False
