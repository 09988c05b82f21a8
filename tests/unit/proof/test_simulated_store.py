"""Machines and the store that they share: whose session ends when, in the world's time."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.cluster.store.interface import SessionState, StoreError, StoreErrorKind
from penstock.cluster.store.memory import MemoryStore, MemoryTree
from proof.simulation.cluster.store import SESSION_TIMEOUT_MS, SharedStoreLink
from proof.simulation.virtual_loop import VirtualLoop
from proof.simulation.world import World, owner_of

NODE = "/here"
A_TICK_MORE_MS = SESSION_TIMEOUT_MS + 600


class Process:
    """One process after the other that uses the store in a loop of its own."""

    def __init__(self, world: World, tree: MemoryTree, place: int) -> None:
        self._world = world
        self._place = place
        self.link = SharedStoreLink(world, tree, owner_of(place), lambda action: self.loop.enter(action))
        self.start()

    def start(self) -> None:
        self.loop = VirtualLoop(self._world, random.Random(1), owner_of(self._place))  # type: ignore[abstract]
        self.store: MemoryStore = self.link.open(random.Random(2), lambda: False)

    def kill(self) -> None:
        self.loop.die()
        self.link.abandon()


class Rig:
    def __init__(self) -> None:
        self.world = World()
        tree = MemoryTree()
        self.one, self.other = (Process(self.world, tree, place) for place in range(2))

    def begin(self, process: Process, work: Coroutine[Any, Any, Any]) -> list[Any]:
        done: list[Any] = []

        async def run() -> None:
            try:
                done.append(await work)
            except StoreError as error:
                done.append(error.kind)

        process.loop.enter(lambda: done.clear() if process.loop.create_task(run()) is None else None)
        return done

    def run(self, process: Process, work: Coroutine[Any, Any, Any]) -> Any:
        done = self.begin(process, work)
        self.until(lambda: bool(done))
        return done[0]

    def until(self, condition: Callable[[], bool]) -> None:
        self._rest()
        while not condition():
            self.world.step()
            self._rest()

    def wait(self, length_ms: float) -> None:
        end_ms = self.world.time_ms + length_ms
        self.world.at(end_ms, 0, lambda: None)
        self.until(lambda: self.world.time_ms >= end_ms)

    def _rest(self) -> None:
        while self.one.loop.has_work or self.other.loop.has_work:
            self.one.loop.rest()
            self.other.loop.rest()

    def is_there(self) -> bool:
        return self.run(self.other, self.other.store.read(NODE)) is not None


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.run(made.one, made.one.store.create(NODE, ephemeral=True))
    return made


def test_the_session_stays_for_its_time_when_its_process_is_killed(rig: Rig) -> None:
    rig.one.kill()
    rig.wait(SESSION_TIMEOUT_MS / 2)
    assert rig.is_there()
    rig.wait(A_TICK_MORE_MS - SESSION_TIMEOUT_MS / 2)
    assert not rig.is_there()


def test_the_node_of_a_former_self_is_there_when_a_process_comes_back_quickly(rig: Rig) -> None:
    former = rig.one.store.session_id
    rig.one.kill()
    rig.one.start()
    node = rig.run(rig.one, rig.one.store.read(NODE))
    assert node.owner == former != rig.one.store.session_id


def test_the_session_ends_when_its_process_stands_still_too_long(rig: Rig) -> None:
    rig.run(rig.other, rig.other.store.read(NODE))
    rig.one.loop.is_paused = True
    rig.one.link.pause()
    rig.wait(A_TICK_MORE_MS)
    assert not rig.is_there()
    assert rig.one.store.session_state is SessionState.CONNECTED  # it does not know yet
    former = rig.one.store.session_id
    rig.one.loop.is_paused = False
    rig.one.link.go_on()
    rig.until(lambda: rig.one.store.session_id != former)
    assert rig.one.store.session_state is SessionState.CONNECTED


def test_the_session_stays_when_its_process_stands_still_for_a_moment(rig: Rig) -> None:
    rig.one.loop.is_paused = True
    rig.one.link.pause()
    rig.wait(SESSION_TIMEOUT_MS / 2)
    rig.one.loop.is_paused = False
    rig.one.link.go_on()
    rig.wait(A_TICK_MORE_MS)
    assert rig.is_there()


def test_a_question_fails_and_the_session_ends_when_the_store_is_cut_off(rig: Rig) -> None:
    rig.one.link.cut()
    assert rig.run(rig.one, rig.one.store.read(NODE)) is StoreErrorKind.UNAVAILABLE
    rig.wait(A_TICK_MORE_MS)
    assert not rig.is_there()
    rig.one.link.heal()
    rig.until(lambda: rig.one.store.session_state is SessionState.CONNECTED)


def test_another_process_is_told_when_a_node_changes(rig: Rig) -> None:
    told: list[str] = []
    rig.other.loop.enter(lambda: told.clear() if rig.other.store.watch(NODE, told.append) is None else None)
    rig.run(rig.one, rig.one.store.compare_and_set(NODE, b"new", None))
    rig.until(lambda: told == [NODE])


def test_something_happens_between_a_change_and_its_answer_when_that_is_wanted(rig: Rig) -> None:
    seen: list[bool] = []
    rig.one.link.at_next_write(lambda: seen.append(True), is_before=False)
    done = rig.begin(rig.one, rig.one.store.create("/after"))
    rig.until(lambda: bool(seen))
    assert not done
    assert rig.run(rig.other, rig.other.store.read("/after")) is not None
