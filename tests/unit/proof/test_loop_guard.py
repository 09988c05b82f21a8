"""The simulation notices a broker that blocks its loop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from proof.simulation.loop_guard import LoopGuard
from proof.simulation.machine import Machine, alone
from proof.simulation.notebook import Notebook
from proof.simulation.plan import Mode
from proof.simulation.world import World

PATH = "/data/dead.log.deleted"
DIRECTORY = "/data/not a partition"


class Rig:
    """A simulated broker that serves, and what was found wrong with it."""

    def __init__(self) -> None:
        self.world = World()
        self.notebook = Notebook(self.world, is_strict=True)
        self.machine = Machine(self.world, alone(self.world, Mode.KILLED), random.Random(1), self.notebook)
        self.machine.files.make_directory(DIRECTORY)
        self.machine.files.write_file(PATH, b"dead")
        self.machine.start()
        while self.machine.server is None:
            self.step()

    def step(self) -> None:
        self.world.step()
        self.machine.rest()

    def run(self, work: Coroutine[Any, Any, None]) -> list[str]:
        self.machine.begin(work)
        for _ in range(200):
            self.step()
        return self.notebook.failures


@pytest.mark.parametrize(
    "block",
    [
        lambda files: files.unlink(PATH),
        lambda files: files.remove_tree("/data/orders-0.aa-delete"),
        lambda files: files.list_names("/data"),
        lambda files: files.sync_directory("/data"),
        lambda files: files.write_atomically("/data/some-checkpoint", b"0\n"),
        lambda files: files.rename(DIRECTORY, "/data/orders-0.aa-delete"),
        lambda files: files.open(PATH).truncate(0),
        lambda files: files.make_directory("/data/orders-1"),
        lambda files: files.open("/data/new", create=True),
        lambda files: files.write_file("/data/new", b"0\n"),
        lambda files: files.write_atomically("/data/new", b"0\n", sync=False),
    ],
    ids=[
        *("unlink", "remove_tree", "list", "sync", "checkpoint", "rename", "truncate"),
        *("make_directory", "create", "write_file", "write_atomically"),
    ],
)
def test_a_schedule_fails_with_the_stack_when_the_loop_asks_for_what_may_block(block: Callable[..., object]) -> None:
    rig = Rig()

    async def on_the_loop() -> None:
        block(rig.machine.files)

    (failure,) = rig.run(on_the_loop())
    assert "on the event loop" in failure
    assert "on_the_loop (test_loop_guard.py" in failure


def test_a_schedule_is_sound_when_a_thread_asks_for_the_same() -> None:
    rig = Rig()

    async def in_a_thread() -> None:
        await asyncio.to_thread(rig.machine.files.unlink, PATH)
        await asyncio.to_thread(rig.machine.files.sync_directory, "/data")

    assert rig.run(in_a_thread()) == []


def test_each_place_is_told_once_when_it_blocks_again() -> None:
    failures: list[str] = []
    guard = LoopGuard(failures.append)
    for _ in range(2):
        guard.look("unlink", PATH)
    guard.look("write", PATH)
    guard.look("rename", PATH)
    assert len(failures) == 1
