"""A partition as its leader keeps it, and connections to it that fail by a script. Time is the loop's own."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.client.connection.frames import ConnectionClosedError
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode
from penstock.protocol.message import Message
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.records import iterate_records

T = TypeVar("T")
_REMEMBERED = 5
_LATE_S = 20.0


class Fault(enum.Enum):
    NONE = enum.auto()
    REQUEST_LOST = enum.auto()
    ANSWER_LOST = enum.auto()
    HANGS = enum.auto()  # no answer, and the connection stays
    HANGS_AND_WRITES_LATER = enum.auto()
    REFUSED_FOR_NOW = enum.auto()  # an error that passes, before the batch is written
    ERROR_AFTER_WRITING = enum.auto()
    MOVED = enum.auto()
    UNREACHABLE = enum.auto()  # answers, then the next connection cannot be opened
    FORGETS = enum.auto()  # what the broker knows of producers is gone, and it says so
    FENCES = enum.auto()
    LOSES_RECORDS = enum.auto()  # the last batch that was confirmed is gone


class _Producer:
    def __init__(self) -> None:
        self.last: deque[tuple[int, int, int]] = deque(maxlen=_REMEMBERED)  # sequence, records, offset

    @property
    def expected(self) -> int | None:
        return self.last[-1][0] + self.last[-1][1] if self.last else None


class PartitionModel:
    """Takes the place of `Brokers`."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._faults = deque(faults)
        self._producers: dict[int, _Producer] = {}
        self._next_id = 100
        self._is_unreachable = False
        self._tells_unknown = False
        self.log: list[bytes] = []  # the value of every record

    # ---- as a client sees it

    async def ask(self, message: Message, *, timeout_s: float, retry: bool) -> Any:
        assert isinstance(message, InitProducerIdRequest)
        self._next_id += 1
        return InitProducerIdResponse(producer_id=self._next_id, producer_epoch=0)

    async def connect_leader(self, topic: str, partition: int) -> LinkModel:
        if self._is_unreachable:
            self._is_unreachable = False
            raise ConnectionRefusedError("nobody listens")
        return LinkModel(self)

    def forget_leader(self, topic: str, partition: int) -> None: ...

    # ---- as the leader does it

    def serve(self, link: LinkModel, batch: bytes, answer: asyncio.Future[ProduceResponse]) -> None:
        fault = self._faults.popleft() if self._faults else Fault.NONE
        loop = asyncio.get_running_loop()
        match fault:
            case Fault.REQUEST_LOST:
                loop.call_soon(link.end, "lost")
            case Fault.ANSWER_LOST:
                self._append(batch)
                loop.call_soon(link.end, "lost")
            case Fault.HANGS:
                link.is_hung = True
            case Fault.HANGS_AND_WRITES_LATER:
                link.is_hung = True
                loop.call_later(_LATE_S, self._append, batch)
            case Fault.REFUSED_FOR_NOW:
                link.answer(answer, ErrorCode.NOT_ENOUGH_REPLICAS)
            case Fault.MOVED:
                link.answer(answer, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            case Fault.FENCES:
                link.answer(answer, ErrorCode.INVALID_PRODUCER_EPOCH)
            case Fault.ERROR_AFTER_WRITING:
                code, offset = self._append(batch)
                link.answer(answer, code or ErrorCode.REQUEST_TIMED_OUT, offset)
            case _:
                self._change(fault)
                link.answer(answer, *self._append(batch))

    def _change(self, fault: Fault) -> None:
        if fault is Fault.UNREACHABLE:
            self._is_unreachable = True
        elif fault is Fault.FORGETS:
            self._producers.clear()
            self._tells_unknown = True
        elif fault is Fault.LOSES_RECORDS:
            for producer in self._producers.values():
                if producer.last:
                    del self.log[producer.last.pop()[2] :]

    def _append(self, batch: bytes) -> tuple[ErrorCode, int]:
        header = read_header(batch)
        values = [record.value or b"" for record in iterate_records(batch)]
        if b"too large" in values:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        known = self._producers.get(header.producer_id)
        if known is None and header.base_sequence and self._tells_unknown:
            return ErrorCode.UNKNOWN_PRODUCER_ID, -1
        producer = self._producers.setdefault(header.producer_id, _Producer())
        for sequence, count, offset in producer.last:
            if (sequence, count) == (header.base_sequence, header.record_count):
                return ErrorCode.NONE, offset
        if producer.expected not in (None, header.base_sequence):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.log)
        self.log += values
        producer.last.append((header.base_sequence, header.record_count, offset))
        return ErrorCode.NONE, offset


class LinkModel:
    """Answers come in order, one turn of the loop later."""

    def __init__(self, partition: PartitionModel) -> None:
        self._partition = partition
        self._waiting: list[asyncio.Future[ProduceResponse]] = []
        self.is_open = True
        self.is_hung = False

    async def begin(self, message: Message) -> asyncio.Future[Any]:
        if not self.is_open:
            raise ConnectionClosedError("lost")
        return self.begin_now(message)

    def begin_now(self, message: Message) -> asyncio.Future[Any]:
        assert isinstance(message, ProduceRequest)
        answer: asyncio.Future[ProduceResponse] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        records = message.topic_data[0].partition_data[0].records
        assert isinstance(records, bytes)
        if not self.is_hung:
            asyncio.get_running_loop().call_soon(self._serve, records, answer)
        return answer

    def _serve(self, records: bytes, answer: asyncio.Future[ProduceResponse]) -> None:
        if self.is_open and not self.is_hung:
            self._partition.serve(self, records, answer)

    async def renew_login(self) -> None: ...

    def answer(self, answer: asyncio.Future[ProduceResponse], code: ErrorCode, offset: int = -1) -> None:
        part = PartitionProduceResponse(error_code=code, base_offset=offset)
        self._waiting.remove(answer)
        if not answer.done():
            answer.set_result(ProduceResponse(responses=[TopicProduceResponse(partition_responses=[part])]))

    def end(self, reason: str) -> None:
        self.is_open = False
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            if not answer.done():
                answer.set_exception(ConnectionClosedError(reason))
                answer.exception()
