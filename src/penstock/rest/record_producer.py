"""Writes the records of one HTTP call to partitions: one batch for each partition, an outcome for each record.

Partitions are chosen as Kafka's clients choose them: the named partition; murmur2 of the key; for records without a key
one partition for the whole call, and the next one for the next call, so that a call makes few batches.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from penstock.client.batch_producer import Appended, BatchProducer, NewRecord, partition_for
from penstock.client.batches.batch_builder import RecordFields
from penstock.client.brokers import Brokers
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.errors import PARTITION_NOT_FOUND, TOPIC_NOT_FOUND, RestError, of_exception
from penstock.rest.merging_producer import MergingProducer

# More records are split beside the loop: a key takes a microsecond or more.
_SPLIT_AT_ONCE = 2_000


class Outgoing(NamedTuple):
    record: NewRecord
    partition: int | None = None


class Written(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int  # from the broker for topics with LogAppendTime, otherwise -1: the record keeps its own


Outcome: TypeAlias = Written | RestError


class BatchOutcome(NamedTuple):
    """The outcome of one batch: its offset, or the errors of its records. Objects for each record would cost as much as
    the rest of the call, where a call has a thousand.
    """

    partition: int
    indexes: Sequence[int]  # the indexes of its records in the call
    result: Appended | Sequence[RestError]


class Producer:
    """The producer of one caller."""

    def __init__(self, brokers: Brokers, delivery_timeout_s: float) -> None:
        self.brokers = brokers
        self._batches = MergingProducer(BatchProducer(brokers, delivery_timeout_s=delivery_timeout_s))
        self._turns = itertools.count()

    async def count_partitions(self, topic: str) -> int:
        """Creates the topic where the brokers do that. Raises RestError: 40401, and 50302 where no broker answers."""
        try:
            return await self.brokers.partitions(topic, may_create=True)
        except ApiError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise RestError(TOPIC_NOT_FOUND, "there is no such topic") from None
            raise _failure(error, topic) from None
        except OSError as error:
            raise _failure(error, topic) from None

    async def produce(self, topic: str, records: Sequence[Outgoing]) -> list[Outcome]:
        """In the order of the records. A refused record does not keep the others out, and the order within a partition
        holds, also with later calls. Raises as `write` does.
        """
        fields = [each.record for each in records]
        batches = await self._plan(topic, fields, [each.partition for each in records])
        outcomes: list[Outcome | None] = [None] * len(records)

        async def produce_batch(partition: int, indexes: Sequence[int]) -> None:
            written = await self._batches.produce_each(topic, partition, [fields[each] for each in indexes])
            for index, each in zip(indexes, written, strict=True):
                outcomes[index] = _failure(each, topic) if isinstance(each, Exception) else Written(partition, *each)

        if len(batches) == 1:
            await produce_batch(*next(iter(batches.items())))
        else:
            await asyncio.gather(*(produce_batch(*each) for each in batches.items()))
        return [each for each in outcomes if each is not None]

    async def write(
        self, topic: str, records: Sequence[RecordFields], partitions: Sequence[int | None] | int | None
    ) -> Sequence[BatchOutcome]:
        """`partitions` has one for each record, the same for all, or none. Raises RestError where nothing was written:
        no such topic or partition.
        """
        batches = await self._plan(topic, records, partitions, is_long=len(records) > _SPLIT_AT_ONCE)
        if len(batches) == 1:
            ((partition, indexes),) = batches.items()
            return (await self._write(topic, partition, indexes, records),)
        return await asyncio.gather(
            *(
                self._write(topic, partition, indexes, [records[each] for each in indexes])
                for partition, indexes in batches.items()
            )
        )

    async def _plan(
        self,
        topic: str,
        records: Sequence[RecordFields],
        partitions: Sequence[int | None] | int | None,
        *,
        is_long: bool = False,
    ) -> dict[int, Sequence[int]]:
        """Indexes of records by partition; beside the loop if it takes long. Raises RestError."""
        count = await self.count_partitions(topic)
        if isinstance(partitions, Sequence) and partitions.count(None) == len(partitions):
            partitions = None
        if isinstance(partitions, int):
            _check(partitions, count)
            return {partitions: range(len(records))}
        if partitions is None and not any(record[0] is not None for record in records):
            return {next(self._turns) % count: range(len(records))}
        if is_long:
            return await asyncio.to_thread(self._split, records, partitions, count)
        return self._split(records, partitions, count)

    def _split(
        self, records: Sequence[RecordFields], partitions: Sequence[int | None] | None, count: int
    ) -> dict[int, Sequence[int]]:
        batches: dict[int, list[int]] = {}
        named: Sequence[int | None] = [None] * len(records) if partitions is None else partitions
        sticky = -1
        for index, (record, partition) in enumerate(zip(records, named, strict=True)):
            if partition is None:
                key = record[0]
                if key is not None:
                    partition = partition_for(key, count)
                else:
                    if sticky < 0:
                        sticky = next(self._turns) % count
                    partition = sticky
            else:
                _check(partition, count)
            batches.setdefault(partition, []).append(index)
        return dict(batches)

    async def _write(
        self, topic: str, partition: int, indexes: Sequence[int], records: Sequence[RecordFields]
    ) -> BatchOutcome:
        try:
            return BatchOutcome(partition, indexes, await self._batches.produce(topic, partition, records))
        except (ApiError, OSError) as error:
            return BatchOutcome(partition, indexes, _failures(error, topic, len(records)))

    async def close(self) -> None:
        await self._batches.close()


def _check(partition: int, count: int) -> None:
    if not 0 <= partition < count:
        raise RestError(PARTITION_NOT_FOUND, "the topic has no such partition")


_NOT_ALLOWED = frozenset({ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED})


def _failures(error: ApiError | OSError, topic: str, count: int) -> list[RestError]:
    """A broker that names refused records refuses the whole batch: the answers of the others tell that."""
    known = _failure(error, topic)
    named = dict(error.record_errors) if isinstance(error, ApiError) else {}
    return [RestError(known.code, named[each]) if each in named else known for each in range(count)]


def _failure(error: Exception, topic: str) -> RestError:
    """A caller that may write to no topic at all gets no producer id, and the broker calls that a right on the cluster.
    The caller really lacks the right to write to the topic.
    """
    if isinstance(error, ApiError) and error.code in _NOT_ALLOWED:
        error = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"not allowed to write to topic {topic}")
    known = of_exception(error)
    assert known is not None, "errors of brokers and of connections are known"
    named = error.record_errors if isinstance(error, ApiError) else ()
    return RestError(known.code, named[0][1]) if len(named) == 1 and named[0][1] else known
