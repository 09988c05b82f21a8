"""What can be done to machines, the network between them and their ways to the store, and undone after a while."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

from proof.simulation.client import Setting
from proof.simulation.cluster.checks import is_whole
from proof.simulation.cluster.network import Network
from proof.simulation.cluster.store import SharedStoreLink
from proof.simulation.machine import End, Machine
from proof.simulation.schedule import FAULTS
from proof.simulation.world import MachineClock

_RESTART_MS = (1, 80, 900, 5_000)


class Surface(NamedTuple):
    """Where faults can strike."""

    network: Network
    links: list[SharedStoreLink]
    clocks: list[MachineClock]


class Stage:
    def __init__(self, setting: Setting, surface: Surface, chance: random.Random) -> None:
        self.setting = setting
        self.world = setting.world
        self.machines = setting.machines
        self.network, self.links, self.clocks = surface
        self.chance = chance
        self.isolated: set[int] = set()
        self.is_over = False
        self._active = 0  # cuts and standstills under way

    def heal_all(self) -> None:
        """Everything heals, and every machine runs."""
        self.is_over = True
        self.network.heal_all()
        self.slow_network(0)
        self.isolated.clear()
        for place, machine in enumerate(self.machines):
            self.clocks[place].skew_ms = 0
            machine.heal()
            self.set_speed(place, 1)
            self.go_on(place)
            self.links[place].heal()
            self._start(place)

    def start_again_with_good_disks(self) -> None:
        """As an operator does, when every machine runs."""
        for place, machine in enumerate(self.machines):
            if _has_failed_disk(machine):
                self.crash(place, 0, is_power_cut=False)

    def is_well(self) -> bool:
        """Nothing is cut, nobody is away, and every replica is in sync."""
        servers = [machine.server for machine in self.machines]
        brokers = [server.broker for server in servers if server is not None]
        is_quiet = not self._active and not any(machine.is_ending for machine in self.machines)
        return is_quiet and len(brokers) == len(self.machines) and is_whole(brokers)

    def for_a_while(self, length_ms: float, end: Callable[[], None]) -> None:
        self._active += 1

        def finish() -> None:
            self._active -= 1
            if not self.is_over:
                end()

        self.world.after(length_ms, FAULTS, finish)

    # ---- processes

    def crash(self, place: int, changes: int, *, is_power_cut: bool) -> None:
        end = End.POWER_CUT if is_power_cut else End.KILL
        self.machines[place].crash(end, changes, functools.partial(self._start_soon, place))

    def lose_disk(self, place: int) -> None:
        self.machines[place].crash(End.LOST_DISK, 0, functools.partial(self._start_soon, place))

    def restart(self, place: int) -> None:
        self.machines[place].stop(functools.partial(self._start_soon, place))

    def _start_soon(self, place: int) -> None:
        self.world.after(self.chance.choice(_RESTART_MS), FAULTS, functools.partial(self._start, place))

    def _start(self, place: int) -> None:
        self.network.power_is_back(place)
        self.machines[place].start()

    def pause(self, place: int, length_ms: float) -> None:
        loop = self.machines[place].loop
        if loop is not None:
            self.setting.notebook.note(f"broker {place}", "stands still")
            self.links[place].pause()
            loop.is_paused = True
            self.for_a_while(length_ms, functools.partial(self.go_on, place))

    def go_on(self, place: int) -> None:
        loop = self.machines[place].loop
        if loop is not None and loop.is_paused:
            self.setting.notebook.note(f"broker {place}", "goes on")
            loop.is_paused = False
        self.links[place].go_on()

    def set_speed(self, place: int, slowness: float) -> None:
        """How many times longer than usual the disk takes, as threads see it."""
        loop = self.machines[place].loop
        if loop is not None:
            loop.slowness = slowness

    # ---- the network and the store

    def cut_ways(self, ways: Iterable[tuple[int, int]], length_ms: float) -> None:
        for way in ways:
            self.network.cut(*way)
            self.for_a_while(length_ms, functools.partial(self.network.heal, *way))

    def isolate(self, place: int, length_ms: float) -> None:
        others = [other for other in range(len(self.machines)) if other != place]
        self.cut_ways([way for other in others for way in ((place, other), (other, place))], length_ms)
        self.isolated.add(place)
        self.for_a_while(length_ms, functools.partial(self.isolated.discard, place))
        self.cut_from_store(place, length_ms)

    def slow_network(self, length_ms: float) -> None:
        self.network.slow_until_ms = self.setting.slow_until_ms = self.world.time_ms + length_ms

    def cut_from_store(self, place: int, length_ms: float, *, is_noticed: bool = False) -> None:
        link = self.links[place]
        (link.reset if is_noticed else link.cut)()
        self.for_a_while(length_ms, link.heal)

    def at_write(self, place: int, action: Callable[[], None], *, is_before: bool) -> None:
        """Something happens to the process just before or just after its next change of the store."""
        later = functools.partial(self.world.after, 0, FAULTS, action)
        self.links[place].at_next_write(later, is_before=is_before)


def _has_failed_disk(machine: Machine) -> bool:
    """Whether a log is offline: a broker serves it again after the next start."""
    server = machine.server
    return server is not None and any(not partition.is_online for partition in server.broker.partitions)
