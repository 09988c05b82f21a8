"""What goes wrong among several machines.

The power may fail on one machine at a time, and only while all is well. What the in-sync replicas have acknowledged is
in the page caches of them all. A broker that lost its own must not be the last in-sync one: that is promised only with
eligible leader replicas (KIP-966). So until that machine has caught up, no other one is taken out of the in-sync sets.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import NamedTuple

from penstock.cluster.store.memory import LostAnswer
from penstock.proof.simulation.client import Setting
from penstock.proof.simulation.cluster.checks import is_whole
from penstock.proof.simulation.cluster.network import Network
from penstock.proof.simulation.cluster.store import SharedStoreLink
from penstock.proof.simulation.course import FAULTS
from penstock.proof.simulation.plan import Fault, FaultKind
from penstock.proof.simulation.world import MachineClock

_RESTART_MS = (1, 80, 900, 5_000)
_PAUSE_AT_WRITE_MS = (300, 3_500)
_SLOWNESS = 40.0
_HARMLESS = frozenset(
    {FaultKind.CLOCK_JUMP, FaultKind.SLOW_NETWORK, FaultKind.SLOW_DISK, FaultKind.RESET, FaultKind.LOST_ANSWER}
)


class Surface(NamedTuple):
    """Where faults can strike."""

    network: Network
    links: list[SharedStoreLink]
    clocks: list[MachineClock]


class Faults:
    def __init__(self, setting: Setting, surface: Surface, chance: random.Random) -> None:
        self._setting = setting
        self._world = setting.world
        self._notebook = setting.notebook
        self._machines = setting.machines
        self._network, self._links, self._clocks = surface
        self._chance = chance
        self._is_over = False
        self._active = 0  # cuts and standstills under way
        self._isolated: set[int] = set()
        self._damaged: int | None = None  # the machine whose power failed, or is about to
        self._has_failed = False  # its power has

    # ---- all that happens

    def strike(self, fault: Fault) -> None:
        if self._is_over:
            return
        machines = fault.machines or self._controller()
        self._notebook.note("fault", f"{fault.kind.value} {fault.length_ms} {machines}")
        if fault.kind not in _HARMLESS and not self._may_strike(machines):
            self._notebook.note("fault", "spared: a machine without its page cache is not in sync yet")
            return
        _STRIKES[fault.kind](self, fault, machines)

    def end_all(self) -> None:
        """Everything heals, and every machine runs."""
        self._is_over = True
        self._network.heal_all()
        self._network.slow_until_ms = self._setting.slow_until_ms = 0
        self._isolated.clear()
        for place, machine in enumerate(self._machines):
            self._clocks[place].skew_ms = 0
            machine.heal()
            self._set_speed(place, 1)
            self._go_on(place)
            self._links[place].heal()
            self._start(place)

    def is_isolated(self, place: int) -> bool:
        return place in self._isolated

    def process_ended(self, place: int, is_power_cut: bool) -> None:
        self._network.process_ended(place, is_power_cut=is_power_cut)
        if is_power_cut:
            self._has_failed = True

    def _controller(self) -> tuple[int, ...]:
        """The machine that most believe to be the controller's."""
        images = [machine.server.broker.metadata.image for machine in self._machines if machine.server is not None]
        newest = max(images, key=lambda image: image.controller_epoch, default=None)
        if newest is None or newest.controller_id < 0:
            return (0,)
        return (newest.controller_id,)

    # ---- which machine may be struck

    def _may_strike(self, machines: tuple[int, ...]) -> bool:
        if self._damaged is None:
            return True
        if self._has_failed and self._is_well():
            self._damaged = None
            return True
        return machines == (self._damaged,)

    def _is_well(self) -> bool:
        servers = [machine.server for machine in self._machines]
        brokers = [server.broker for server in servers if server is not None]
        is_quiet = not self._active and not any(machine.is_ending for machine in self._machines)
        return is_quiet and len(brokers) == len(self._machines) and is_whole(brokers)

    # ---- processes

    def _kill(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._machines[place].crash(False, fault.length_ms, functools.partial(self._start_soon, place))

    def _cut_power(self, fault: Fault, machines: tuple[int, ...]) -> None:
        if not self._is_well():
            self._kill(fault, machines)
            return
        (place,) = machines
        self._damaged, self._has_failed = place, False
        self._machines[place].crash(True, fault.length_ms, functools.partial(self._start_soon, place))

    def _restart(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._machines[place].stop(functools.partial(self._start_soon, place))

    def _start_soon(self, place: int) -> None:
        self._world.after(self._chance.choice(_RESTART_MS), FAULTS, functools.partial(self._start, place))

    def _start(self, place: int) -> None:
        self._network.power_is_back(place)
        self._machines[place].start()

    def _pause(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._pause_one(place, fault.length_ms)

    def _pause_one(self, place: int, length_ms: float) -> None:
        loop = self._machines[place].loop
        if loop is not None:
            self._notebook.note(f"broker {place}", "stands still")
            self._links[place].pause()
            loop.is_paused = True
            self._for_a_while(length_ms, functools.partial(self._go_on, place))

    def _go_on(self, place: int) -> None:
        loop = self._machines[place].loop
        if loop is not None and loop.is_paused:
            self._notebook.note(f"broker {place}", "goes on")
            loop.is_paused = False
        self._links[place].go_on()

    def _slow_disk(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._set_speed(place, _SLOWNESS)
            self._for_a_while(fault.length_ms, functools.partial(self._set_speed, place, 1))

    def _set_speed(self, place: int, slowness: float) -> None:
        loop = self._machines[place].loop
        if loop is not None:
            loop.slowness = slowness

    def _for_a_while(self, length_ms: float, end: Callable[[], None]) -> None:
        self._active += 1

        def finish() -> None:
            self._active -= 1
            if not self._is_over:
                end()

        self._world.after(length_ms, FAULTS, finish)

    # ---- the network

    def _cut(self, fault: Fault, machines: tuple[int, ...]) -> None:
        one, other = machines
        self._cut_ways([(one, other), (other, one)], fault.length_ms)

    def _cut_one_way(self, fault: Fault, machines: tuple[int, ...]) -> None:
        one, other = machines
        self._cut_ways([(one, other)], fault.length_ms)

    def _cut_ways(self, ways: list[tuple[int, int]], length_ms: float) -> None:
        for way in ways:
            self._network.cut(*way)
            self._for_a_while(length_ms, functools.partial(self._network.heal, *way))

    def _reset(self, fault: Fault, machines: tuple[int, ...]) -> None:
        self._network.reset(*machines)

    def _isolate(self, fault: Fault, machines: tuple[int, ...]) -> None:
        (place,) = machines
        others = [other for other in range(len(self._machines)) if other != place]
        self._cut_ways([way for other in others for way in ((place, other), (other, place))], fault.length_ms)
        self._isolated.add(place)
        self._links[place].cut()

        def end() -> None:
            self._isolated.discard(place)
            self._links[place].heal()

        self._for_a_while(fault.length_ms, end)

    def _slow_network(self, fault: Fault, machines: tuple[int, ...]) -> None:
        self._network.slow_until_ms = self._setting.slow_until_ms = self._world.time_ms + fault.length_ms

    # ---- the store

    def _cut_from_store(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._links[place].cut()
            self._for_a_while(fault.length_ms, self._links[place].heal)

    def _reset_from_store(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._links[place].reset()
            self._for_a_while(fault.length_ms, self._links[place].heal)

    def _cut_all_from_store(self, fault: Fault, machines: tuple[int, ...]) -> None:
        self._cut_from_store(fault, tuple(range(len(self._machines))))

    def _expire(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._links[place].expire()

    def _lose_answer(self, fault: Fault, machines: tuple[int, ...]) -> None:
        when = LostAnswer.AFTER_THE_CHANGE if fault.length_ms else LostAnswer.BEFORE_THE_CHANGE
        for place in machines:
            self._links[place].lose_answer(when)

    def _kill_at_write(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            kill = functools.partial(self._kill, Fault(0, FaultKind.KILL), (place,))
            self._at_write(place, kill, is_before=not fault.length_ms)

    def _pause_at_write(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            pause = functools.partial(self._pause_one, place, self._chance.choice(_PAUSE_AT_WRITE_MS))
            self._at_write(place, pause, is_before=not fault.length_ms)

    def _at_write(self, place: int, action: Callable[[], None], *, is_before: bool) -> None:
        def act() -> None:
            if not self._is_over and self._may_strike((place,)):
                action()

        self._links[place].at_next_write(lambda: self._world.after(0, FAULTS, act), is_before=is_before)

    # ---- the rest

    def _jump(self, fault: Fault, machines: tuple[int, ...]) -> None:
        for place in machines:
            self._clocks[place].skew_ms += fault.length_ms


_STRIKES: dict[FaultKind, Callable[[Faults, Fault, tuple[int, ...]], None]] = {
    FaultKind.KILL: Faults._kill,
    FaultKind.POWER_CUT: Faults._cut_power,
    FaultKind.CLEAN_RESTART: Faults._restart,
    FaultKind.PAUSE: Faults._pause,
    FaultKind.SLOW_DISK: Faults._slow_disk,
    FaultKind.CUT: Faults._cut,
    FaultKind.ONE_WAY_CUT: Faults._cut_one_way,
    FaultKind.RESET: Faults._reset,
    FaultKind.ISOLATION: Faults._isolate,
    FaultKind.SLOW_NETWORK: Faults._slow_network,
    FaultKind.STORE_CUT: Faults._cut_from_store,
    FaultKind.STORE_RESET: Faults._reset_from_store,
    FaultKind.STORE_OUTAGE: Faults._cut_all_from_store,
    FaultKind.EXPIRY: Faults._expire,
    FaultKind.LOST_ANSWER: Faults._lose_answer,
    FaultKind.KILL_AT_WRITE: Faults._kill_at_write,
    FaultKind.PAUSE_AT_WRITE: Faults._pause_at_write,
    FaultKind.CLOCK_JUMP: Faults._jump,
}
