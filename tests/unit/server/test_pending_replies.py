"""Writes that are in the log and wait for others: what is served behind them, and in which order replies go out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from penstock.broker.session import Reply, Settling, UnanswerableError
from penstock.server.net import limits
from tests.unit.server.harness import FakeListener, Wire, echo, frame, in_loop
from tests.waiting import turns

WRITE = b"\x00\x00"
QUESTION = b"\x00\x03"


class Writes:
    """Answers a write when the test says so, any other request at once."""

    def __init__(self) -> None:
        self.waiting: dict[bytes, asyncio.Future[Reply]] = {}
        self.listener = FakeListener(self._answer)

    def _answer(self, payload: bytes) -> Reply | Awaitable[Reply]:
        if not payload.startswith(WRITE):
            return echo(payload)
        if payload.endswith(b"refused"):
            return echo(payload)
        future = self.waiting[payload] = asyncio.get_running_loop().create_future()
        return future if payload.endswith(b"slowly") else Settling(future)

    def settle(self, name: bytes) -> None:
        self.waiting[WRITE + name].set_result(echo(WRITE + name))


def write(name: bytes) -> bytes:
    return frame(WRITE + name)


def test_writes_are_served_and_answered_in_order_when_earlier_ones_still_settle(wire: Wire) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        transport.receive(write(b"a"))
        transport.receive(write(b"b") + write(b"c"))
        assert writes.listener.frames == [WRITE + b"a", WRITE + b"b", WRITE + b"c"]
        writes.settle(b"b")
        await turns()
        assert bytes(transport.sent) == b""
        writes.settle(b"a")
        await turns()
        assert bytes(transport.sent) == write(b"a") + write(b"b")
        writes.settle(b"c")
        await turns()
        assert bytes(transport.sent) == write(b"a") + write(b"b") + write(b"c")

    in_loop(scenario)


def test_refusal_waits_for_its_turn_when_it_is_known_at_once(wire: Wire) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        transport.receive(write(b"a") + write(b"refused"))
        await turns()
        assert bytes(transport.sent) == b""
        writes.settle(b"a")
        await turns()
        assert bytes(transport.sent) == write(b"a") + write(b"refused")

    in_loop(scenario)


def test_question_is_served_after_the_answers_when_it_follows_writes(wire: Wire) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        transport.receive(write(b"a") + frame(QUESTION) + write(b"b"))
        await turns()
        assert writes.listener.frames == [WRITE + b"a"]
        writes.settle(b"a")
        await turns()
        assert writes.listener.frames == [WRITE + b"a", QUESTION, WRITE + b"b"]
        assert bytes(transport.sent) == write(b"a") + frame(QUESTION)

    in_loop(scenario)


def test_nothing_is_served_behind_a_write_when_it_is_not_in_the_log_yet(wire: Wire) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        transport.receive(write(b"a") + write(b"slowly") + write(b"b"))
        await turns()
        assert writes.listener.frames == [WRITE + b"a", WRITE + b"slowly"]
        writes.settle(b"slowly")
        await turns()
        assert bytes(transport.sent) == b""
        writes.settle(b"a")
        await turns()
        assert bytes(transport.sent) == write(b"a") + write(b"slowly")
        assert writes.listener.frames[-1] == WRITE + b"b"

    in_loop(scenario)


def test_writes_wait_when_many_still_settle(wire: Wire) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        names = [b"%d" % number for number in range(limits.PENDING_REPLIES + limits.QUEUED_REQUESTS)]
        transport.receive(b"".join(map(write, names)))
        await turns()
        assert len(writes.listener.frames) == limits.PENDING_REPLIES
        assert transport.is_reading_paused()
        for name in names:
            writes.settle(name)
            await turns()
        assert bytes(transport.sent) == b"".join(map(write, names))
        assert not transport.is_reading_paused()

    in_loop(scenario)


@pytest.mark.parametrize("ends_first", [True, False])
def test_all_that_waits_is_given_up_when_the_client_goes(wire: Wire, ends_first: bool) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        transport.receive(write(b"a") + write(b"b"))
        if ends_first:
            writes.settle(b"b")
            await turns()
        transport.lose()
        await turns()
        assert writes.waiting[WRITE + b"a"].cancelled()
        assert writes.waiting[WRITE + b"b"].cancelled() is not ends_first

    in_loop(scenario)


def test_earlier_answers_go_out_when_a_later_write_cannot_be_answered(wire: Wire) -> None:
    async def scenario() -> None:
        writes = Writes()
        transport = wire(writes.listener)
        transport.receive(write(b"a") + write(b"b"))
        writes.waiting[WRITE + b"b"].set_exception(UnanswerableError("produce", "no words for it"))
        await turns()
        assert not transport.is_closing()
        writes.settle(b"a")
        await turns()
        assert bytes(transport.sent) == write(b"a")
        assert transport.is_closing()
        assert writes.listener.refusals == [("produce", "no words for it")]

    in_loop(scenario)
