from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Awaitable

import pytest

from penstock.broker.session import Reply, UnanswerableError
from penstock.server.net import limits
from tests.unit.server.harness import (
    MAX_FRAME_SIZE,
    FakeListener,
    FakeSlice,
    Wire,
    echo,
    frame,
    in_loop,
)
from tests.waiting import turns


class TestFrames:
    PAYLOADS = (b"a", b"bc", bytes(300), b"d" * 5)

    def test_frames_come_out_whole_when_the_stream_is_split_at_every_byte(self, wire: Wire) -> None:
        stream = b"".join(map(frame, self.PAYLOADS))
        for cut in range(len(stream) + 1):
            listener = FakeListener()
            transport = wire(listener)
            transport.receive(stream[:cut])
            transport.receive(stream[cut:])
            assert listener.frames == list(self.PAYLOADS), cut
            assert bytes(transport.sent) == stream

    def test_frames_come_out_whole_when_bytes_arrive_one_by_one(self, wire: Wire) -> None:
        listener = FakeListener()
        transport = wire(listener)
        for byte in b"".join(map(frame, self.PAYLOADS)):
            transport.receive(bytes([byte]))
        assert listener.frames == list(self.PAYLOADS)

    @pytest.mark.parametrize("seed", range(5))
    def test_frames_come_out_whole_when_sizes_and_splits_are_random(self, wire: Wire, seed: int) -> None:
        dice = random.Random(seed)
        payloads = [dice.randbytes(dice.choice((1, 3, 4, 5, 1000, 70_000, 300_000, 2_000_000))) for _ in range(8)]
        listener = FakeListener()
        transport = wire(listener)
        stream, position = b"".join(map(frame, payloads)), 0
        while position < len(stream):
            size = dice.choice((1, 2, 3, 5, 4096, 65_536, 1_000_000))
            assert transport.receive(stream[position : position + size]) == len(stream[position : position + size])
            position += size
        assert listener.frames == payloads

    def test_memory_follows_what_arrived_when_a_large_frame_is_announced(self, wire: Wire) -> None:
        transport = wire(FakeListener())
        transport.receive(struct.pack(">i", MAX_FRAME_SIZE) + b"x")
        assert len(memoryview(transport.protocol.get_buffer(-1))) < limits.FIRST_FRAME_ALLOCATION
        arrived = 1
        while arrived < MAX_FRAME_SIZE // 2:
            room = len(memoryview(transport.protocol.get_buffer(-1)))
            assert room <= max(4 * arrived, limits.FIRST_FRAME_ALLOCATION)
            arrived += transport.receive(bytes(room))

    def test_largest_frame_is_served_when_it_has_the_size_of_the_limit(self, wire: Wire) -> None:
        listener = FakeListener(lambda _: None)
        wire(listener).receive(frame(bytes(MAX_FRAME_SIZE)))
        assert [len(each) for each in listener.frames] == [MAX_FRAME_SIZE]

    @pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_FRAME_SIZE + 1, 2**31 - 1])
    def test_connection_closes_when_a_size_is_out_of_bounds(self, wire: Wire, size: int) -> None:
        listener = FakeListener()
        transport = wire(listener)
        transport.receive(struct.pack(">i", size) + b"more")
        assert transport.is_closing()
        assert [kind for kind, _ in listener.refusals] == ["frame size"]
        assert str(size) in listener.refusals[0][1]

    def test_earlier_requests_are_answered_when_a_bad_size_follows_in_the_same_read(self, wire: Wire) -> None:
        listener = FakeListener()
        transport = wire(listener)
        transport.receive(frame(b"good") + struct.pack(">i", -7))
        assert bytes(transport.sent) == frame(b"good")
        assert transport.is_closing()

    def test_refusal_is_told_once_when_more_garbage_follows(self, wire: Wire) -> None:
        listener = FakeListener()
        transport = wire(listener)
        transport.receive(bytes(4))
        connection = transport.protocol
        connection.buffer_updated(4)  # an event loop may have had these bytes already
        assert len(listener.refusals) == 1


class TestOrder:
    def test_requests_are_served_one_at_a_time_when_the_first_has_to_wait(self, wire: Wire) -> None:
        async def scenario() -> None:
            first: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            listener = FakeListener(lambda payload: first if payload == b"slow" else echo(payload))
            transport = wire(listener)
            transport.receive(frame(b"slow") + frame(b"quick"))
            assert listener.frames == [b"slow"]
            first.set_result(echo(b"done"))
            await turns()
            assert listener.frames == [b"slow", b"quick"]
            assert bytes(transport.sent) == frame(b"done") + frame(b"quick")

        in_loop(scenario)

    def test_next_request_is_served_when_one_has_no_answer(self, wire: Wire) -> None:
        listener = FakeListener(lambda payload: None if payload == b"silent" else echo(payload))
        transport = wire(listener)
        transport.receive(frame(b"silent") + frame(b"loud"))
        assert bytes(transport.sent) == frame(b"loud")

    def test_next_request_is_served_when_a_waiting_one_has_no_answer(self, wire: Wire) -> None:
        async def scenario() -> None:
            async def nothing() -> Reply:
                return None

            transport = wire(FakeListener(lambda payload: nothing() if payload == b"silent" else echo(payload)))
            transport.receive(frame(b"silent") + frame(b"loud"))
            await turns()
            assert bytes(transport.sent) == frame(b"loud")

        in_loop(scenario)

    def test_others_get_their_turn_when_one_client_sends_thousands_at_once(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener()
            transport = wire(listener)
            transport.receive(frame(b"x") * 5_000)
            assert len(listener.frames) == limits.REQUESTS_PER_TURN
            assert transport.is_reading_paused()
            await asyncio.sleep(0)
            assert len(listener.frames) == 2 * limits.REQUESTS_PER_TURN
            await turns(5_000 // limits.REQUESTS_PER_TURN + 1)
            assert len(listener.frames) == 5_000
            assert bytes(transport.sent) == frame(b"x") * 5_000
            assert not transport.is_reading_paused()

        in_loop(scenario)

    def test_others_get_their_turn_when_one_client_takes_a_large_reply_as_fast_as_it_is_sent(self, wire: Wire) -> None:
        async def scenario() -> None:
            body = FakeSlice(20 << 20, takes=[1 << 20] * 20)
            listener = FakeListener(lambda _: [bytearray(b"HEAD"), body])
            transport = wire(listener)
            transport.receive(frame(b"fetch"))
            assert limits.BYTES_PER_TURN <= listener.metrics.bytes_out < 2 * limits.BYTES_PER_TURN
            assert transport.is_reading_paused()
            await turns(10)
            assert listener.metrics.bytes_out == 4 + (20 << 20)
            assert not transport.is_reading_paused()

        in_loop(scenario)

    def test_others_get_their_turn_when_one_client_sends_many_fetches_at_once(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener(lambda _: [bytearray(b"HEAD"), FakeSlice(1 << 20, takes=[1 << 20])])
            transport = wire(listener)
            transport.receive(frame(b"fetch") * 10)
            assert len(listener.frames) == 1
            await turns(20)
            assert len(listener.frames) == 10

        in_loop(scenario)

    def test_nothing_more_is_served_when_the_connection_is_lost_between_turns(self, wire: Wire) -> None:
        async def scenario() -> None:
            listener = FakeListener()
            transport = wire(listener)
            transport.receive(frame(b"x") * 1_000)
            transport.lose()
            await turns()
            assert len(listener.frames) == limits.REQUESTS_PER_TURN

        in_loop(scenario)


class TestEnds:
    def test_connection_is_cut_when_the_listener_has_no_room(self, wire: Wire) -> None:
        listener = FakeListener(has_room=False)
        transport = wire(listener)
        assert transport.was_aborted()
        transport.receive(frame(b"x"))
        assert listener.frames == []

    def test_waiting_request_is_cancelled_when_the_connection_is_lost(self, wire: Wire) -> None:
        async def scenario() -> None:
            cancelled = asyncio.Event()

            async def wait_for_ever() -> Reply:
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
                return None

            listener = FakeListener(lambda _: wait_for_ever())
            transport = wire(listener)
            transport.receive(frame(b"poll") * 3)
            await turns()
            transport.lose(ConnectionResetError())
            await turns()
            assert cancelled.is_set()
            assert listener.frames == [b"poll"]
            assert listener.closed_count == 1
            assert not transport.was_aborted()

        in_loop(scenario)

    def test_late_answer_goes_nowhere_when_the_client_is_gone(self, wire: Wire) -> None:
        async def scenario() -> None:
            answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            transport = wire(FakeListener(lambda _: answer))
            transport.receive(frame(b"x"))
            answer.set_result(echo(b"late"))
            transport.lose()
            await turns()
            assert transport.sent == b""

        in_loop(scenario)

    @pytest.mark.parametrize("is_awaited", [False, True])
    def test_connection_closes_after_earlier_answers_when_one_is_unanswerable(
        self, wire: Wire, is_awaited: bool
    ) -> None:
        def refuse(payload: bytes) -> Reply | Awaitable[Reply]:
            if payload != b"bad":
                return echo(payload)
            if is_awaited:
                return refuse_later()
            raise UnanswerableError("request", "nonsense")

        async def refuse_later() -> Reply:
            raise UnanswerableError("request", "nonsense")

        async def scenario() -> None:
            listener = FakeListener(refuse)
            transport = wire(listener)
            transport.receive(frame(b"good") + frame(b"bad") + frame(b"never"))
            await turns()
            assert bytes(transport.sent) == frame(b"good")
            assert transport.is_closing()
            assert not transport.was_aborted()
            assert listener.refusals == [("request", "nonsense")]
            assert listener.frames == [b"good", b"bad"]

        in_loop(scenario)

    def test_connection_is_cut_when_a_handler_fails_in_an_unforeseen_way(self, wire: Wire) -> None:
        def fail(_: bytes) -> Reply:
            raise RuntimeError("a bug")

        transport = wire(FakeListener(fail))
        with pytest.raises(RuntimeError):
            transport.receive(frame(b"x"))
        assert transport.was_aborted()

    def test_connection_is_cut_and_the_bug_is_told_when_a_waiting_handler_fails(self, wire: Wire) -> None:
        async def fail() -> Reply:
            raise RuntimeError("a bug")

        async def scenario() -> None:
            told: list[object] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
            transport = wire(FakeListener(lambda _: fail()))
            transport.receive(frame(b"x"))
            await turns()
            assert transport.was_aborted()
            assert [str(each) for each in told] == ["a bug"]

        in_loop(scenario)

    def test_connection_is_cut_when_its_request_is_cancelled_inside_the_broker(self, wire: Wire) -> None:
        async def scenario() -> None:
            answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            transport = wire(FakeListener(lambda _: answer))
            transport.receive(frame(b"x"))
            answer.cancel()
            await turns()
            assert transport.was_aborted()

        in_loop(scenario)

    def test_nothing_is_served_when_the_transport_is_already_closing(self, wire: Wire) -> None:
        """A client that goes away while thousands of its requests wait."""

        async def scenario() -> None:
            listener = FakeListener()
            transport = wire(listener)
            transport.receive(frame(b"x") * 1_000)
            transport.end_of_stream()
            await turns()
            assert len(listener.frames) == limits.REQUESTS_PER_TURN

        in_loop(scenario)
