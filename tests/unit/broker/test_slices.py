from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.slices import SLICE_SECONDS, Slices, Work

STEP = SLICE_SECONDS / 10


class Rig:
    """Slices whose stopwatch moves when work is done, and a record of who worked in which turn of the loop."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slices = Slices(lambda: self.seconds)
        self.turn = 0
        self.worked: list[tuple[str, int]] = []

    def work(self, name: str, steps: int) -> Work[str]:
        for _ in range(steps):
            self.seconds += STEP
            self.worked.append((name, self.turn))
            yield
        return f"{name} is done"

    async def count_turns(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.turn += 1

    def longest(self) -> int:
        """The most steps that were done in one turn of the loop, by all together."""
        turns = [turn for _, turn in self.worked]
        return max(turns.count(turn) for turn in set(turns))


def run(scenario: Callable[[Rig], Awaitable[None]]) -> Rig:
    rig = Rig()

    async def main() -> None:
        counting = asyncio.ensure_future(rig.count_turns())
        await asyncio.sleep(0)
        await scenario(rig)
        counting.cancel()

    asyncio.run(main())
    return rig


async def result_of(answer: str | Awaitable[str]) -> str:
    return answer if isinstance(answer, str) else await answer


def test_result_is_there_at_once_when_one_slice_is_enough() -> None:
    async def scenario(rig: Rig) -> None:
        assert rig.slices.begin(rig.work("small", 9)) == "small is done"

    assert run(scenario).longest() == 9


def test_others_have_their_turn_when_work_is_long() -> None:
    async def scenario(rig: Rig) -> None:
        assert await result_of(rig.slices.begin(rig.work("large", 1_000))) == "large is done"

    rig = run(scenario)
    assert len(rig.worked) == 1_000
    assert rig.longest() <= 11


def test_turns_are_no_longer_when_many_clients_ask_for_everything() -> None:
    async def scenario(rig: Rig) -> None:
        answers = [rig.slices.begin(rig.work(f"client {n}", 100)) for n in range(20)]
        for n, answer in enumerate(answers):
            assert await result_of(answer) == f"client {n} is done"

    rig = run(scenario)
    assert len(rig.worked) == 2_000
    assert rig.longest() <= 22  # one slice, and in the first turn what began at once


def test_turn_is_not_used_up_when_many_small_requests_come_together() -> None:
    async def scenario(rig: Rig) -> None:
        answers = [rig.slices.begin(rig.work(f"client {n}", 5)) for n in range(60)]
        assert [await result_of(answer) for answer in answers] == [f"client {n} is done" for n in range(60)]

    assert run(scenario).longest() <= 22


def test_everybody_goes_on_when_several_work_at_the_same_time() -> None:
    async def scenario(rig: Rig) -> None:
        await asyncio.gather(*(rig.slices.finish(rig.work(name, 100)) for name in "ab"))

    names = [name for name, _ in run(scenario).worked]
    assert set(names[:50]) == {"a", "b"}


def test_error_reaches_the_caller_when_work_fails() -> None:
    def failing(rig: Rig) -> Work[str]:
        yield from rig.work("failing", 50)
        raise ZeroDivisionError

    async def scenario(rig: Rig) -> None:
        with pytest.raises(ZeroDivisionError):
            await result_of(rig.slices.begin(failing(rig)))
        assert await rig.slices.finish(rig.work("next", 50)) == "next is done"

    run(scenario)


def test_queue_goes_on_when_a_client_leaves() -> None:
    async def scenario(rig: Rig) -> None:
        leaving = asyncio.ensure_future(rig.slices.finish(rig.work("leaving", 10_000)))
        staying = asyncio.ensure_future(rig.slices.finish(rig.work("staying", 100)))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == "staying is done"

    assert len(run(scenario).worked) < 200


def test_elements_come_in_order_and_in_slices_when_a_handler_waits_for_each() -> None:
    seen: list[int] = []

    async def scenario(rig: Rig) -> None:
        async for number in rig.slices.each(range(100)):
            rig.seconds += STEP
            rig.worked.append(("each", rig.turn))
            seen.append(number)

    rig = run(scenario)
    assert seen == list(range(100))
    assert rig.longest() <= 11
