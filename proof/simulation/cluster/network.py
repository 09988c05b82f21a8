"""The network between machines: connections that are slow, break, or fall silent.

A connection carries requests and answers in order. What can happen to it:

- A process that ends takes its connections along: the other side hears of a reset. A machine whose power fails says
  nothing, and until it is back nothing answers at its address.
- A cut in one direction holds back what is sent that way, and nobody is told. When the cut heals in time, all of it
  arrives. A connection that got no acknowledgement for `SILENCE_MS` is given up by its own side, as TCP's user timeout
  and keep-alive probes do. A side that the other one gave up is half-open: what it sends is answered by a reset.
- Any message may break its connection.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from penstock.broker.cluster_links import Wires
from penstock.broker.peers.failure_detection import Probe
from penstock.broker.session import Reply, Session
from penstock.client.connection.core import ConnectionCore
from penstock.client.connection.frames import ConnectionClosedError
from penstock.core.listeners import Endpoint
from penstock.protocol.message import Message
from proof.simulation.machine import joined
from proof.simulation.world import World, owner_of

SILENCE_MS = 6_000
_CONNECT_TIMEOUT_MS = 5_000
_PROBE_TIMEOUT_MS = 1_000
_TRY_AGAIN_S = 0.25  # as TCP does
_SIZE_PREFIX = 4
_DELAYS_MS = (0.05, 0.05, 0.1, 0.3, 1.0)
_LONG_DELAYS_MS = (10.0, 80.0, 400.0)
_LONG_DELAY = 0.01
_BREAK = 0.001
# How many times slower than the network of the clients: replicas that are behind show what quick ones hide.
_SLOWNESS = (1, 1, 8, 60)
LISTENER = "PLAINTEXT"
_RESET = ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
# The owner of the network's own events.
_NETWORK = -3


class Host(Protocol):
    """What a network needs of a machine."""

    @property
    def is_serving(self) -> bool: ...

    def is_gone(self) -> bool: ...

    def enter(self, action: Callable[[], None]) -> None: ...

    def handle(
        self, session: Session, frame: bytes, answer: Callable[[Reply], None], refuse: Callable[[], None]
    ) -> Callable[[], None] | None: ...


class Network:
    """Machines are known by their places, which are also their brokers' ids."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.machines: Sequence[Host] = ()
        self.told_of_arrival: Callable[[int, int], None] = lambda _source, _target: None
        self.slow_until_ms = 0.0
        self.chance = chance
        self._slowness = chance.choice(_SLOWNESS)
        self._cuts: dict[tuple[int, int], int] = {}  # by direction, how many causes it has
        self._off: set[int] = set()
        self._wires: dict[int, Wire] = {}
        self._wire_count = 0

    # ---- for brokers

    def wires_of(self, place: int) -> Wires:
        """How the broker of one machine reaches the others."""

        async def connect(endpoint: Endpoint, client_id: str) -> WireLink:
            target = await self._reach(place, endpoint, _CONNECT_TIMEOUT_MS)
            self._wire_count += 1
            wire = Wire(self, self._wire_count, place, target, client_id)
            self._wires[wire.number] = wire
            return wire.link

        async def probe(endpoint: Endpoint) -> Probe:
            try:
                await self._reach(place, endpoint, _PROBE_TIMEOUT_MS)
            except ConnectionRefusedError:
                return Probe.REFUSED
            except TimeoutError:
                return Probe.UNKNOWN
            return Probe.ACCEPTED

        return Wires(connect, probe)

    async def _reach(self, place: int, endpoint: Endpoint, timeout_ms: float) -> int:
        """The machine there, if it accepts a connection."""
        target = place_of(endpoint.host)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        await asyncio.sleep(2 * self.delay_ms(self.chance) / 1000)
        while not (self.reaches(place, target) and self.reaches(target, place)):
            if loop.time() >= deadline:
                raise TimeoutError(f"no answer at {endpoint}")
            await asyncio.sleep(_TRY_AGAIN_S)
        if not self.machines[target].is_serving:
            raise ConnectionRefusedError(f"nobody listens at {endpoint}")
        return target

    # ---- what goes wrong

    def cut(self, source: int, target: int) -> None:
        direction = source, target
        self._cuts[direction] = self._cuts.get(direction, 0) + 1
        self._expect_silence(self._between(source, target))

    def heal(self, source: int, target: int) -> None:
        direction = source, target
        count = self._cuts.pop(direction, 0) - 1
        if count > 0:
            self._cuts[direction] = count
        else:
            self._flush()

    def heal_all(self) -> None:
        self._cuts.clear()
        self._flush()

    def reset(self, one: int, other: int) -> None:
        """All connections between two machines break, and both sides know."""
        for wire in self._between(one, other):
            wire.break_now()

    def process_ended(self, place: int, *, is_power_cut: bool) -> None:
        if is_power_cut:
            self._off.add(place)
        touched = [wire for wire in self._wires.values() if place in (wire.source, wire.target)]
        for wire in touched:
            wire.end_side(place, is_silent=is_power_cut)
        if is_power_cut:
            self._expect_silence(touched)

    def port_closed(self, place: int) -> None:
        for wire in list(self._wires.values()):
            if wire.target == place:
                wire.end_side(place, is_silent=False)

    def power_is_back(self, place: int) -> None:
        self._off.discard(place)
        self._flush()

    def reaches(self, source: int, target: int) -> bool:
        return (source, target) not in self._cuts and source not in self._off and target not in self._off

    def _between(self, one: int, other: int) -> list[Wire]:
        return [wire for wire in self._wires.values() if {wire.source, wire.target} == {one, other}]

    def _flush(self) -> None:
        for wire in list(self._wires.values()):
            wire.flush()

    def _expect_silence(self, wires: Sequence[Wire]) -> None:
        """Those that are still silent when the time is up are given up."""
        silences = [(wire, wire.silence) for wire in wires]

        def give_up() -> None:
            for wire, silence in silences:
                if wire.silence == silence and not wire.is_whole:
                    wire.give_up()

        self.world.after(SILENCE_MS, _NETWORK, give_up)

    # ---- for wires

    def delay_ms(self, chance: random.Random) -> float:
        """No two alike: the order in which messages were sent in one moment does not matter."""
        is_slow = chance.random() < _LONG_DELAY or self.world.time_ms < self.slow_until_ms
        usual_ms = chance.choice(_DELAYS_MS) * self._slowness
        return max(usual_ms, chance.choice(_LONG_DELAYS_MS) if is_slow else 0) * (1 + chance.random() / 10)

    def forget(self, wire: Wire) -> None:
        self._wires.pop(wire.number, None)


class _Way(NamedTuple):
    """One direction of a wire."""

    source: int
    target: int
    held: deque[Callable[[], None]]


class Wire:
    """One connection: the link that the source has, and what the target makes of its requests, one at a time."""

    def __init__(self, network: Network, number: int, source: int, target: int, client_id: str) -> None:
        self.number = number
        self.source = source
        self.target = target
        self.silence = 0  # one more with each time that it was whole again
        self.link = WireLink(self, ConnectionCore(client_id))
        self._network = network
        self._chance = random.Random(network.chance.getrandbits(64))
        self._session = Session(f"{client_id}-{number}", f"10.0.1.{source}", LISTENER)
        self._there = _Way(source, target, deque())
        self._back = _Way(target, source, deque())
        self._newest: dict[_Direction, float] = {}
        self._is_open = {source: True, target: True}  # by side
        self._requests: deque[bytes] = deque()
        self._is_busy = False
        self._hang_up: Callable[[], None] | None = None

    @property
    def is_whole(self) -> bool:
        network = self._network
        return network.reaches(self.source, self.target) and network.reaches(self.target, self.source)

    # ---- from the source

    def send(self, frame: bytes) -> None:
        """The source's process asks."""
        if self._network.machines[self.source].is_gone():
            return
        if self._chance.random() < _BREAK:
            self.break_now()
            return
        self._carry(self._there, lambda: self._arrive(frame))

    def enter_source(self, action: Callable[[], None]) -> None:
        self._network.machines[self.source].enter(action)

    def close(self) -> None:
        """The source's process ends the connection."""
        if self._is_open[self.source]:
            self.end_side(self.source, is_silent=False)

    # ---- at the target

    def _arrive(self, frame: bytes) -> None:
        self._requests.append(frame)
        self._serve()

    def _serve(self) -> None:
        if self._is_busy or not self._requests or not self._is_open[self.target]:
            return
        self._is_busy = True
        machine = self._network.machines[self.target]
        hang_up = machine.handle(self._session, self._requests.popleft(), self._answer, self._refuse)
        if hang_up is None:
            self._refuse()
        elif self._is_busy:
            self._hang_up = hang_up

    def _answer(self, reply: Reply) -> None:
        if not self._is_open[self.target]:
            return
        self._is_busy, self._hang_up = False, None
        try:
            data = joined(reply)
        except (OSError, ValueError):
            self._refuse()
            return
        if data and self._chance.random() < _BREAK:
            self.break_now()
            return
        if data:
            self._carry(self._back, lambda: self.link.receive(data))
        if self._requests:
            self._network.world.after(0, owner_of(self.target), self._serve)

    def _refuse(self) -> None:
        """The target ends the connection."""
        self.end_side(self.target, is_silent=False)

    # ---- the ends

    def end_side(self, place: int, *, is_silent: bool) -> None:
        """A side is closed; the other one hears of it, unless nothing is said."""
        if not self._is_open[place]:
            return
        self._is_open[place] = False
        if place == self.target:
            self._stop_serving()
        else:
            self.link.end()
        if not is_silent:
            way = self._there if place == self.source else self._back
            self._carry(way, lambda: self._lose(way.target))
        if not any(self._is_open.values()):
            self._network.forget(self)

    def break_now(self) -> None:
        """Both sides hear of a reset."""
        for place in (self.source, self.target):
            lose = functools.partial(self._lose, place)
            self._network.world.after(self._network.delay_ms(self._chance), owner_of(place), lose)

    def give_up(self) -> None:
        """Nothing was acknowledged for too long: the source's kernel ends its side. The target's is half-open."""
        self._there.held.clear()
        self._back.held.clear()
        self._lose(self.source, TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)))

    def _lose(self, place: int, error: OSError = _RESET) -> None:
        if not self._is_open[place]:
            return
        self._is_open[place] = False
        if place == self.target:
            self._stop_serving()
        else:
            self.enter_source(lambda: self.link.lose(error))
        if not any(self._is_open.values()):
            self._network.forget(self)

    def _stop_serving(self) -> None:
        self._requests.clear()
        hang_up, self._hang_up = self._hang_up, None
        if hang_up is not None:
            hang_up()

    # ---- between

    def _carry(self, way: _Way, arrive: Callable[[], None]) -> None:
        """In order, and not before the way is free."""
        world = self._network.world
        direction = way.source, way.target
        when_ms = max(self._newest.get(direction, 0.0), world.time_ms + self._network.delay_ms(self._chance))
        self._newest[direction] = when_ms
        world.at(when_ms, owner_of(way.target), lambda: self._deliver(way, arrive))

    def _deliver(self, way: _Way, arrive: Callable[[], None]) -> None:
        if way.held or not self._network.reaches(way.source, way.target):
            way.held.append(arrive)
        elif self._is_open[way.target]:
            arrive()
            self._network.told_of_arrival(way.source, way.target)
        elif self._is_open[way.source]:  # half-open
            back = self._back if way is self._there else self._there
            self._carry(back, lambda: self._lose(way.source))

    def flush(self) -> None:
        """The way may be free again."""
        if self.is_whole:
            self.silence += 1
        for way in (self._there, self._back):
            if self._network.reaches(way.source, way.target):
                held = list(way.held)
                way.held.clear()
                for arrive in held:
                    self._carry(way, arrive)


_Direction = tuple[int, int]


class WireLink:
    """The source's end: what `broker.peers` takes for a connection. It drives the core that sockets are driven for."""

    def __init__(self, wire: Wire, core: ConnectionCore) -> None:
        self._wire = wire
        self._core = core
        core.hang_up = self._hang_up
        self._waiting: dict[int, asyncio.Future[Message]] = {}

    @property
    def is_open(self) -> bool:
        return self._core.is_open

    @property
    def fell_silent(self) -> bool:
        return self._core.fell_silent

    def on_lost(self, listener: Callable[[], None]) -> None:
        self._core.on_lost = listener

    async def request(self, message: Message, version: int, *, timeout_s: float | None = None) -> Any:
        correlation_id, frame = self._core.encode_request(message, version)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        self._wire.send(frame[_SIZE_PREFIX:])
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise self._core.time_out(type(message).__name__, timeout_s) from None

    async def close(self) -> None:
        self.end()

    # ---- for the wire

    def receive(self, data: bytes) -> None:
        self._wire.enter_source(lambda: self._receive(data))

    def _receive(self, data: bytes) -> None:
        if not self._core.is_open:
            return
        correlation_id, response = self._core.take_answer(data[_SIZE_PREFIX:])
        answer = self._waiting.pop(correlation_id)
        if not answer.done():  # the caller may have been cancelled
            answer.set_result(response)

    def lose(self, error: OSError) -> None:
        """The other side or the network ended the connection."""
        self._core.lose(error)

    def end(self) -> None:
        self._core.end("the connection was closed")

    def _hang_up(self, failure: ConnectionClosedError) -> None:
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(failure)
                answer.exception()  # a caller that was cancelled meanwhile will not fetch it
        self._wire.close()


def host_of(place: int) -> str:
    return f"machine-{place}"


def place_of(host: str) -> int:
    return int(host.rpartition("-")[2])
