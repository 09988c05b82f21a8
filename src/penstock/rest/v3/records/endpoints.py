"""The two endpoints for records: as a stream, and in small batches."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from penstock.http.limits import HttpLimits
from penstock.http.operations import JSON
from penstock.rest.answers import answer
from penstock.rest.errors import INVALID_PAYLOAD, PRODUCE_BATCH, TOO_LARGE, RestError
from penstock.rest.fair_yield import FairYield
from penstock.rest.record_producer import Written
from penstock.rest.v3.api_context import ApiContext
from penstock.rest.v3.bodies import Batch, BatchEntry
from penstock.rest.v3.calls import read_body
from penstock.rest.v3.records.documents import CutError, Documents
from penstock.rest.v3.records.entries import Entry, show_time
from penstock.rest.v3.records.record_writer import SLICE, Made, Target, WriteStep
from penstock.rest.v3.records.streaming import RecordStream, StreamLimits, encode_answers, make_room
from penstock.rest.v3.shapes import BatchAnswer, BatchFailure, BatchSuccess

# A body with at most this declared size is read whole: its answers come at once, and the connection stays.
_WHOLE = 64 * 1024
_WHOLE_S = HttpLimits().body_s
_ID = re.compile(r"[0-9A-Za-z_-]{1,80}")


def _failure(step: WriteStep, documents: Documents) -> RestError | None:
    """The error behind the records of a step, also where it is that nothing follows."""
    if step.failure is not None or not step.is_last:
        return step.failure
    try:
        documents.finish()
    except CutError as error:
        return RestError(400, f"Bad Request: {error}")
    return None


async def _target(context: ApiContext, request: Request, fair_yield: FairYield) -> Target:
    """Raises RestError where the cluster is another, or the body is not declared as JSON."""
    media_type = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if media_type != JSON:
        raise RestError(415, "HTTP 415 Unsupported Media Type")
    brokers, cluster_id = await context.enter(request)
    return Target(
        cluster_id,
        request.path_params["topic_name"],
        context.caller_of(request),
        brokers.producer,
        context.proxy.payloads,
        context.proxy.right_of(brokers, request.path_params["topic_name"]),
        context.rates,
        context.clock,
        fair_yield,
    )


async def _read_whole(request: Request) -> bytes:
    """With the time limit for bodies of other endpoints. Raises RestError."""
    try:
        async with asyncio.timeout(_WHOLE_S):
            return await request.body()
    except TimeoutError:
        raise RestError(408, "Request Timeout") from None


async def _ask_for(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Requests the body before the answer begins: only that sends `100 Continue` to a client that waits for it."""

    async def read_first() -> bytes:
        return await anext(chunks, b"")

    async def follow() -> AsyncGenerator[bytes]:
        try:
            yield await first
            async for chunk in chunks:
                yield chunk
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            await chunks.aclose()

    first = asyncio.create_task(read_first(), name="first bytes of a stream")
    await asyncio.sleep(0)  # it is reading now
    return follow()


class Records:
    def __init__(self, context: ApiContext) -> None:
        settings = context.proxy.settings
        self._context = context
        self._limits = StreamLimits(
            settings.number("penstock.rest.max.body.bytes"),
            settings.number("streaming.connection.max.duration.ms"),
            settings.number("penstock.rest.stream.idle.ms"),
        )
        self._most_entries = settings.number("api.v3.produce.batch.maximum.entries")
        self._most_encoded = settings.number("penstock.rest.max.encoded.bytes")
        self._fair_yield = FairYield()
        self._running: set[asyncio.Task[bytes]] = set()

    async def produce(self, request: Request) -> Response:
        """One record, or a stream of them. The status is 200 even where a record is refused: each has its own code."""
        target = await _target(self._context, request, self._fair_yield)
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) <= _WHOLE:
            return await self._produce_whole(target, await _read_whole(request))
        stream = RecordStream(target, self._context.proxy.inflight_bytes, self._limits, self._running)
        chunks = request.stream()
        if request.headers.get("expect", "").lower() == "100-continue":
            chunks = await _ask_for(chunks)
        return _Streamed(stream.answers(chunks))

    async def _produce_whole(self, target: Target, body: bytes) -> Response:
        if not body.strip():
            raise RestError(INVALID_PAYLOAD, "Payload error. Request body is empty. Data is required.")
        documents = Documents(self._limits.most_bytes)
        cut = documents.cut(body)
        inflight_bytes, size = self._context.proxy.inflight_bytes, len(body)
        told: list[bytes] = []
        is_last = False
        await inflight_bytes.begin(size)
        try:
            while not is_last:
                step = await target.read_step(cut)
                is_last = step.is_last
                size, made = make_room(inflight_bytes, size, step)
                failure = _failure(step, documents)
                if failure is not None:
                    made.append(failure)
                told.append(await encode_answers(target, made, await target.write(made)))
        finally:
            inflight_bytes.end(size)
        return Response(b"".join(told), media_type=JSON)

    # -------------------------------------------------------------------------------------------- small batches

    async def produce_batch(self, request: Request) -> Response:
        """Up to ten records; 207 with the written records and the failed records."""
        target = await _target(self._context, request, self._fair_yield)
        body = await self._context.proxy.inflight_bytes.read_body(request)
        if not body.strip():
            raise RestError(PRODUCE_BATCH, "Request body is empty. Data is required.")
        entries = read_body(body, Batch).entries
        ids = self._check_ids(entries)
        size = len(body) // len(entries)
        inflight_bytes, held = self._context.proxy.inflight_bytes, len(body)
        await inflight_bytes.begin(held)
        try:
            step = await self._make(target, entries, size)
            held, made = make_room(inflight_bytes, held, step)
            outcomes = await target.write(made)
        finally:
            inflight_bytes.end(held)
        told = BatchAnswer([], [])
        for entry_id, each, outcome in zip(ids, made, outcomes, strict=True):
            if isinstance(each, Entry) and isinstance(outcome, Written):
                told.successes.append(_success(target, entry_id, each, outcome))
            else:
                assert isinstance(outcome, RestError)
                told.failures.append(BatchFailure(entry_id, outcome.code, outcome.message))
        return answer(told, 207)

    async def _make(self, target: Target, entries: list[BatchEntry], size: int) -> WriteStep:
        """As many as may be encoded at a time; `size` is the size of one record's JSON."""
        made: list[Made] = []
        encoded = 0
        for index, entry in enumerate(entries):
            if index and index % SLICE == 0:
                await target.fair_yield.take()
            if encoded > self._most_encoded:
                words = f"the records before take more than {self._most_encoded} bytes once they are encoded"
                made.append(RestError(TOO_LARGE, words))
                continue
            each = await target.make(entry, size)
            encoded += each.size if isinstance(each, Entry) else 0
            made.append(each)
        return WriteStep(made, encoded)

    def _check_ids(self, entries: list[BatchEntry]) -> list[str]:
        """Raises RestError 42208."""
        if not entries:
            raise RestError(PRODUCE_BATCH, "Empty batch.")
        if len(entries) > self._most_entries:
            raise RestError(PRODUCE_BATCH, "Too many entries in batch.")
        ids: dict[str, None] = {}
        for entry in entries:
            if not isinstance(entry.id, str) or not _ID.fullmatch(entry.id):
                raise RestError(PRODUCE_BATCH, "Batch entry identifier is not a valid string.")
            if entry.id in ids:
                raise RestError(PRODUCE_BATCH, "Batch entry IDs are not distinct.")
            ids[entry.id] = None
        return list(ids)


def _success(target: Target, entry_id: str, entry: Entry, written: Written) -> BatchSuccess:
    return BatchSuccess(
        id=entry_id,
        cluster_id=target.cluster_id,
        topic_name=target.topic,
        partition_id=written.partition,
        offset=written.offset,
        timestamp=show_time(entry, written),
        key=entry.key,
        value=entry.value,
    )


class _Streamed(StreamingResponse):
    """Ends the stream when its answers cannot be sent any more."""

    def __init__(self, answers: AsyncGenerator[bytes]) -> None:
        super().__init__(answers, media_type=JSON)
        self._answers = answers

    async def stream_response(self, send: Send) -> None:
        async with contextlib.aclosing(self._answers):
            await super().stream_response(send)
