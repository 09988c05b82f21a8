"""Connections that are left unread: because of a quota, or because there is no room for requests."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.session import Outcome, Settling, Throttled
from penstock.server.net import limits
from penstock.server.net.backlog import Backlog
from tests.own_time import pass_time, run_in_own_time
from tests.unit.server.harness import FakeListener, Wire, echo, frame, in_loop
from tests.waiting import turns

THROTTLE_MS = 30
PING = frame(b"ping")


def throttled(payload: bytes) -> Outcome:
    return Throttled(echo(payload), THROTTLE_MS)


async def unmuted() -> None:
    await pass_time(2 * THROTTLE_MS / 1000)


class TestMuting:
    def test_reply_goes_out_at_once_and_nothing_is_read_until_the_time_is_over(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener(throttled)
            transport = wire(listener)
            transport.receive(PING)
            assert bytes(transport.sent) == PING
            assert transport.is_reading_paused()
            listener.answer = echo
            await unmuted()
            assert not transport.is_reading_paused()
            transport.receive(PING)
            assert bytes(transport.sent) == PING * 2

        run_in_own_time(scenario())

    def test_requests_behind_a_throttled_one_wait(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener(lambda payload: throttled(payload) if payload == b"ping" else echo(payload))
            transport = wire(listener)
            transport.receive(frame(b"before") + PING + frame(b"behind"))
            await turns()
            assert listener.frames == [b"before", b"ping"]
            assert bytes(transport.sent) == frame(b"before") + PING
            await unmuted()
            assert listener.frames == [b"before", b"ping", b"behind"]

        run_in_own_time(scenario())

    def test_request_without_a_reply_mutes_as_well(self, wire: Wire) -> None:
        async def scenario() -> None:
            transport = wire(FakeListener(lambda _: Throttled(None, THROTTLE_MS)))
            transport.receive(PING)
            assert (bytes(transport.sent), transport.is_reading_paused()) == (b"", True)
            await unmuted()
            assert not transport.is_reading_paused()

        run_in_own_time(scenario())

    def test_reply_that_was_waited_for_mutes(self, wire: Wire) -> None:
        async def scenario() -> None:
            waiting: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            transport = wire(FakeListener(lambda _: Settling(waiting)))
            transport.receive(PING)
            waiting.set_result(throttled(b"ping"))
            await turns()
            assert (bytes(transport.sent), transport.is_reading_paused()) == (PING, True)
            await unmuted()
            assert not transport.is_reading_paused()

        run_in_own_time(scenario())

    def test_nothing_is_left_behind_when_a_muted_connection_ends(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener(throttled)
            transport = wire(listener)
            transport.receive(PING)
            transport.lose()
            assert listener.closed_count == 1
            await unmuted()
            assert len(listener.frames) == 1

        run_in_own_time(scenario())


LARGE = bytes(limits.RECEIVE_BUFFER_SIZE * 3)


class TestRoom:
    def test_greedy_clients_stop_and_polite_ones_do_not_notice_when_there_is_no_room(self, wire: Wire) -> None:
        """Counts alone: ten clients with half of a large request each, and one with small ones."""

        async def scenario() -> None:
            listener = FakeListener()
            listener.backlog = Backlog(max_bytes=2 * len(LARGE))
            greedy = [wire(listener) for _ in range(10)]
            data = frame(LARGE)
            read = [each.receive(data[: len(data) - 1]) for each in greedy]
            assert listener.backlog.is_full
            assert listener.backlog.size <= 2 * len(LARGE) + 10 * limits.RECEIVE_BUFFER_SIZE
            assert sum(each.is_reading_paused() for each in greedy) >= 7
            polite = wire(listener)
            for _ in range(100):
                assert polite.receive(PING) == len(PING)
            assert bytes(polite.sent) == PING * 100
            assert not polite.is_reading_paused()
            for _ in range(40):  # one after another becomes whole
                for number, each in enumerate(greedy):
                    read[number] += each.receive(data[read[number] :])
                await turns()
            assert read == [len(data)] * 10
            assert listener.frames.count(LARGE) == 10
            assert (listener.backlog.size, listener.backlog.count) == (0, 0)
            assert not any(each.is_reading_paused() for each in greedy)

        in_loop(scenario)

    def test_half_requests_that_nobody_goes_on_with_are_given_up_when_there_is_no_room(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener()
            backlog = listener.backlog = Backlog(max_bytes=len(LARGE))
            data = frame(LARGE)
            silent = [wire(listener) for _ in range(2)]
            for each in silent:
                each.receive(data[: len(data) // 2 - 10])
            busy = wire(listener)
            sent = busy.receive(data[:20_000])
            assert backlog.is_full
            backlog.look()
            assert not any(each.was_aborted() for each in silent)
            sent += busy.receive(data[sent : sent + 1_000])
            backlog.look()
            assert all(each.was_aborted() for each in silent)
            assert backlog.metrics.backlog_evictions == 2
            for each in silent:
                each.lose()
                backlog.leave(each.protocol)  # type: ignore[arg-type]
            await turns()
            busy.receive(data[sent:])
            assert listener.frames == [LARGE]
            backlog.close()

        in_loop(scenario)

    @pytest.mark.parametrize("size", [len(LARGE), limits.LARGE_REQUEST + 1, limits.RECEIVE_BUFFER_SIZE - 4])
    def test_large_request_counts_until_it_is_answered(self, wire: Wire, size: int) -> None:
        async def scenario() -> None:
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            listener = FakeListener(lambda _: answer)
            transport = wire(listener)
            transport.receive(frame(bytes(size)))
            assert (listener.backlog.size, listener.backlog.count) == (size, 1)
            answer.set_result(None)
            await turns()
            assert (listener.backlog.size, listener.backlog.count) == (0, 0)

        in_loop(scenario)
