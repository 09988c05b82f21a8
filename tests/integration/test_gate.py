"""Clients of a TLS port are accepted one after another, on real sockets of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine

import pytest

from penstock.server.net.gate import Gate
from penstock.server.net.handshakes import Outcome
from penstock.server.net.tls_steps import StepThread
from tests.clients.support import PATIENCE_S


def in_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: object) -> None:
        asyncio.run(test(**fixtures))

    return run


class Greeting(asyncio.Protocol):
    """Counts who was served, and answers each byte."""

    served = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).served += 1
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert isinstance(self._transport, asyncio.Transport)
        self._transport.write(data)


@contextlib.asynccontextmanager
async def opened(served: Callable[[], int] = lambda: 0) -> AsyncIterator[tuple[Gate, int, type[Greeting]]]:
    class Counted(Greeting):
        served = 0

    with socket.create_server(("127.0.0.1", 0)) as bound:
        gate = Gate(bound.fileno(), Counted, backlog=100, served=served, exhausted=lambda error: None)
        gate.open()
        try:
            yield gate, bound.getsockname()[1], Counted
        finally:
            gate.close()


async def echo(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"x")
    answer = await reader.readexactly(1)
    writer.close()
    return answer


@pytest.mark.parametrize("served", [lambda: 0, itertools.count().__next__], ids=["alone", "beside requests"])
@in_loop
async def test_everybody_is_served_when_many_come_at_once(served: Callable[[], int]) -> None:
    async with opened(served) as (_, port, counted), asyncio.timeout(PATIENCE_S):
        assert await asyncio.gather(*(echo(port) for _ in range(50))) == [b"x"] * 50
        assert counted.served == 50


@in_loop
async def test_those_who_hung_up_are_not_served_when_they_waited() -> None:
    async with opened() as (_, port, counted), asyncio.timeout(PATIENCE_S):
        for _ in range(20):  # the loop does not run meanwhile
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"hello")
        assert await echo(port) == b"x"
        assert counted.served == 1


@in_loop
async def test_somebody_is_served_when_nobody_had_come_for_a_while() -> None:
    async with opened() as (_, port, counted), asyncio.timeout(PATIENCE_S):
        for _ in range(3):
            assert await echo(port) == b"x"
            await asyncio.sleep(0.005)  # until the gate waits for clients again
        assert counted.served == 3


@in_loop
async def test_nobody_is_served_when_the_gate_is_closed() -> None:
    async with opened() as (gate, port, counted):
        with socket.create_connection(("127.0.0.1", port)):
            gate.close()
            gate.close()
            for _ in range(3):
                await asyncio.sleep(0)
            assert counted.served == 0


@in_loop
async def test_steps_are_made_in_order_in_another_thread_when_they_are_asked_for() -> None:
    steps, outcomes = StepThread(), asyncio.Queue[Outcome]()
    async with asyncio.timeout(PATIENCE_S):
        steps.run(lambda: False, outcomes.put_nowait)
        steps.run(lambda: True, outcomes.put_nowait)
        assert outcomes.empty()
        assert [await outcomes.get(), await outcomes.get()] == [False, True]
    steps.close()


def test_nothing_breaks_when_the_loop_ends_before_a_step() -> None:
    before = set(threading.enumerate())
    steps, told, may_step = StepThread(), list[Outcome](), threading.Event()

    async def ask() -> None:
        steps.run(lambda: may_step.wait(PATIENCE_S), told.append)

    asyncio.run(ask())
    may_step.set()
    steps.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert not told
