"""Bytes on their way are bounded: those who come later wait, in their order."""

from __future__ import annotations

import asyncio

import pytest

from penstock.rest.errors import RestError
from penstock.rest.inflight_bytes import InflightBytes


def test_later_ones_wait_when_there_is_no_room() -> None:
    async def run() -> list[str]:
        under_way, order = InflightBytes(100), list[str]()
        release = asyncio.Event()

        async def send(name: str, size: int) -> None:
            async with under_way.sending_bytes(size):
                order.append(name)
                assert under_way.sending <= 100
                if name == "first":
                    await release.wait()

        tasks = [asyncio.create_task(send(name, size)) for name, size in (("first", 60), ("second", 50), ("third", 10))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert order == ["first"]  # the third would fit, and does not overtake the second
        release.set()
        await asyncio.gather(*tasks)
        assert under_way.sending == 0
        return order

    assert asyncio.run(run()) == ["first", "second", "third"]


def test_room_is_given_back_when_one_that_waits_is_cancelled() -> None:
    async def run() -> None:
        under_way = InflightBytes(10)

        async def hold(size: int) -> None:
            async with under_way.sending_bytes(size):
                await asyncio.Event().wait()

        first, second, third = (asyncio.create_task(hold(size)) for size in (10, 10, 5))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(0)
        assert under_way.sending == 5
        third.cancel()
        await asyncio.gather(third, return_exceptions=True)
        assert under_way.sending == 0

    asyncio.run(run())


def test_one_passes_when_it_is_larger_than_all_room() -> None:
    async def run() -> None:
        async with InflightBytes(10).sending_bytes(1_000):
            pass

    asyncio.run(run())


def test_what_grows_is_counted_and_refused_when_there_is_no_room() -> None:
    async def run() -> None:
        under_way = InflightBytes(100)
        await under_way.begin(10)
        await under_way.begin(40)
        assert under_way.grow(10, 5) == 10
        assert under_way.grow(10, 60) == 60
        with pytest.raises(RestError):
            under_way.grow(40, 41)
        assert under_way.sending == 100
        under_way.end(60)
        assert under_way.grow(40, 1_000) == 1_000  # nobody else is there
        under_way.end(1_000)
        assert under_way.sending == 0

    asyncio.run(run())
