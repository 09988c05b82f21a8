"""Bytes that callers share: none is lost, whoever is cancelled and whenever."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.byte_budget import ByteBudget


def test_others_are_let_in_when_one_is_cancelled_in_the_turn_in_which_room_is_given_back() -> None:
    async def run() -> None:
        budget = ByteBudget(10)
        await budget.take(10)
        waiting = [asyncio.create_task(budget.take(size)) for size in (10, 6, 4)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        budget.give_back(10)  # before the cancelled task has run
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert outcomes[1:] == [None, None]
        assert budget.taken == 10
        budget.give_back(6)
        budget.give_back(4)
        assert budget.taken == 0

    asyncio.run(run())


def test_room_is_free_again_when_one_is_cancelled_in_the_turn_in_which_it_is_let_in() -> None:
    async def run() -> None:
        budget = ByteBudget(10)
        await budget.take(10)
        waiting = [asyncio.create_task(budget.take(10)) for _ in range(2)]
        await asyncio.sleep(0)
        budget.give_back(10)
        waiting[0].cancel()
        outcomes = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(outcomes[0], asyncio.CancelledError)
        assert outcomes[1] is None
        assert budget.taken == 10

    asyncio.run(run())


@given(st.lists(st.tuples(st.sampled_from(["take", "cancel", "give back", "turn"]), st.integers(0, 10)), max_size=40))
def test_taken_is_what_is_held_and_nobody_waits_beside_free_room(steps: list[tuple[str, int]]) -> None:
    async def run() -> None:
        budget, held = ByteBudget(10), list[int]()
        tasks: list[asyncio.Task[None]] = []

        async def take(size: int) -> None:
            await budget.take(size)
            held.append(size)

        for step, number in steps:
            if step == "take":
                tasks.append(asyncio.create_task(take(number)))
            elif step == "cancel" and tasks:
                tasks[number % len(tasks)].cancel()
            elif step == "give back" and held:
                budget.give_back(held.pop(number % len(held)))
            else:
                await asyncio.sleep(0)
        while not all(task.done() for task in tasks):
            for _ in range(3):
                await asyncio.sleep(0)
            assert budget.taken == sum(held) <= 10
            if held:
                budget.give_back(held.pop())
        assert budget.taken == sum(held)

    asyncio.run(run())
