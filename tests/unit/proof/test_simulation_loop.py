"""Virtual time and the event loop in it."""

from __future__ import annotations

import asyncio
import gc
import random
import warnings
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.broker.session import Settling
from proof.simulation.virtual_loop import VirtualLoop, let_go
from proof.simulation.world import World


class Stage:
    def __init__(self) -> None:
        self.world = World()
        self.loop = VirtualLoop(self.world, random.Random(1))  # type: ignore[abstract]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        tasks: list[asyncio.Task[Any]] = []
        self.loop.enter(lambda: tasks.append(self.loop.create_task(work)))
        while not tasks[0].done():
            assert self.world.next_time() is not None, "it waits for something that never comes"
            self.world.step()
            self.loop.rest()
        return tasks[0].result()


def test_an_hour_takes_no_time_when_a_task_sleeps_that_long() -> None:
    stage = Stage()
    stage.run(asyncio.sleep(3_600))
    assert stage.world.time_ms == pytest.approx(3_600_000)


def test_sleepers_wake_in_the_order_of_their_times_when_they_began_in_another() -> None:
    order: list[int] = []

    async def sleep(milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)
        order.append(milliseconds)

    async def all_of_them() -> None:
        await asyncio.gather(*(sleep(each) for each in (30, 10, 20)))

    Stage().run(all_of_them())
    assert order == [10, 20, 30]


def test_a_timer_never_fires_early_when_its_time_is_no_round_number() -> None:
    stage = Stage()

    async def wait_often() -> None:
        loop = asyncio.get_running_loop()
        chance = random.Random(5)
        for _ in range(1_000):
            when = loop.time() + chance.random()
            fired = loop.create_future()
            loop.call_at(when, fired.set_result, None)
            await fired
            assert loop.time() >= when

    stage.run(wait_often())


def test_work_for_a_thread_is_done_and_its_error_arrives_when_it_fails() -> None:
    def fail() -> None:
        raise ValueError("no")

    async def work() -> str:
        assert await asyncio.to_thread(lambda: 7) == 7
        try:
            await asyncio.get_running_loop().run_in_executor(None, fail)
        except ValueError as error:
            return str(error)
        return ""

    assert Stage().run(work()) == "no"


def test_a_time_out_strikes_when_its_time_has_come() -> None:
    async def work() -> None:
        async with asyncio.timeout(5):
            await asyncio.Event().wait()

    stage = Stage()
    with pytest.raises(TimeoutError):
        stage.run(work())
    assert stage.world.time_ms == pytest.approx(5_000)


def test_everything_is_cancelled_when_a_life_ends() -> None:
    stage = Stage()
    ended: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(lambda: None)
            ended.append("cleaned up")

    stage.loop.enter(lambda: ended.append(stage.loop.create_task(wait()).get_name()))
    stage.loop.die()
    assert ended[1:] == ["cleaned up"]
    assert not stage.loop.tasks
    assert not stage.loop.failures


def test_an_exception_that_nobody_catches_is_kept_when_a_callback_raises_it() -> None:
    stage = Stage()

    def fail() -> None:
        raise ValueError("oh")

    stage.loop.enter(lambda: None)
    stage.loop.call_soon(fail)
    stage.loop.rest()
    assert "oh" in stage.loop.failures[0]


def test_the_owner_decides_among_events_when_they_are_due_at_one_moment() -> None:
    world, order = World(), []
    for owner in (3, 1, 2):
        world.at(5, owner, lambda owner=owner: order.append(owner))  # type: ignore[misc]
    while world.next_time() is not None:
        world.step()
    assert order == [1, 2, 3]


async def _settle() -> None:
    raise AssertionError("it never begins")


async def _wait(work: Coroutine[Any, Any, None] | Settling[None]) -> None:
    await work


def test_python_does_not_complain_when_a_life_ends_in_the_turn_in_which_a_request_began() -> None:
    """`coroutine '_respond_when_safe' was never awaited`, once in a hundred schedules."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stage = Stage()
        stage.loop.create_task(_wait(Settling(_wait(_settle()))))
        stage.loop.die()
        let_go(Settling(_wait(_settle())))
        let_go([b"a reply that is ready"])
        del stage
        gc.collect()
    assert [str(each.message) for each in caught] == []
