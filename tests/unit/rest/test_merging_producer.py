"""Small calls that share batches: everybody is told the truth about its own records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.batch_producer import Appended, BatchProducer, PartOutcome
from penstock.client.batches.batch_builder import RecordFields
from penstock.client.partition_writes.outcomes import NOT_TOLD
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.rest.merging_producer import MergingProducer


class FakeBatches:
    """A partition whose broker refuses batches with a bad record in them, and takes a turn of the loop or two."""

    def __init__(self, turns: int = 2) -> None:
        self.log: list[bytes | None] = []
        self.batches: list[int] = []
        self._turns = turns
        self._order = asyncio.Lock()

    async def produce(self, topic: str, partition: int, records: Sequence[RecordFields]) -> Appended:
        async with self._order:
            for _ in range(self._turns):
                await asyncio.sleep(0)
            values = [value for _, value, _, _ in records]
            if b"bad" in values:
                raise ApiError(ErrorCode.INVALID_RECORD)
            self.batches.append(len(values))
            self.log += values
            return Appended(len(self.log) - len(values), -1)

    async def produce_parts(
        self, topic: str, partition: int, parts: Sequence[Sequence[RecordFields]]
    ) -> list[PartOutcome]:
        """What is behind waits, as with the true one."""
        async with self._order:
            for _ in range(self._turns):
                await asyncio.sleep(0)
            outcomes: list[PartOutcome] = []
            before = len(self.log)
            for part in parts:
                values = [value for _, value, _, _ in part]
                if b"bad" in values:
                    outcomes.append(ApiError(ErrorCode.INVALID_RECORD))
                else:
                    outcomes.append(Appended(len(self.log), -1))
                    self.log += values
            self.batches.append(len(self.log) - before)
            return outcomes

    async def close(self) -> None: ...


def call(*values: bytes) -> list[RecordFields]:
    return [(None, value, (), None) for value in values]


async def produce_all(producer: MergingProducer, calls: Sequence[list[RecordFields]]) -> list[Appended | BaseException]:
    tasks = [asyncio.create_task(producer.produce("t", 0, each)) for each in calls]
    return await asyncio.gather(*tasks, return_exceptions=True)


@settings(max_examples=60)
@given(
    calls=st.lists(
        st.lists(st.sampled_from([b"good", b"bad", b"x" * 200_000]), min_size=1, max_size=4), min_size=1, max_size=30
    ),
    turns=st.integers(0, 3),
)
def test_offsets_are_true_and_order_is_kept_when_calls_share_batches(calls: list[list[bytes]], turns: int) -> None:
    async def run() -> None:
        batches = FakeBatches(turns)
        named = [
            [value if value == b"bad" else b"%d-%d:%b" % (index, place, value) for place, value in enumerate(values)]
            for index, values in enumerate(calls)
        ]
        producer = MergingProducer(cast("BatchProducer", batches))
        outcomes = await produce_all(producer, [call(*values) for values in named])
        good = [each for values in named if b"bad" not in values for each in values]
        assert batches.log == good
        for values, outcome in zip(named, outcomes, strict=True):
            if b"bad" in values:
                assert isinstance(outcome, ApiError)
            else:
                assert isinstance(outcome, Appended)
                first = outcome.base_offset
                assert batches.log[first : first + len(values)] == values
        assert not producer._lanes

    asyncio.run(run())


@settings(max_examples=60)
@given(
    calls=st.lists(st.lists(st.sampled_from([b"good", b"bad"]), min_size=1, max_size=4), min_size=1, max_size=30),
    are_each=st.lists(st.booleans(), min_size=1, max_size=4),
    turns=st.integers(0, 3),
)
def test_every_record_has_its_own_outcome_when_calls_ask_for_that(
    calls: list[list[bytes]], are_each: list[bool], turns: int
) -> None:
    async def run() -> None:
        batches = FakeBatches(turns)
        producer = MergingProducer(cast("BatchProducer", batches))
        named = [
            [value if value == b"bad" else b"%d-%d" % (index, place) for place, value in enumerate(values)]
            for index, values in enumerate(calls)
        ]
        ways = [producer.produce_each if are_each[index % len(are_each)] else producer.produce for index in range(30)]
        tasks = [asyncio.create_task(way("t", 0, call(*values))) for way, values in zip(ways, named, strict=False)]
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        expected: list[bytes] = []
        for way, values, outcome in zip(ways, named, outcomes, strict=False):
            if way == producer.produce_each:
                assert isinstance(outcome, Sequence)
                for value, each in zip(values, outcome, strict=True):
                    if value == b"bad":
                        assert isinstance(each, ApiError)
                    else:
                        assert isinstance(each, Appended)
                        assert batches.log[each.base_offset] == value
                        expected.append(value)
            elif b"bad" not in values:
                expected += values
        assert batches.log == expected
        assert not producer._lanes

    asyncio.run(run())


def test_batches_are_few_when_many_calls_come_together() -> None:
    async def run() -> None:
        batches = FakeBatches()
        await produce_all(MergingProducer(cast("BatchProducer", batches)), [call(b"%d" % each) for each in range(100)])
        assert sum(batches.batches) == 100
        assert len(batches.batches) <= 5

    asyncio.run(run())


def test_others_are_written_when_a_caller_gives_up() -> None:
    async def run() -> None:
        batches = FakeBatches()
        producer = MergingProducer(cast("BatchProducer", batches))
        tasks = [asyncio.create_task(producer.produce("t", 0, call(b"%d" % each))) for each in range(5)]
        await asyncio.sleep(0)
        tasks[3].cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(outcomes[3], asyncio.CancelledError)
        assert batches.log == [b"0", b"1", b"2", b"4"]
        assert [each.base_offset for each in outcomes if isinstance(each, Appended)] == [0, 1, 2, 3]

    asyncio.run(run())


def test_waiting_calls_end_when_the_producer_is_closed() -> None:
    async def run() -> None:
        producer = MergingProducer(cast("BatchProducer", FakeBatches(turns=1_000_000)))
        tasks = [asyncio.create_task(producer.produce("t", 0, call(b"x"))) for _ in range(4)]
        await asyncio.sleep(0)
        for task in tasks[:2]:
            task.cancel()
        await asyncio.gather(*tasks[:2], return_exceptions=True)
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(asyncio.CancelledError):
            await tasks[2]

    asyncio.run(run())


class Untold(FakeBatches):
    """A broker that found batches to be written long ago."""

    async def produce(self, topic: str, partition: int, records: Sequence[RecordFields]) -> Appended:
        await super().produce(topic, partition, records)
        return NOT_TOLD

    async def produce_parts(
        self, topic: str, partition: int, parts: Sequence[Sequence[RecordFields]]
    ) -> list[PartOutcome]:
        await super().produce_parts(topic, partition, parts)
        return [NOT_TOLD] * len(parts)


def test_no_offset_is_made_up_when_the_broker_does_not_tell_it() -> None:
    async def run() -> None:
        producer = MergingProducer(cast("BatchProducer", Untold()))
        assert await produce_all(producer, [call(b"x", b"y") for _ in range(6)]) == [NOT_TOLD] * 6
        assert list(NOT_TOLD.offsets(3)) == [-1, -1, -1]
        assert list(Appended(5, -1).offsets(3)) == [5, 6, 7]

    asyncio.run(run())


def test_every_caller_is_told_when_a_batch_fails_for_a_reason_that_nobody_foresaw() -> None:
    class Broken(FakeBatches):
        async def produce(self, topic: str, partition: int, records: Sequence[RecordFields]) -> Appended:
            await super().produce(topic, partition, records)
            raise ValueError("a mistake of ours")

        async def produce_parts(
            self, topic: str, partition: int, parts: Sequence[Sequence[RecordFields]]
        ) -> list[PartOutcome]:
            raise ValueError("another one")

    async def run() -> None:
        producer = MergingProducer(cast("BatchProducer", Broken()))
        outcomes = await produce_all(producer, [call(b"%d" % each) for each in range(6)])
        assert [type(each) for each in outcomes] == [ValueError] * 6

    asyncio.run(run())
