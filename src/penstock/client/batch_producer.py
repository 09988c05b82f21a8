"""Batches written once and in order: an idempotent producer whose caller makes the batches.

One call is one batch in one Produce request. Calls for one partition are written in the order in which they were made,
at most five of them on their way at once (see `partition_writes.partition_writer`).
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from penstock.client.batches.batch_builder import (
    NewRecord,
    PreparedBatch,
    RecordFields,
    Sequenced,
    finish_batch,
    prepare_batch,
)
from penstock.client.batches.partitioning import partition_for
from penstock.client.brokers import Brokers
from penstock.client.partition_writes.outcomes import NOT_TOLD, Appended, read_answer, read_error, read_place
from penstock.client.partition_writes.partition_writer import PartitionWriter, ProducerBatch, produce_request
from penstock.client.partition_writes.parts import Part, PartOutcome, outcomes_of, splitting
from penstock.client.routes.attempts import Attempts
from penstock.client.routes.links import ClientClosedError
from penstock.core.byte_budget import ByteBudget
from penstock.protocol.compression import Codec
from penstock.protocol.errors import ApiError, ErrorCode

__all__ = ["Appended", "BatchProducer", "NewRecord", "PartOutcome", "partition_for"]

# Each has a producer id. Those that were idle longest are forgotten, and take a new one when they are used again.
_MOST_PARTITIONS = 10_000
# More are encoded beside the loop: these take less than 1 ms.
_ENCODED_AT_ONCE = 2_000
_COMPRESSED_AT_ONCE = 64 * 1024
_RECORD_OVERHEAD = 32  # bytes, about


class BatchProducer:
    """`buffer_bytes` bounds the records of all calls that have not ended; whoever comes then waits. A call ends with
    TimeoutError, or with the broker's last reason, when its batch is not written within `delivery_timeout_s`; it may be
    written then all the same."""

    def __init__(
        self,
        brokers: Brokers,
        *,
        buffer_bytes: int = 32 * 1024 * 1024,
        delivery_timeout_s: float = 30.0,
        most_partitions: int = _MOST_PARTITIONS,
    ) -> None:
        self._brokers = brokers
        self._most_partitions = most_partitions
        self._budget = ByteBudget(buffer_bytes)
        self._delivery_timeout_s = delivery_timeout_s
        self._writers: OrderedDict[tuple[str, int], PartitionWriter] = OrderedDict()
        self._is_closed = False

    async def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[RecordFields],
        *,
        acks: int = -1,
        compression: Codec | None = None,
    ) -> Appended:
        """With acks -1 the batch is written exactly once; with 0 and 1 it has no sequence and is not sent again once it
        was sent. ApiError when the broker refuses the batch (MESSAGE_TOO_LARGE, INVALID_RECORD with `record_errors`,
        TOPIC_AUTHORIZATION_FAILED, ...), OSError as `Brokers` has it."""
        if not records:
            raise ValueError("a batch has at least one record")
        codec = compression or Codec.NONE
        prepared = _prepare_at_once(records, codec)
        size = _estimate_size(records) if prepared is None else len(prepared.section)
        if size > self._budget.size:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes is larger than the buffer of {self._budget.size}"
            )
        await self._budget.take(size)
        try:
            if self._is_closed:
                raise ClientClosedError("the producer was closed")
            if acks == -1:
                return await self._write(topic, partition, prepared or _Encoding(records, codec))
            if prepared is None:
                prepared = await _Encoding(records, codec).run()
            return await self._write_loosely(topic, partition, prepared, acks)
        finally:
            self._budget.give_back(size)

    async def produce_parts(
        self, topic: str, partition: int, parts: Sequence[Part], *, compression: Codec | None = None
    ) -> list[PartOutcome]:
        """One batch of parts, with an outcome for each: where the broker refuses the batch for what is in it, parts are
        written without each other, in order, before anything that was given later. Each part has records."""
        codec, now_ms = compression or Codec.NONE, _now_ms()
        records = [record for part in parts for record in part]
        size = _estimate_size(records)
        try:
            await self._budget.take(size)
        except ApiError as error:
            return [error] * len(parts)
        try:
            if self._is_closed:
                raise ClientClosedError("the producer was closed")
            deadline = asyncio.get_running_loop().time() + self._delivery_timeout_s
            prepared = prepare_batch(records, now_ms, codec)
            batch = ProducerBatch(asyncio.get_running_loop().create_future(), deadline, prepared)
            batch.split = splitting(parts, deadline, now_ms, codec)
            writer = self._writer(topic, partition)
            writer.add(batch)
            try:
                return await outcomes_of(batch, parts)
            finally:
                writer.drop(batch)  # does nothing, unless the caller gives up
        finally:
            self._budget.give_back(size)

    async def close(self) -> None:
        """Ends what is on its way. The brokers stay open: they are the caller's."""
        self._is_closed = True
        while self._writers:
            await self._writers.popitem()[1].close()

    # ------------------------------------------------------------------------------------ exactly once

    async def _write(self, topic: str, partition: int, records: PreparedBatch | _Encoding) -> Appended:
        loop = asyncio.get_running_loop()
        prepared = records if isinstance(records, PreparedBatch) else None
        batch = ProducerBatch(loop.create_future(), loop.time() + self._delivery_timeout_s, prepared)
        writer = self._writer(topic, partition)
        writer.add(batch)
        try:
            if isinstance(records, _Encoding):
                batch.prepared = await records.run()
                writer.pump()
            return await batch.done
        except BaseException:
            writer.drop(batch)  # nobody waits for it any more
            raise

    def _writer(self, topic: str, partition: int) -> PartitionWriter:
        key = topic, partition
        writer = self._writers.get(key)
        if writer is None:
            self._forget_idle()  # before there is a new one, which is idle, too
            writer = self._writers[key] = PartitionWriter(self._brokers, topic, partition)
        else:
            self._writers.move_to_end(key)
        return writer

    def _forget_idle(self) -> None:
        if len(self._writers) >= self._most_partitions:
            idle = [key for key, writer in self._writers.items() if writer.is_idle]
            for key in idle[: max(1, self._most_partitions // 10)]:
                del self._writers[key]

    # ------------------------------------------------------------------------------------ at most once

    async def _write_loosely(self, topic: str, partition: int, prepared: PreparedBatch, acks: int) -> Appended:
        request = produce_request(topic, partition, finish_batch(prepared, Sequenced()), acks=acks)
        attempts = Attempts("Produce", retry=False)

        async def attempt() -> Appended:
            try:
                link = await self._brokers.connect_leader(topic, partition)
                if acks == 0:
                    await link.send(request)
                    return NOT_TOLD
                part = read_answer(await attempts.ask(link, request))
                if part.error_code != ErrorCode.NONE:
                    raise read_error(part)  # with acks=1 a leader that reports an error has written nothing
                return read_place(part)
            except (OSError, ApiError):
                self._brokers.forget_leader(topic, partition)
                raise

        result: Appended = await attempts.run(attempt, self._delivery_timeout_s)
        return result


class _Encoding(NamedTuple):
    """Records that take too long to encode for the loop."""

    records: Sequence[RecordFields]
    codec: Codec

    async def run(self) -> PreparedBatch:
        return await asyncio.to_thread(prepare_batch, self.records, _now_ms(), self.codec)


def _prepare_at_once(records: Sequence[RecordFields], codec: Codec) -> PreparedBatch | None:
    """None for what takes too long for the loop."""
    if len(records) > _ENCODED_AT_ONCE or (codec != Codec.NONE and _estimate_size(records) > _COMPRESSED_AT_ONCE):
        return None
    return prepare_batch(records, _now_ms(), codec)


def _estimate_size(records: Sequence[RecordFields]) -> int:
    return sum(len(key or b"") + len(value or b"") + _RECORD_OVERHEAD for key, value, *_ in records)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
