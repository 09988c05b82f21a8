"""Clients that send faster than they are served, and clients that read slower than they are answered."""

from __future__ import annotations

import asyncio
import struct

from penstock.broker.session import Reply
from penstock.protocol.message import Chunk
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


class TestPressure:
    def test_reading_pauses_and_resumes_when_requests_queue_up(self, wire: Wire) -> None:
        async def scenario() -> None:
            first: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            listener = FakeListener(lambda payload: first if payload == b"slow" else echo(payload))
            transport = wire(listener)
            transport.receive(frame(b"slow"))
            for _ in range(limits.QUEUED_REQUESTS - 1):
                transport.receive(frame(b"x"))
            assert not transport.is_reading_paused()
            transport.receive(frame(b"x"))
            assert transport.is_reading_paused()
            first.set_result(None)
            await turns()
            assert not transport.is_reading_paused()
            assert len(listener.frames) == 1 + limits.QUEUED_REQUESTS

        in_loop(scenario)

    def test_reading_pauses_when_few_but_large_requests_queue_up(self, wire: Wire) -> None:
        async def scenario() -> None:
            first: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            transport = wire(FakeListener(lambda payload: first if payload == b"slow" else None))
            transport.receive(frame(b"slow"))
            large = frame(bytes(MAX_FRAME_SIZE))
            read = transport.receive(large * 3)
            assert transport.is_reading_paused()
            assert read < 5 * limits.QUEUED_BYTES  # the buffer of a growing frame may be four times what has arrived
            first.set_result(None)
            await turns()
            assert not transport.is_reading_paused()
            assert transport.receive((large * 3)[read:]) == len(large) * 3 - read

        in_loop(scenario)

    def test_large_frame_is_read_to_its_end_when_nothing_is_before_it(self, wire: Wire) -> None:
        listener = FakeListener(lambda _: None)
        transport = wire(listener)
        transport.receive(frame(bytes(MAX_FRAME_SIZE)) * 2)
        assert len(listener.frames) == 2
        assert not transport.is_reading_paused()

    def test_reading_pauses_when_the_client_does_not_take_its_answers(self, wire: Wire) -> None:
        listener = FakeListener(lambda _: [bytearray(frame(bytes(200_000)))])
        transport = wire(listener, takes_everything=False)
        sent = 0
        while not transport.is_reading_paused():
            sent += 1
            transport.receive(frame(b"x"))
        assert sent < 50
        assert len(transport.buffered) < 2 * limits.WRITE_PIECE_SIZE
        for _ in range(50):
            transport.take()
        assert len(transport.sent) == sent * 200_004
        assert not transport.is_reading_paused()

    def test_few_replies_are_made_when_the_client_asks_for_many_large_ones_at_once(self, wire: Wire) -> None:
        listener = FakeListener(lambda _: [bytearray(frame(bytes(100_000)))])
        transport = wire(listener, takes_everything=False)
        transport.receive(frame(b"x") * 60)
        assert len(listener.frames) == 2
        assert transport.most_buffered < 2 * limits.WRITE_PIECE_SIZE


class TestLargeReplies:
    def test_two_pieces_are_in_memory_when_the_client_reads_slowly(self, wire: Wire) -> None:
        body = FakeSlice(50 << 20)
        head = bytearray(struct.pack(">i", 50 << 20))
        listener = FakeListener(lambda _: [head, body])
        transport = wire(listener, takes_everything=False)
        transport.receive(frame(b"fetch"))
        while transport.buffered:
            transport.take(100_000)
        assert transport.most_buffered <= 2 * limits.WRITE_PIECE_SIZE
        assert len(transport.sent) == (50 << 20) + 4
        assert max(size for _, size in body.reads) == limits.WRITE_PIECE_SIZE
        assert listener.metrics.bytes_out == (50 << 20) + 4

    def test_chunks_keep_their_order_when_files_and_memory_alternate(self, wire: Wire) -> None:
        files = [FakeSlice(size) for size in (10, 700_000, 1)]
        chunks: list[Chunk] = [
            bytearray(b"A"),
            files[0],
            bytearray(b"B"),
            files[1],
            bytearray(b"C"),
            files[2],
            bytearray(b"D"),
        ]
        transport = wire(FakeListener(lambda _: list(chunks)), takes_everything=False)
        transport.receive(frame(b"fetch"))
        while transport.buffered:
            transport.take()
        assert bytes(transport.sent) == b"A" + bytes(10) + b"B" + bytes(700_000) + b"C" + bytes(1) + b"D"

    def test_next_request_waits_when_the_reply_is_still_in_its_file(self, wire: Wire) -> None:
        replies: dict[bytes, Reply] = {b"fetch": [bytearray(b"HEAD"), FakeSlice(3 << 20)], b"next": [bytearray(b"!")]}
        listener = FakeListener(lambda payload: replies[payload])
        transport = wire(listener, takes_everything=False)
        transport.receive(frame(b"fetch") + frame(b"next"))
        assert listener.frames == [b"fetch"]
        while transport.buffered:
            transport.take()
        assert bytes(transport.sent[-1:]) == b"!"

    def test_file_goes_to_the_socket_unread_when_the_socket_takes_it(self, wire: Wire) -> None:
        body = FakeSlice(30_000, takes=[10_000, 20_000])
        listener = FakeListener(lambda _: [bytearray(b"HEAD"), body, bytearray(b"TAIL")])
        transport = wire(listener)
        transport.receive(frame(b"fetch"))
        assert (body.sends, body.reads) == ([(0, 10_000), (10_000, 20_000)], [])
        assert bytes(transport.sent) == b"HEADTAIL"
        assert listener.metrics.bytes_out == 30_008

    def test_file_is_read_and_sent_with_its_surroundings_when_it_is_small(self, wire: Wire) -> None:
        body = FakeSlice(1000, takes=[1000])
        listener = FakeListener(lambda _: [bytearray(b"HEAD"), body, bytearray(b"TAIL")])
        transport = wire(listener)
        transport.receive(frame(b"fetch"))
        assert (body.sends, body.reads) == ([], [(0, 1000)])
        assert bytes(transport.sent) == b"HEAD" + bytes(1000) + b"TAIL"
        assert listener.metrics.bytes_out == 1008

    def test_little_is_read_ahead_when_there_are_many_small_files(self, wire: Wire) -> None:
        bodies = [FakeSlice(limits.GATHERED_CHUNK_SIZE) for _ in range(100)]
        chunks: list[Chunk] = [each for body in bodies for each in (bytearray(b"HEAD"), body)]
        transport = wire(FakeListener(lambda _: chunks), takes_everything=False)
        transport.receive(frame(b"fetch"))
        assert sum(map(len, bodies)) > 2 * sum(size for body in bodies for _, size in body.reads)
        while transport.buffered:
            transport.take()
        assert bytes(transport.sent) == (b"HEAD" + bytes(limits.GATHERED_CHUNK_SIZE)) * 100

    def test_nothing_is_sent_when_a_small_file_fails(self, wire: Wire) -> None:
        body = FakeSlice(1000, fails_at=500)
        transport = wire(FakeListener(lambda _: [bytearray(b"HEAD"), body]))
        transport.receive(frame(b"fetch"))
        assert transport.was_aborted()
        assert not transport.sent

    def test_piece_waits_in_the_transport_when_the_socket_is_full(self, wire: Wire) -> None:
        size = 3 * limits.WRITE_PIECE_SIZE
        body = FakeSlice(size, takes=[1000])
        transport = wire(FakeListener(lambda _: [bytearray(b"HEAD"), body]), takes_everything=False)
        transport.receive(frame(b"fetch"))
        assert (body.sends, body.reads) == ([], [])  # the head is not out yet
        transport.take()
        assert (body.sends, body.reads) == ([(0, 1000)], [(1000, limits.WRITE_PIECE_SIZE)])
        body.takes = [size]
        transport.take()
        assert body.sends[-1] == (1000 + limits.WRITE_PIECE_SIZE, size - 1000 - limits.WRITE_PIECE_SIZE)

    def test_connection_is_cut_when_the_file_fails_in_the_middle(self, wire: Wire) -> None:
        body = FakeSlice(2 << 20, fails_at=1 << 20)
        transport = wire(FakeListener(lambda _: [bytearray(b"HEAD"), body]), takes_everything=False)
        transport.receive(frame(b"fetch"))
        for _ in range(10):
            transport.take()
        assert transport.was_aborted()

    def test_file_is_let_go_when_the_connection_is_refused_in_the_middle(self, wire: Wire) -> None:
        body = FakeSlice(20 << 20)
        transport = wire(FakeListener(lambda _: [bytearray(b"HEAD"), body]), takes_everything=False)
        transport.receive(frame(b"fetch"))
        transport.receive(bytes(4))
        reads = len(body.reads)
        transport.take()
        assert len(body.reads) == reads

    def test_rest_is_kept_back_when_the_client_has_gone_meanwhile(self, wire: Wire) -> None:
        """Writing on would only fill the log with warnings of the event loop."""
        body = FakeSlice(20 << 20)
        transport = wire(FakeListener(lambda _: [bytearray(b"HEAD"), body]), takes_everything=False)
        transport.receive(frame(b"fetch"))
        transport.end_of_stream()
        reads = len(body.reads)
        transport.take()
        assert len(body.reads) == reads
