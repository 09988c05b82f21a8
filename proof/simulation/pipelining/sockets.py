"""A client's connection to a broker: bytes in order, both ways, until a side ends it.

The broker's end is the one that is served, `penstock.server.net.connection`, above a transport without a socket: what a
connection keeps of its client, and which requests it serves behind others that wait, is the broker's own.

- A process that stands still gets all bytes when it goes on, also those of a client that has hung up since.
- A process that ends resets its connections. A machine whose power fails says nothing.
- Bytes to and from a machine that is cut off arrive when it is reached again.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from proof.simulation.machine import Machine
from proof.simulation.store_link import ProcessGone
from proof.simulation.virtual_loop import VirtualLoop
from proof.simulation.world import World

# TCP tries again for as long as nobody hangs up.
_RETRANSMISSION_MS = 200.0
_SIZE_PREFIX = 4


class _NoSocket:
    """Options are set, and nothing comes of them."""

    def setsockopt(self, *_: object) -> None:
        pass

    def fileno(self) -> int:
        return -1


class _Way:
    """One direction: what is sent arrives in order, and not while the way is cut."""

    def __init__(
        self, world: World, owner: int, is_cut: Callable[[], bool], arrive: Callable[[bytes | None], None]
    ) -> None:
        self._world = world
        self._owner = owner
        self._is_cut = is_cut
        self._arrive = arrive
        self._newest_ms = 0.0
        self._sent: deque[bytes | None] = deque()

    def send(self, data: bytes | None, delay_ms: float) -> None:
        """None is the end."""
        self._newest_ms = max(self._newest_ms, self._world.time_ms + delay_ms)
        self._sent.append(data)
        self._world.at(self._newest_ms, self._owner, self._deliver)

    def _deliver(self) -> None:
        if self._is_cut():
            self._world.after(_RETRANSMISSION_MS, self._owner, self._deliver)
        else:
            self._arrive(self._sent.popleft())


class _BrokerEnd(asyncio.Transport):
    """What a broker's connection takes for its transport."""

    def __init__(self, machine: Machine, loop: VirtualLoop, name: str, send: Callable[[bytes | None], None]) -> None:
        super().__init__({"socket": _NoSocket(), "peername": (name, 0)})
        self._machine = machine
        self._loop = loop
        self._send = send
        self._is_closing = False
        assert machine.port is not None
        self._protocol = machine.port.new_protocol()
        self._enter(lambda: self._protocol.connection_made(self))

    @property
    def is_served(self) -> bool:
        """Whether the process that accepted the connection lives."""
        return self._machine.loop is self._loop and not self._machine.is_gone()

    def receive(self, data: bytes | None) -> None:
        if data is None:
            self._enter(self.abort)
        else:
            self._enter(lambda: self._feed(data))

    def _feed(self, data: bytes) -> None:
        if not self._is_closing:
            memoryview(self._protocol.get_buffer(len(data)))[: len(data)] = data
            self._protocol.buffer_updated(len(data))

    def _enter(self, action: Callable[[], None]) -> None:
        def act() -> None:
            if self._machine.is_gone():
                return
            try:
                action()
            except ProcessGone:
                return

        if self.is_served:
            self._machine.enter(act)

    # ---- what the connection asks of it

    def write(self, data: Any) -> None:
        if self.is_served and not self._is_closing:
            self._send(bytes(data))

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)
            if self.is_served:
                self._send(None)

    def abort(self) -> None:
        self.close()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever held here."""

    def pause_reading(self) -> None:
        """A client of the simulation never has so much under way."""

    def resume_reading(self) -> None:
        """Nothing was held."""


class Socket:
    """The client's end. `told` hears of every whole frame, and of None when the other side has ended the connection."""

    def __init__(
        self,
        machine: Machine,
        name: str,
        owner: int,
        is_cut: Callable[[], bool],
        delay_ms: Callable[[], float],
        told: Callable[[bytes | None], None],
    ) -> None:
        assert machine.loop is not None
        world = machine.world
        self._delay_ms = delay_ms
        self._told = told
        self._received = b""
        self.is_open = True
        self._back = _Way(world, owner, is_cut, self._receive)
        self._broker_end = _BrokerEnd(machine, machine.loop, name, functools.partial(self._send, self._back))
        self._there = _Way(world, owner, is_cut, self._arrive)
        machine.told_of_ends[self] = self._process_ended
        self._machine = machine

    def _send(self, way: _Way, data: bytes | None) -> None:
        way.send(data, self._delay_ms())

    def send(self, frame: bytes) -> None:
        if self.is_open:
            self._send(self._there, len(frame).to_bytes(_SIZE_PREFIX, "big") + frame)

    def close(self) -> None:
        """What was sent before arrives before the end does."""
        if self.is_open:
            self._end()
            self._send(self._there, None)

    def _arrive(self, data: bytes | None) -> None:
        if self._broker_end.is_served:
            self._broker_end.receive(data)
        elif self.is_open:
            self._send(self._back, None)  # a reset

    def _process_ended(self, is_silent: bool) -> None:
        if not is_silent:
            self._send(self._back, None)

    def _receive(self, data: bytes | None) -> None:
        if not self.is_open:
            return
        if data is None:
            self._end()
            self._told(None)
            return
        self._received += data
        for frame in self._take_frames():
            if self.is_open:
                self._told(frame)

    def _take_frames(self) -> Iterable[bytes]:
        while len(self._received) >= _SIZE_PREFIX:
            end = _SIZE_PREFIX + int.from_bytes(self._received[:_SIZE_PREFIX], "big")
            if len(self._received) < end:
                return
            frame, self._received = self._received[_SIZE_PREFIX:end], self._received[end:]
            yield frame

    def _end(self) -> None:
        self.is_open = False
        self._machine.told_of_ends.pop(self, None)
