"""One writer of one partition, each write a transaction: a later writer with the same transactional id fences it.

A write is three requests: AddPartitionsToTxn, Produce, EndTxn. The coordinator writes the marker after it has answered
the last one, so a transaction that follows at once may be told to come again (CONCURRENT_TRANSACTIONS).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.client.batches.batch_builder import NewRecord, Sequenced, finish_batch, prepare_batch
from penstock.client.brokers import Brokers, CoordinatorKind
from penstock.client.retries import SYSTEM_CHANCE
from penstock.core.time.backoff import Backoff, Pauses
from penstock.core.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.errors import ApiError, ErrorCode, error_of, is_retriable, known_code
from penstock.protocol.message import Message
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)

__all__ = ["FencedError", "NewRecord", "TransactionalWriter"]

# Markers take a few milliseconds.
_BACKOFF = Backoff(0.002, 0.1)
_SEQUENCES = 2**31
_FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
# The partition has not taken the batch, and the producer is as it was. All else leaves open what became of the write.
_REFUSALS = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.POLICY_VIOLATION,
    }
)


class FencedError(Exception):
    """A later writer has begun with the same transactional id. Nothing that this one sends from now on will be written.
    With `is_unknown` the last write may have been committed before: the answer to its end was lost, or was this.
    """

    def __init__(self, text: str = "", *, is_unknown: bool = False) -> None:
        super().__init__(text)
        self.is_unknown = is_unknown


class TransactionalWriter:
    """For one task at a time: one write ends before the next one begins.

    Whatever `write` raises, `has_begun` says whether another write is possible. If it is, or after a FencedError that
    does not say otherwise, the records were not written. If not, what became of them is unknown until `begin` was
    called again, which ends the transaction one way or the other, and the partition was read to its end.
    """

    def __init__(
        self,
        brokers: Brokers,
        transactional_id: str,
        topic: str,
        partition: int,
        *,
        transaction_timeout_ms: int = 60_000,
        timeout_s: float = 30.0,
    ) -> None:
        self._brokers = brokers
        self._transactional_id = transactional_id
        self._topic = topic
        self._partition = partition
        self._transaction_timeout_ms = transaction_timeout_ms
        self._timeout_s = timeout_s
        self._by = Sequenced()

    @property
    def has_begun(self) -> bool:
        """Whether `write` may be called: not before `begin`, nor after FencedError or a write of unknown outcome."""
        return self._by.producer_id != NO_PRODUCER_ID

    async def begin(self) -> None:
        """Fences whoever wrote before, and ends the transaction that it left open. Raises ApiError and OSError."""
        self._by = Sequenced()
        request = InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=self._transaction_timeout_ms,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
        )
        answer: InitProducerIdResponse = await self._ask_coordinator(request, _top_code, self._deadline())
        self._by = Sequenced(answer.producer_id, answer.producer_epoch, 0)

    async def write(self, records: Sequence[NewRecord]) -> int:
        """Returns when the transaction is committed. A reader of committed records has seen these once its position is
        at or behind the number that is returned: the transaction's marker is before it. Raises FencedError, ApiError,
        OSError."""
        if not self.has_begun:
            raise RuntimeError("begin comes before write")
        by, self._by = self._by, Sequenced()  # until the outcome is known
        deadline = self._deadline()
        batch = finish_batch(prepare_batch(records, time.time_ns() // 1_000_000), by, is_transactional=True)
        await self._add_partition(by, deadline)
        try:
            base_offset = await self._produce(batch, deadline)
        except ApiError as error:
            if error.code in _REFUSALS:
                await self._end(by, deadline, is_committed=False)
                self._by = by
            raise
        try:
            await self._end(by, deadline, is_committed=True)
        except FencedError as error:
            raise FencedError(str(error), is_unknown=True) from error
        self._by = by._replace(sequence=(by.sequence + len(records)) % _SEQUENCES)
        return base_offset + len(records) + 1

    # ------------------------------------------------------------------------------------ requests

    async def _add_partition(self, by: Sequenced, deadline: float) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=by.producer_id,
            v3_and_below_producer_epoch=by.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[self._partition])],
        )
        try:
            await self._ask_coordinator(request, _partition_code, deadline)
        except ApiError as error:
            if error.code in _REFUSALS:  # no transaction was begun
                self._by = by
            raise

    async def _produce(self, batch: bytes, deadline: float) -> int:
        part = PartitionProduceData(index=self._partition, records=batch)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=int(self._timeout_s * 1000),
            topic_data=[TopicProduceData(name=self._topic, partition_data=[part])],
        )

        async def ask(timeout_s: float) -> Any:
            return await self._brokers.ask_leader(
                self._topic, self._partition, request, timeout_s=timeout_s, retry=True
            )

        answer = _partition_answer(await _ask_until_done(ask, _produce_code, deadline))
        return answer.base_offset

    async def _end(self, by: Sequenced, deadline: float, *, is_committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=by.producer_id,
            producer_epoch=by.producer_epoch,
            committed=is_committed,
        )
        await self._ask_coordinator(request, _top_code, deadline)

    async def _ask_coordinator(self, request: Message, code_of: Callable[[Any], int], deadline: float) -> Any:
        async def ask(timeout_s: float) -> Any:
            return await self._brokers.ask_coordinator(
                CoordinatorKind.TRANSACTION, self._transactional_id, request, timeout_s=timeout_s, retry=True
            )

        return await _ask_until_done(ask, code_of, deadline)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._timeout_s


async def _ask_until_done(
    ask: Callable[[float], Awaitable[Any]], code_of: Callable[[Any], int], deadline: float
) -> Any:
    """Asks again while the answer is an error that passes. All that is asked here may be asked twice."""
    loop = asyncio.get_running_loop()
    pauses = Pauses(_BACKOFF, SYSTEM_CHANCE)
    while True:
        answer = await ask(max(0.0, deadline - loop.time()))
        code = known_code(code_of(answer))
        if code == ErrorCode.NONE:
            return answer
        if code in _FENCED:
            raise FencedError(ApiError(code).message)
        pause_s = pauses.next_s()
        if not is_retriable(code) or loop.time() + pause_s > deadline:
            raise error_of(code_of(answer), _message_of(answer))
        await asyncio.sleep(pause_s)


def _top_code(answer: Any) -> int:
    code: int = answer.error_code
    return code


def _partition_code(answer: Any) -> int:
    code: int = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
    return code


def _produce_code(answer: Any) -> int:
    return _partition_answer(answer).error_code


def _partition_answer(answer: Any) -> PartitionProduceResponse:
    found: PartitionProduceResponse = answer.responses[0].partition_responses[0]
    return found


def _message_of(answer: Any) -> str | None:
    return _partition_answer(answer).error_message if hasattr(answer, "responses") else None
