from __future__ import annotations

import asyncio

from penstock.broker.partitions.purgatory import Waiter

FOREVER_MS = 2**31 - 1


class Place:
    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}


def test_waiting_ends_when_enough_bytes_have_arrived_on_any_partition() -> None:
    async def scenario() -> None:
        places = [Place(), Place()]
        waiter = Waiter(100)
        waiting = waiter.wait(places, FOREVER_MS)
        for place in places:
            assert place.waiters == {waiter: None}
        waiter.arrived(60)
        assert not waiting.done()
        waiter.arrived(40)
        await waiting
        await asyncio.sleep(0)
        assert not any(place.waiters for place in places)

    asyncio.run(scenario())


def test_nothing_is_missed_when_bytes_arrive_before_anybody_awaits() -> None:
    """The request's task starts a turn of the loop later than the look that found nothing."""

    async def scenario() -> None:
        place = Place()
        waiting = Waiter(1).wait([place], FOREVER_MS)
        for waiter in tuple(place.waiters):
            waiter.arrived(1)
        await asyncio.wait_for(waiting, 1)

    asyncio.run(scenario())


def test_waiting_ends_when_time_is_up() -> None:
    async def scenario() -> None:
        place = Place()
        await Waiter(1).wait([place], 1)
        await asyncio.sleep(0)
        assert not place.waiters

    asyncio.run(scenario())


def test_waiting_ends_when_woken_without_bytes() -> None:
    async def scenario() -> None:
        waiter = Waiter(100)
        waiting = waiter.wait([Place()], FOREVER_MS)
        waiter.wake()
        waiter.wake()
        waiter.arrived(1)
        await waiting

    asyncio.run(scenario())


def test_nothing_is_left_behind_when_the_request_is_cancelled() -> None:
    async def scenario() -> None:
        place = Place()

        async def request() -> None:
            await Waiter(1).wait([place], FOREVER_MS)

        task = asyncio.create_task(request())
        await asyncio.sleep(0)
        assert len(place.waiters) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0)
        assert not place.waiters

    asyncio.run(scenario())


def test_thousands_wait_for_one_partition_when_each_wakes_by_itself() -> None:
    async def scenario() -> None:
        place = Place()
        waiting = [Waiter(needed).wait([place], FOREVER_MS) for needed in range(1, 2_001)]
        for _ in range(1_000):
            for waiter in tuple(place.waiters):
                waiter.arrived(1)
        await asyncio.sleep(0)
        assert sum(each.done() for each in waiting) == 1_000
        assert len(place.waiters) == 1_000
        for waiter in tuple(place.waiters):
            waiter.wake()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())
