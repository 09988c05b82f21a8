"""Records in and answers out, at the same time, over one HTTP request.

Rules:
- Objects come concatenated or line by line; an answer goes out for each, in their order, as soon as it is known. The
  status is 200, whatever becomes of the records: each answer has its own code.
- The complete objects of a chunk become a step: one batch for each partition. A few steps are in flight at a time.
  Where the encoding makes records large, a step has fewer of them. Where the client does not read its answers, no step
  is added, so nothing more is read from the client.
- Invalid JSON gets one answer, and ends the stream: the start of the next record is unknown.
- A stream ends after its longest time, and after a while without data. A client that goes away ends it, too; records in
  flight to a broker then arrive, and no answer reports that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import NamedTuple

from starlette.requests import ClientDisconnect

from penstock.protocol.errors import ApiError
from penstock.rest.answers import encode_json
from penstock.rest.errors import RestError
from penstock.rest.inflight_bytes import InflightBytes
from penstock.rest.record_producer import Outcome
from penstock.rest.v3.records.documents import CutError, Documents
from penstock.rest.v3.records.record_writer import SLICE, Made, Target, WriteStep
from penstock.rest.v3.shapes import Produced

# The number of steps in flight: a producer has at most five batches for a partition in flight.
_MOST_STEPS = 5


class StreamLimits(NamedTuple):
    most_bytes: int  # of one record
    longest_ms: int
    idle_ms: int  # without a byte from the client


async def encode_answers(target: Target, made: Sequence[Made], outcomes: Sequence[Outcome]) -> bytes:
    told = bytearray()
    for index, (each, outcome) in enumerate(zip(made, outcomes, strict=True)):
        if index and index % SLICE == 0:
            await target.fair_yield.take()
        told += encode_json(target.describe(each, outcome)) + b"\n"
    return bytes(told)


def make_room(inflight_bytes: InflightBytes, size: int, step: WriteStep) -> tuple[int, list[Made]]:
    """The size for `inflight_bytes.end`, and the records. Where there is no room for their encoded size they are
    refused.
    """
    try:
        return inflight_bytes.grow(size, step.size), step.made
    except RestError as error:
        return size, [each if isinstance(each, RestError) else error for each in step.made]


class RecordStream:
    """`running` keeps steps alive whose stream has ended."""

    def __init__(
        self,
        target: Target,
        inflight_bytes: InflightBytes,
        limits: StreamLimits,
        running: set[asyncio.Task[bytes]],
    ) -> None:
        self._target = target
        self._inflight_bytes = inflight_bytes
        self._limits = limits
        self._running = running
        self._documents = Documents(limits.most_bytes)
        self._steps: asyncio.Queue[asyncio.Task[bytes] | bytes | None] = asyncio.Queue()
        self._free = asyncio.Semaphore(_MOST_STEPS)
        self._held = 0

    async def answers(self, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """The outgoing answers, until the stream ends."""
        reading = asyncio.create_task(self._read(chunks), name="records that stream in")
        try:
            while (step := await self._steps.get()) is not None:
                yield step if isinstance(step, bytes) else await asyncio.shield(step)
                self._free.release()
            await reading  # raises our own mistakes here
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
            await chunks.aclose()

    async def _read(self, chunks: AsyncIterator[bytes]) -> None:
        """Every end of the stream but the client's own puts a last error among the answers."""
        try:
            await self._read_all(chunks)
        except CutError as error:
            self._refuse(RestError(413 if error.is_too_large else 400, f"Bad Request: {error}"))
        except RestError as error:
            self._refuse(error)
        except ClientDisconnect:
            pass
        finally:
            self._inflight_bytes.count_reading(-self._held)
            self._steps.put_nowait(None)

    async def _read_all(self, chunks: AsyncIterator[bytes]) -> None:
        clock, limits = self._target.clock, self._limits
        begun_ms = clock.monotonic_ms()
        while True:
            left_ms = limits.longest_ms - (clock.monotonic_ms() - begun_ms)
            try:
                async with asyncio.timeout(min(max(left_ms, 0), limits.idle_ms) / 1000):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                if left_ms <= limits.idle_ms:
                    raise RestError(408, "The stream has been open for longer than allowed. It ends here.") from None
                raise RestError(408, "No record has come for a while. The stream ends here.") from None
            if chunk is None:
                self._documents.finish()
                return
            await self._take(chunk)

    async def _take(self, chunk: bytes) -> None:
        """Starts the complete objects, in order. Raises RestError behind them."""
        size = self._documents.begun_size + len(chunk)
        documents = self._documents.cut(chunk)
        while not await self._take_step(documents, size):
            pass
        grown = self._documents.begun_size - self._held
        self._inflight_bytes.count_reading(grown)
        self._held += grown

    async def _take_step(self, documents: Iterator[bytes], size: int) -> bool:
        """Whether it was the last step. Waits until there is room for it: among the steps of this stream, and among
        those of all callers. Records are encoded when there is room for their JSON.
        """
        await self._free.acquire()
        await self._inflight_bytes.begin(size)
        try:
            step = await self._target.read_step(documents)
            if step.made:
                with contextlib.suppress(RestError, ApiError, OSError):  # the step reports it
                    # So that no step overtakes another one.
                    await self._target.producer.count_partitions(self._target.topic)
                size, made = make_room(self._inflight_bytes, size, step)
        except BaseException:
            self._inflight_bytes.end(size)
            raise
        if step.made:
            writing = asyncio.create_task(self._write(made, size), name="records of a stream")
            self._running.add(writing)
            writing.add_done_callback(self._running.discard)
            self._steps.put_nowait(writing)
            await asyncio.sleep(0)  # so that the batches of this step are in line before those of the next
        else:
            self._inflight_bytes.end(size)
            self._free.release()
        if step.failure is not None:
            raise step.failure
        return step.is_last

    async def _write(self, made: list[Made], size: int) -> bytes:
        try:
            outcomes = await self._target.write(made)
        finally:
            self._inflight_bytes.end(size)
        return await encode_answers(self._target, made, outcomes)

    def _refuse(self, error: RestError) -> None:
        self._steps.put_nowait(encode_json(Produced(error_code=error.code, message=error.message)) + b"\n")
