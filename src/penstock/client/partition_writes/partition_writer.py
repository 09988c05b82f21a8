"""The batches of one partition: written once each, and in the order in which they came.

Each partition has a producer id of its own, so that trouble in one partition does not touch another. Batches are
numbered as they are sent. At most five are on their way: a broker remembers the last five batches of a producer, and
takes no batch whose number does not follow.

When a batch fails, nothing new is sent until all that were on their way are answered. Then those that were not written
are sent again, one by one, under their old numbers: a broker that has one already says where. What follows a batch that
was given up depends on whether it may have been written:

    it was surely not written      the batches behind it are numbered anew, without a gap
    it may have been written       the next batch keeps its number. If that is accepted, the missing batch was written;
                                   if it is out of order, it was not: a new producer id is taken
    OUT_OF_ORDER without such      the broker has lost what it had confirmed: the batch fails as in Java's producer, and
                                   the next one begins with a new producer id

A batch whose records are refused for what they are, and which can be split, is replaced by its halves; the batches
behind it were out of order without it, so they are written after the halves, and the order holds.

The first batch under a new producer id goes alone: a broker that knows nothing of the producer takes any number, so
that the second batch might be written without the first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from penstock.client.batches.batch_builder import PreparedBatch, Sequenced, finish_batch
from penstock.client.brokers import BrokersUnreachableError
from penstock.client.partition_writes.outcomes import (
    REFUSED_FOR_CONTENT,
    Appended,
    ProduceVerdict,
    judge,
    read_answer,
    read_error,
    read_place,
)
from penstock.client.retries import SYSTEM_CHANCE
from penstock.client.routes.attempts import BACKOFF, Attempts
from penstock.client.routes.failures import may_pass
from penstock.client.routes.links import ClientClosedError, NotSentError
from penstock.core.time.backoff import Pauses
from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode, error_of, is_retriable
from penstock.protocol.message import Message
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

MOST_IN_FLIGHT = 5
# How long a broker may wait for its followers, and how long it may be silent.
ACKS_TIMEOUT_MS = 10_000
ANSWER_TIMEOUT_S = 15.0
_SEQUENCES = 2**31


class LeaderLink(Protocol):
    """The parts of `reaching.links.Link` that this module uses."""

    @property
    def is_open(self) -> bool: ...

    async def begin(self, message: Message) -> asyncio.Future[Any]: ...

    def begin_now(self, message: Message) -> asyncio.Future[Any] | None: ...

    async def renew_login(self) -> None: ...

    def end(self, reason: str) -> None: ...


class Leaders(Protocol):
    """The parts of `Brokers` that this module uses."""

    async def ask(self, message: Message, *, timeout_s: float, retry: bool) -> Any: ...

    async def connect_leader(self, topic: str, partition: int) -> LeaderLink: ...

    def forget_leader(self, topic: str, partition: int) -> None: ...


class ProducerBatch:
    """One call of `produce`. `prepared` is None until the records are encoded. `split` makes the halves, if the batch
    has any; `halves` are there when these took its place."""

    __slots__ = (
        "answer",
        "deadline",
        "done",
        "failure",
        "halves",
        "is_uncertain",
        "prepared",
        "sent_at",
        "sequence",
        "split",
        "verdict",
    )

    def __init__(self, done: asyncio.Future[Appended], deadline: float, prepared: PreparedBatch | None) -> None:
        self.done = done
        self.deadline = deadline
        self.prepared = prepared
        self.sequence = -1
        self.sent_at = 0.0
        self.answer: asyncio.Future[ProduceResponse] | None = None
        self.verdict: ProduceVerdict | None = None
        self.failure: Exception | None = None
        self.is_uncertain = False  # whether it may have been written
        self.split: Callable[[], tuple[ProducerBatch, ProducerBatch]] | None = None
        self.halves: tuple[ProducerBatch, ProducerBatch] | None = None

    @property
    def record_count(self) -> int:
        assert self.prepared is not None, "a batch is sent when it is encoded"
        return self.prepared.record_count

    def note_answer(self, answer: ProduceResponse) -> None:
        part = read_answer(answer)
        self.verdict = judge(part.error_code)
        if self.verdict is ProduceVerdict.WRITTEN:
            if not self.done.done():
                self.done.set_result(read_place(part))
            return
        self.failure = read_error(part)
        if self.verdict is ProduceVerdict.AGAIN:
            self.is_uncertain = True

    def note_failure(self, error: OSError | ApiError) -> None:
        """No answer came."""
        self.failure = error
        if not may_pass(error):
            self.verdict = ProduceVerdict.REFUSED
            return
        self.verdict = ProduceVerdict.AGAIN
        if isinstance(error, OSError) and not isinstance(error, NotSentError):
            self.is_uncertain = True

    def split_up(self) -> Sequence[ProducerBatch]:
        """What takes the place of a batch that was not written: its halves, if that may help anybody."""
        is_content = isinstance(self.failure, ApiError) and self.failure.code in REFUSED_FOR_CONTENT
        if not is_content or self.split is None or self.done.done():
            return ()
        self.halves = self.split()
        return self.halves

    def fail(self, error: Exception | None = None) -> None:
        if not self.done.done():
            self.done.set_exception(error or self.failure or TimeoutError())
            self.done.exception()  # a caller that was cancelled will not fetch it


class PartitionWriter:
    def __init__(self, brokers: Leaders, topic: str, partition: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self._partition = partition
        self._pending: deque[ProducerBatch] = deque()
        self._in_flight: deque[ProducerBatch] = deque()
        self._by: Sequenced | None = None  # whose number is that of the next batch
        self._is_proven = False  # a batch was written under this producer id
        self._has_gap = False  # a batch that may have been written was given up
        self._link: LeaderLink | None = None
        self._task: asyncio.Task[None] | None = None
        self._watch: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return self._task is None and not self._pending and not self._in_flight

    def add(self, batch: ProducerBatch) -> None:
        self._pending.append(batch)
        self.pump()

    def drop(self, batch: ProducerBatch) -> None:
        """Takes back a batch that was not sent yet; for others this does nothing."""
        if batch in self._pending:
            self._pending.remove(batch)
            self.pump()

    def pump(self) -> None:
        """Sends what may be sent. While a task puts things in order nothing is sent; it calls this at its end."""
        while self._task is None and self._pending:
            if len(self._in_flight) >= (MOST_IN_FLIGHT if self._is_proven else 1):
                return
            batch = self._pending[0]
            if batch.done.done():  # its caller has gone, or its records could not be encoded
                self._pending.popleft()
            elif batch.prepared is None:
                return
            elif not self._send_now(batch):
                self._start(self._put_in_order())

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail_all(ClientClosedError("the producer was closed"))

    # ------------------------------------------------------------------------------------ the usual way

    def _send_now(self, batch: ProducerBatch) -> bool:
        by, link = self._by, self._link
        if by is None or link is None or not link.is_open:
            return False
        batch.sequence = by.sequence
        try:
            answer = link.begin_now(self._request(batch, by))
        except ApiError as error:  # there is no such request for this broker
            self._pending.popleft()
            batch.fail(error)
            return True
        if answer is None:
            return False
        self._pending.popleft()
        self._in_flight.append(batch)
        self._by = by._replace(sequence=(by.sequence + batch.record_count) % _SEQUENCES)
        loop = asyncio.get_running_loop()
        batch.sent_at = loop.time()
        batch.answer = answer
        answer.add_done_callback(lambda answer: self._take_answer(batch, answer))
        if self._watch is None:
            self._watch = loop.call_later(ANSWER_TIMEOUT_S, self._look_for_silence)
        return True

    def _take_answer(self, batch: ProducerBatch, answer: asyncio.Future[ProduceResponse]) -> None:
        _note(batch, answer)
        if self._task is not None or not self._in_flight or self._in_flight[0] is not batch:
            return  # the task looks at all of them, or has done so
        if batch.verdict is ProduceVerdict.WRITTEN:
            # Answers come in order, so this one is the first.
            self._in_flight.popleft()
            self._is_proven, self._has_gap = True, False
            self.pump()
        else:
            self._start(self._put_in_order())

    def _look_for_silence(self) -> None:
        """A broker that hangs leaves its connection open. Batches that were answered and are sent again have a time of
        their own: the connection is not to blame for an election."""
        self._watch = None
        silent = next(
            (batch for batch in self._in_flight if batch.answer is not None and not batch.answer.done()), None
        )
        if silent is not None and self._link is not None:
            loop = asyncio.get_running_loop()
            rest_s = silent.sent_at + ANSWER_TIMEOUT_S - loop.time()
            if rest_s <= 0:
                self._link.end("the broker did not answer a batch")
                rest_s = ANSWER_TIMEOUT_S
            self._watch = loop.call_later(rest_s, self._look_for_silence)

    def _request(self, batch: ProducerBatch, by: Sequenced) -> ProduceRequest:
        assert batch.prepared is not None, "a batch is sent when it is encoded"
        return produce_request(self._topic, self._partition, finish_batch(batch.prepared, by), acks=-1)

    # ------------------------------------------------------------------------------------ putting in order

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.create_task(work, name="batches of a partition")
        self._task.add_done_callback(self._note_end)

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:  # a mistake of ours; nobody waits for ever
            self._by = None
            self._fail_all(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        self.pump()

    def _fail_all(self, error: Exception) -> None:
        for batch in (*self._in_flight, *self._pending):
            batch.fail(error)
        self._in_flight.clear()
        self._pending.clear()

    async def _put_in_order(self) -> None:
        answers = [batch.answer for batch in self._in_flight if batch.answer is not None]
        if answers:
            await asyncio.wait(answers)
        for batch in self._in_flight:
            if batch.answer is not None:
                _note(batch, batch.answer)  # the callback may come later than this task
        while self._in_flight:
            await self._settle(self._in_flight[0])
            self._in_flight.popleft()
        overdue = BrokersUnreachableError("the batch was not sent in time")
        self._fail_pending(overdue, asyncio.get_running_loop().time())
        if self._pending:
            await self._open()

    async def _open(self) -> None:
        """A producer id and a connection to the leader. Batches that wait too long for these fail."""
        while self._pending:
            loop = asyncio.get_running_loop()
            patience_s = max(0.0, self._pending[0].deadline - loop.time())
            try:
                await Attempts("Produce", retry=True).run(self._try_to_open, patience_s)
            except (OSError, ApiError) as error:
                # A topic that stayed unknown for as long as `Attempts` waits for one is not there, retriable or not.
                is_passing = isinstance(error, TimeoutError | BrokersUnreachableError) or (
                    isinstance(error, ApiError)
                    and is_retriable(error.code)
                    and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                )
                self._fail_pending(error, None if not is_passing else loop.time())
            else:
                return

    async def _try_to_open(self) -> None:
        if self._by is None:
            await self._take_producer_id([])
        try:
            self._link = await self._brokers.connect_leader(self._topic, self._partition)
            await self._link.renew_login()
        except (OSError, ApiError):
            self._brokers.forget_leader(self._topic, self._partition)
            raise

    def _fail_pending(self, error: Exception, now: float | None) -> None:
        """Those whose time is over by `now`; all for None."""
        kept: deque[ProducerBatch] = deque()
        for batch in self._pending:
            if now is None or batch.deadline <= now:
                batch.fail(error)
            else:
                kept.append(batch)
        self._pending = kept

    async def _settle(self, batch: ProducerBatch) -> None:
        """Sends the first batch in `_in_flight` until it is clear what becomes of it. Those behind it are not on their
        way."""
        loop = asyncio.get_running_loop()
        pauses = Pauses(BACKOFF, SYSTEM_CHANCE)
        is_in_order = False  # whether the verdict is about this batch, not about one before it
        while not self._is_settled(batch, is_in_order):
            if batch.verdict is ProduceVerdict.AGAIN:
                self._brokers.forget_leader(self._topic, self._partition)
                await asyncio.sleep(pauses.next_s())
            # A batch that was out of order because of the one before it has had no chance yet.
            if batch.verdict is not ProduceVerdict.OUT_OF_ORDER and loop.time() >= batch.deadline:
                self._give_up(batch)
                return
            await self._send_again(batch)
            is_in_order = True

    def _is_settled(self, batch: ProducerBatch, is_in_order: bool) -> bool:
        match batch.verdict:
            case ProduceVerdict.WRITTEN:
                self._is_proven, self._has_gap = True, False
                return True
            case ProduceVerdict.REFUSED:
                self._give_up(batch)
                return True
            case ProduceVerdict.OUT_OF_ORDER if is_in_order and self._has_gap:
                self._by = None  # now it is known that the batch before this one was not written
            case ProduceVerdict.OUT_OF_ORDER if is_in_order:
                batch.fail()
                self._by = None
                return True
            case ProduceVerdict.FENCED:
                batch.fail()
                self._by = None
                for other in self._in_flight:
                    if other.is_uncertain:  # under another producer id it might be written a second time
                        other.verdict, other.failure = ProduceVerdict.FENCED, batch.failure
                return True
            case ProduceVerdict.FORGOTTEN:
                self._by = None
            case _:
                pass
        return False

    def _give_up(self, batch: ProducerBatch) -> None:
        failure = batch.failure
        if isinstance(failure, OSError) and may_pass(failure):
            kind = TimeoutError if batch.is_uncertain else BrokersUnreachableError
            failure = kind(f"the batch was not written in time: {failure}")
        if batch.is_uncertain:
            self._has_gap = True
        else:
            behind = [*batch.split_up(), *list(self._in_flight)[1:]]
            self._in_flight = deque([batch, *behind])
            self._number(behind, batch.sequence)
        batch.fail(failure)

    async def _send_again(self, batch: ProducerBatch) -> None:
        try:
            if self._by is None:
                await self._take_producer_id(self._in_flight)
            assert self._by is not None, "a producer id was just taken"
            link = await self._brokers.connect_leader(self._topic, self._partition)
        except (OSError, ApiError) as error:
            self._note_not_sent(batch, error)
            return
        self._link = link
        try:
            answer = await link.begin(self._request(batch, self._by._replace(sequence=batch.sequence)))
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                batch.note_answer(await answer)
        except TimeoutError as error:
            link.end("the broker did not answer a batch")
            batch.note_failure(error)
        except OSError as error:
            batch.note_failure(error)

    def _note_not_sent(self, batch: ProducerBatch, error: OSError | ApiError) -> None:
        was_uncertain = batch.is_uncertain
        batch.note_failure(error)
        batch.is_uncertain = was_uncertain

    async def _take_producer_id(self, batches: Sequence[ProducerBatch]) -> None:
        """Numbers the batches under it, from 0 on."""
        request = InitProducerIdRequest(
            transactional_id=None, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
        )
        answer: InitProducerIdResponse = await self._brokers.ask(request, timeout_s=ANSWER_TIMEOUT_S, retry=True)
        if answer.error_code != ErrorCode.NONE:
            raise error_of(answer.error_code)
        self._by = Sequenced(answer.producer_id, answer.producer_epoch, 0)
        self._is_proven = self._has_gap = False
        self._number(batches, 0)

    def _number(self, batches: Sequence[ProducerBatch] | deque[ProducerBatch], first: int) -> None:
        sequence = first
        for batch in batches:
            batch.sequence = sequence
            sequence = (sequence + batch.record_count) % _SEQUENCES
        if self._by is not None:
            self._by = self._by._replace(sequence=sequence)


def produce_request(topic: str, partition: int, batch: bytes, *, acks: int) -> ProduceRequest:
    part = PartitionProduceData(index=partition, records=batch)
    return ProduceRequest(
        acks=acks, timeout_ms=ACKS_TIMEOUT_MS, topic_data=[TopicProduceData(name=topic, partition_data=[part])]
    )


def _note(batch: ProducerBatch, answer: asyncio.Future[ProduceResponse]) -> None:
    """Once: the task and the callback may both come."""
    if batch.verdict is not None:
        return
    if answer.cancelled():
        batch.note_failure(ConnectionError("the answer was not waited for"))
        return
    error = answer.exception()
    if error is None:
        try:
            batch.note_answer(answer.result())
        except Exception as mistake:  # noqa: BLE001  # in an answer that makes no sense; the batch must not stay for ever
            batch.note_failure(ConnectionError(repr(mistake)))
    elif isinstance(error, OSError):
        batch.note_failure(error)
    else:
        batch.note_failure(ConnectionError(repr(error)))
