"""Merges small simultaneous calls into one batch: brokers spend about as much on a batch of one record as on a hundred.

Rules, for each partition:
- A call is written at once while fewer than two batches are in flight. Calls that come meanwhile wait, and go together
  in the next batch. No call waits for others to come.
- The records of a call stay together and in order, and calls stay in the order of their arrival.
- Where the broker refuses a batch for its content, its calls are written without each other, so that no caller gets an
  error for the records of others; for `produce_each`, its records. Later calls wait meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.client.batch_producer import Appended, BatchProducer, PartOutcome
from penstock.client.batches.batch_builder import RecordFields
from penstock.protocol.errors import ApiError

# A second batch is encoded while the first is with the broker; more would leave less to share.
_AT_ONCE: Final = 2
# Calls with more records than this are batches by themselves.
_SMALL_CALL: Final = 20
# Far below the 1 MiB that brokers take by default.
_MOST_RECORDS: Final = 500
_MOST_BYTES: Final = 256 * 1024


class _Waiting(NamedTuple):
    records: Sequence[RecordFields]
    is_each: bool
    size: int
    done: asyncio.Future[Sequence[PartOutcome]]

    @property
    def parts(self) -> list[Sequence[RecordFields]]:
        return [[each] for each in self.records] if self.is_each else [self.records]


class _Lane:
    """The calls of one partition."""

    __slots__ = ("is_starting", "under_way", "waiting")

    def __init__(self) -> None:
        self.under_way = 0
        self.is_starting = False  # a batch is about to be written; later calls do not overtake it
        self.waiting: deque[_Waiting] = deque()


class MergingProducer:
    """Raises the errors of `BatchProducer.produce`."""

    def __init__(self, batches: BatchProducer) -> None:
        self._batches = batches
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def produce(self, topic: str, partition: int, records: Sequence[RecordFields]) -> Appended:
        """Writes all of them or none."""
        if (lane := self._free_lane((topic, partition))) is None:
            (outcome,) = await self._wait((topic, partition), records, is_each=False)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        try:
            return await self._batches.produce(topic, partition, records)
        finally:
            self._leave((topic, partition), lane)

    async def produce_each(self, topic: str, partition: int, records: Sequence[RecordFields]) -> Sequence[PartOutcome]:
        """Returns an outcome for each record: bad records do not keep the others out."""
        if len(records) == 1:
            try:
                return (await self.produce(topic, partition, records),)
            except (ApiError, OSError) as error:
                return (error,)
        if (lane := self._free_lane((topic, partition))) is None:
            return await self._wait((topic, partition), records, is_each=True)
        try:
            return await self._batches.produce_parts(topic, partition, [[each] for each in records])
        finally:
            self._leave((topic, partition), lane)

    def _free_lane(self, key: tuple[str, int]) -> _Lane | None:
        """Taken for a batch that is written at once; None where the batch has to wait."""
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        elif lane.under_way >= _AT_ONCE or lane.is_starting or lane.waiting:
            return None
        lane.under_way += 1
        return lane

    async def _wait(
        self, key: tuple[str, int], records: Sequence[RecordFields], *, is_each: bool
    ) -> Sequence[PartOutcome]:
        size = _size(records) if len(records) <= _SMALL_CALL else _MOST_BYTES
        waiting = _Waiting(records, is_each, size, asyncio.get_running_loop().create_future())
        self._lanes[key].waiting.append(waiting)
        return await waiting.done

    def _leave(self, key: tuple[str, int], lane: _Lane) -> None:
        lane.under_way -= 1
        self._go_on(key, lane)

    def _go_on(self, key: tuple[str, int], lane: _Lane) -> None:
        if lane.waiting and not lane.is_starting and lane.under_way < _AT_ONCE:
            lane.under_way += 1
            lane.is_starting = True
            task = asyncio.get_running_loop().create_task(self._write_waiting(key, lane), name="merged batch")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif not lane.waiting and not lane.under_way:
            self._lanes.pop(key, None)

    async def _write_waiting(self, key: tuple[str, int], lane: _Lane) -> None:
        calls = _take(lane.waiting)
        lane.is_starting = False
        self._go_on(key, lane)  # also where there is room for another batch
        try:
            if calls:
                await self._write(key, calls)
        finally:
            for call in calls:
                if not call.done.done():  # the task was cancelled
                    call.done.cancel()
            self._leave(key, lane)

    async def _write(self, key: tuple[str, int], calls: list[_Waiting]) -> None:
        parts = [call.parts for call in calls]
        outcomes: Sequence[PartOutcome]
        try:
            if len(calls) == 1 and len(parts[0]) == 1:  # perhaps large: encoded beside the loop
                outcomes = (await self._batches.produce(*key, calls[0].records),)
            else:
                outcomes = await self._batches.produce_parts(*key, [each for some in parts for each in some])
        except (ApiError, OSError) as error:
            outcomes = [error] * sum(map(len, parts))
        except Exception as error:  # noqa: BLE001  # each caller is told, whatever it is: nobody awaits this task
            for call in calls:
                if not call.done.done():
                    call.done.set_exception(error)
            return
        begin = 0
        for call, its_parts in zip(calls, parts, strict=True):
            end = begin + len(its_parts)
            if not call.done.done():  # its caller may be gone
                call.done.set_result(outcomes[begin:end])
            begin = end

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._batches.close()


def _size(records: Sequence[RecordFields]) -> int:
    size = 0
    for key, value, headers, _ in records:
        size += len(key or b"") + len(value or b"") + sum(len(name) + len(each or b"") for name, each in headers)
    return size


def _take(waiting: deque[_Waiting]) -> list[_Waiting]:
    """As many as fit into one batch, and one in any case; not those whose callers are gone."""
    calls: list[_Waiting] = []
    count = size = 0
    while waiting:
        call = waiting[0]
        count += len(call.records)
        size += call.size
        if calls and (count > _MOST_RECORDS or size > _MOST_BYTES):
            break
        waiting.popleft()
        if not call.done.done():
            calls.append(call)
    return calls
