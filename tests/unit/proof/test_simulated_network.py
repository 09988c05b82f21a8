"""The network between simulated machines: connections that are refused, broken, cut off and half-open."""

from __future__ import annotations

import functools
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.listeners import Endpoint
from penstock.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from proof.simulation.cluster.network import SILENCE_MS, Network, WireLink, host_of
from proof.simulation.machine import End, Machine, alone
from proof.simulation.notebook import Notebook
from proof.simulation.plan import Mode
from proof.simulation.world import World, owner_of

ONE, OTHER = 0, 1
ASK = ApiVersionsRequest(client_software_name="test", client_software_version="1")


class Rig:
    """Two machines that serve. They know nothing of each other but how to connect."""

    def __init__(self) -> None:
        self.world = World()
        self.notebook = Notebook(self.world)
        self.network = Network(self.world, random.Random(1))
        self.machines = [self._build(place) for place in (ONE, OTHER)]
        self.network.machines = self.machines
        for machine in self.machines:
            machine.start()
        self.until(lambda: all(machine.is_serving for machine in self.machines))

    def _build(self, place: int) -> Machine:
        told = functools.partial(self._ended, place)
        where = replace(alone(self.world, Mode.KILLED), owner=owner_of(place), told_of_end=told)
        return Machine(self.world, where, random.Random(place), self.notebook)

    def _ended(self, place: int, is_power_cut: bool) -> None:
        self.network.process_ended(place, is_power_cut=is_power_cut)

    def step(self) -> None:
        self.world.step()
        while any(machine.has_work for machine in self.machines):
            for machine in self.machines:
                machine.rest()

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.step()

    def wait(self, length_ms: float) -> None:
        end_ms = self.world.time_ms + length_ms
        self.world.at(end_ms, 0, lambda: None)
        self.until(lambda: self.world.time_ms >= end_ms)

    def begin(self, work: Callable[[], Awaitable[Any]]) -> list[Any]:
        """What comes of it, or the error, as soon as it is there."""
        done: list[Any] = []

        async def run() -> None:
            try:
                done.append(await work())
            except OSError as error:
                done.append(error)

        self.machines[ONE].begin(run())
        return done

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        done = self.begin(work)
        self.until(lambda: bool(done))
        return done[0]

    def connect(self) -> Any:
        endpoint = Endpoint("PLAINTEXT", host_of(OTHER), 9092, "PLAINTEXT")
        return self.run(lambda: self.network.wires_of(ONE).connect(endpoint, "broker-0"))

    def link(self) -> WireLink:
        link = self.connect()
        assert isinstance(link, WireLink)
        return link


@pytest.fixture
def rig() -> Rig:
    return Rig()


def ask(link: WireLink, timeout_s: float = 30.0) -> Callable[[], Awaitable[Any]]:
    return lambda: link.request(ASK, 3, timeout_s=timeout_s)


def kill(rig: Rig, *, is_power_cut: bool = False) -> None:
    rig.machines[OTHER].crash(End.POWER_CUT if is_power_cut else End.KILL, 0, lambda: None)


def test_requests_are_answered_in_order_when_several_are_under_way(rig: Rig) -> None:
    link = rig.link()
    answers = [rig.begin(ask(link)) for _ in range(5)]
    order: list[int] = []
    while len(order) < len(answers):
        rig.step()
        order += [number for number, done in enumerate(answers) if done and number not in order]
    assert order == [0, 1, 2, 3, 4]
    assert all(isinstance(done[0], ApiVersionsResponse) for done in answers)


def test_connections_are_refused_when_the_process_is_dead(rig: Rig) -> None:
    kill(rig)
    assert isinstance(rig.connect(), ConnectionRefusedError)


def test_a_connection_is_lost_at_once_when_the_other_process_is_killed(rig: Rig) -> None:
    link = rig.link()
    lost: list[bool] = []
    link.on_lost(lambda: lost.append(True))
    kill(rig)
    rig.until(lambda: bool(lost))
    assert not link.is_open
    assert isinstance(rig.run(ask(link)), ConnectionError)


def test_nothing_is_heard_when_the_power_fails_until_the_silence_is_too_long(rig: Rig) -> None:
    link = rig.link()
    kill(rig, is_power_cut=True)
    rig.wait(SILENCE_MS - 100)
    is_open = [link.is_open]
    rig.wait(200)
    assert [*is_open, link.is_open] == [True, False]
    assert isinstance(rig.connect(), TimeoutError)


def test_a_request_waits_and_arrives_when_a_cut_heals_in_time(rig: Rig) -> None:
    link = rig.link()
    rig.network.cut(ONE, OTHER)
    done = rig.begin(ask(link))
    rig.wait(1_000)
    assert not done
    rig.network.heal(ONE, OTHER)
    rig.until(lambda: bool(done))
    assert isinstance(done[0], ApiVersionsResponse)


def test_the_answer_waits_when_the_way_back_is_cut(rig: Rig) -> None:
    link = rig.link()
    rig.network.cut(OTHER, ONE)
    done = rig.begin(ask(link, timeout_s=2.0))
    rig.until(lambda: bool(done))
    assert isinstance(done[0], TimeoutError)
    assert not link.is_open


def test_a_connection_is_given_up_when_a_cut_lasts(rig: Rig) -> None:
    link = rig.link()
    rig.network.cut(ONE, OTHER)
    done = rig.begin(ask(link))
    rig.until(lambda: bool(done))
    assert isinstance(done[0], ConnectionError)
    assert rig.world.time_ms >= SILENCE_MS


def test_both_sides_hear_of_it_when_connections_are_reset(rig: Rig) -> None:
    link = rig.link()
    rig.network.reset(OTHER, ONE)
    rig.until(lambda: not link.is_open)


def test_a_request_waits_when_the_other_process_stands_still(rig: Rig) -> None:
    link = rig.link()
    loop = rig.machines[OTHER].loop
    assert loop is not None
    loop.is_paused = True
    done = rig.begin(ask(link))
    rig.wait(20_000)
    assert not done
    assert isinstance(rig.connect(), WireLink)  # the kernel answers
    loop.is_paused = False
    rig.until(lambda: bool(done))
    assert isinstance(done[0], ApiVersionsResponse)


def test_a_half_open_connection_is_reset_when_it_is_used_after_a_power_cut(rig: Rig) -> None:
    link = rig.link()
    kill(rig, is_power_cut=True)
    rig.wait(100)
    rig.network.power_is_back(OTHER)
    rig.machines[OTHER].start()
    rig.until(lambda: rig.machines[OTHER].is_serving)
    assert link.is_open
    assert isinstance(rig.run(ask(link)), ConnectionError)
    assert rig.world.time_ms < SILENCE_MS
