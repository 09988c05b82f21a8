"""Batches of a partition whose broker answers in ways that are not usual."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.batches.batch_builder import NewRecord, prepare_batch
from penstock.client.partition_writes.outcomes import Appended
from penstock.client.partition_writes.partition_writer import PartitionWriter, ProducerBatch
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.own_time import run_in_own_time
from tests.unit.client.partition_model import LinkModel, PartitionModel

NEWER_CODE = 9_999


class ScriptedPartition(PartitionModel):
    """Answers the batches that come from the second on as it is told to."""

    def __init__(self, *answers: ProduceResponse) -> None:
        super().__init__()
        self._answers = list(answers)
        self._count = 0

    def serve(self, link: LinkModel, batch: bytes, answer: asyncio.Future[ProduceResponse]) -> None:
        self._count += 1
        if self._count > 1 and self._answers:
            answer.set_result(self._answers.pop(0))
        else:
            super().serve(link, batch, answer)


def answer_with(code: int) -> ProduceResponse:
    part = PartitionProduceResponse(error_code=code, base_offset=-1)
    return ProduceResponse(responses=[TopicProduceResponse(partition_responses=[part])])


def new_batch(value: bytes, patience_s: float) -> ProducerBatch:
    loop = asyncio.get_running_loop()
    return ProducerBatch(loop.create_future(), loop.time() + patience_s, prepare_batch([NewRecord(value=value)], 0))


async def write(writer: PartitionWriter, value: bytes, patience_s: float = 10.0) -> Appended:
    batch = new_batch(value, patience_s)
    writer.add(batch)
    async with asyncio.timeout(2 * patience_s):
        return await batch.done


def test_batch_fails_and_the_next_is_written_when_the_broker_tells_an_error_that_nobody_knows() -> None:
    async def run() -> None:
        partition = ScriptedPartition(answer_with(NEWER_CODE))
        writer = PartitionWriter(partition, "t", 0)
        await write(writer, b"a")
        with pytest.raises(ApiError, match=str(NEWER_CODE)) as refused:
            await write(writer, b"b")
        assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
        await write(writer, b"c")
        assert partition.log == [b"a", b"c"]
        await writer.close()

    run_in_own_time(run())


def test_batch_is_sent_again_when_an_answer_makes_no_sense() -> None:
    async def run() -> None:
        partition = ScriptedPartition(ProduceResponse(responses=[]))
        writer = PartitionWriter(partition, "t", 0)
        for value in (b"a", b"b", b"c"):
            await write(writer, value)
        assert partition.log == [b"a", b"b", b"c"]
        await writer.close()

    run_in_own_time(run())


class Electing(PartitionModel):
    """Over one link that others use, too."""

    def __init__(self, until_s: float) -> None:
        super().__init__()
        self._until_s = until_s
        self.link = LinkModel(self)

    async def connect_leader(self, topic: str, partition: int) -> LinkModel:
        return self.link

    def serve(self, link: LinkModel, batch: bytes, answer: asyncio.Future[ProduceResponse]) -> None:
        if self.log and asyncio.get_running_loop().time() < self._until_s:
            link.answer(answer, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            super().serve(link, batch, answer)


def test_connection_stays_when_an_election_takes_longer_than_an_answer_may() -> None:
    async def run() -> None:
        partition = Electing(until_s=50.0)
        writer = PartitionWriter(partition, "t", 0)
        await write(writer, b"a")
        await write(writer, b"b", patience_s=100.0)
        assert asyncio.get_running_loop().time() >= 50.0
        assert partition.link.is_open
        assert partition.log == [b"a", b"b"]
        await writer.close()

    run_in_own_time(run())
