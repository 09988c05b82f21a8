from __future__ import annotations

import asyncio

import pytest

from penstock.broker.producer_ids import ProducerIds
from penstock.cluster.store.znodes import ProducerIdBlock
from penstock.protocol.errors import ApiError, ErrorCode


class Blocks:
    """Hands out blocks one after another, each time after a turn of the loop."""

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.count = 0
        self.failures = 0

    async def __call__(self) -> ProducerIdBlock:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        self.count += 1
        return ProducerIdBlock((self.count - 1) * self.size, self.size)


def test_ids_differ_when_many_ask_at_once() -> None:
    async def scenario() -> None:
        blocks = Blocks()
        ids = ProducerIds(blocks)
        given = await asyncio.gather(*(ids.next() for _ in range(95)))
        assert sorted(given) == list(range(95))
        assert blocks.count == 10

    asyncio.run(scenario())


def test_no_block_is_taken_when_nobody_asks() -> None:
    blocks = Blocks()
    ProducerIds(blocks)
    assert blocks.count == 0


def test_next_one_gets_an_id_when_a_block_could_not_be_had() -> None:
    async def scenario() -> None:
        blocks = Blocks()
        blocks.failures = 1
        ids = ProducerIds(blocks)
        with pytest.raises(ApiError):
            await ids.next()
        assert await ids.next() == 0

    asyncio.run(scenario())


def test_others_get_ids_when_the_one_who_fetches_the_block_is_cancelled() -> None:
    async def scenario() -> None:
        ids = ProducerIds(Blocks())
        waiting = [asyncio.create_task(ids.next()) for _ in range(5)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        given = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(given[0], asyncio.CancelledError)
        assert sorted(number for number in given if isinstance(number, int)) == [0, 1, 2, 3]

    asyncio.run(scenario())


def test_block_is_asked_for_again_when_an_empty_one_comes() -> None:
    async def scenario() -> None:
        sizes = iter((0, 3))

        async def allocate() -> ProducerIdBlock:
            return ProducerIdBlock(100, next(sizes))

        assert await ProducerIds(allocate).next() == 100

    asyncio.run(scenario())
