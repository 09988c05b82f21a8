from __future__ import annotations

import random

import pytest

from penstock.server.net import limits
from penstock.server.net.frames import FrameAssembler
from tests.unit.server.harness import frame

MAX_FRAME_SIZE = 4 << 20


class Wire:
    """Feeds an assembler as a transport does: never more than fits the buffer that it asked for."""

    def __init__(self, shared_size: int = limits.RECEIVE_BUFFER_SIZE) -> None:
        self.assembler = FrameAssembler()
        self.shared = memoryview(bytearray(shared_size))

    def receive(self, data: bytes, piece_size: int = 1 << 30) -> int | None:
        position = 0
        while position < len(data):
            buffer = self.assembler.buffer(self.shared)
            assert len(buffer), "the assembler asks for more and gives no room"
            size = min(len(buffer), len(data) - position, piece_size)
            buffer[:size] = data[position : position + size]
            position += size
            bad_size = self.assembler.received(self.shared, size, MAX_FRAME_SIZE)
            if bad_size is not None:
                return bad_size
        return None

    def frames(self) -> list[bytes]:
        return [bytes(each) for each in self.assembler.whole]


def test_frames_come_out_in_order_when_they_arrive_together() -> None:
    wire = Wire()
    wire.receive(frame(b"a") + frame(b"bc") + frame(b"def"))
    assert wire.frames() == [b"a", b"bc", b"def"]


@pytest.mark.parametrize("piece_size", range(1, 12))
def test_frames_are_the_same_when_the_stream_is_cut_anywhere(piece_size: int) -> None:
    wire = Wire()
    wire.receive(frame(b"abc") + frame(b"d") + frame(b"efghijk"), piece_size)
    assert wire.frames() == [b"abc", b"d", b"efghijk"]


def test_frames_are_the_same_when_sizes_and_cuts_are_random() -> None:
    for seed in range(50):
        chance = random.Random(seed)
        sizes = [chance.choice((1, 3, 100, 5_000, 70_000, 300_000)) for _ in range(chance.randrange(1, 12))]
        payloads = [chance.randbytes(size) for size in sizes]
        stream = b"".join(map(frame, payloads))
        wire = Wire(shared_size=chance.choice((4, 1_000, limits.RECEIVE_BUFFER_SIZE)))
        wire.receive(stream, chance.choice((7, 4_096, 1 << 30)))
        assert wire.frames() == payloads, f"seed {seed}"


def test_frame_is_not_overwritten_when_the_shared_buffer_is_used_again() -> None:
    wire = Wire()
    wire.receive(frame(b"first"))
    wire.receive(frame(b"other"))
    assert wire.frames() == [b"first", b"other"]


@pytest.mark.parametrize("size", [0, -1, -(2**31), MAX_FRAME_SIZE + 1, 2**31 - 1])
def test_size_is_told_and_the_frames_before_it_are_kept_when_it_is_out_of_bounds(size: int) -> None:
    wire = Wire()
    assert wire.receive(frame(b"good") + size.to_bytes(4, "big", signed=True) + b"rest") == size
    assert wire.frames() == [b"good"]


def test_memory_follows_what_arrived_when_a_large_frame_was_announced() -> None:
    wire = Wire()
    wire.receive(MAX_FRAME_SIZE.to_bytes(4, "big") + b"x")
    assert len(wire.assembler.buffer(wire.shared)) <= limits.FIRST_FRAME_ALLOCATION
    assert wire.assembler.assembled_size == 1


def test_assembled_size_counts_only_the_frame_that_is_not_complete() -> None:
    wire = Wire()
    payload = bytes(100_000)
    wire.receive(frame(b"whole") + frame(payload)[:50_000])
    assert wire.assembler.assembled_size == 50_000 - 4
    wire.receive(frame(payload)[50_000:])
    assert wire.assembler.assembled_size == 0
    assert wire.frames() == [b"whole", payload]


def test_nothing_is_held_when_the_connection_is_over() -> None:
    wire = Wire()
    wire.receive(frame(b"whole") + frame(bytes(100_000))[:50_000])
    wire.assembler.discard()
    assert wire.frames() == []
    assert wire.assembler.assembled_size == 0
    assert wire.assembler.buffer(wire.shared) is wire.shared


@pytest.mark.parametrize(
    ("before", "data", "taken"),
    [
        (b"", frame(b"alone"), b"alone"),
        (b"", frame(b"first") + frame(b"second"), None),
        (b"", frame(b"begun")[:-1], None),
        (b"", b"\0\0\0\0", None),
        (b"", (MAX_FRAME_SIZE + 1).to_bytes(4, "big"), None),
        (b"\0\0", frame(b"x"), None),  # the rest of a size
        (frame(b"a long frame")[:-5], frame(b"x"), None),  # the rest of a frame
        (frame(b"waits"), frame(b"x"), None),
    ],
)
def test_frame_is_taken_alone_when_it_is_all_there_is(before: bytes, data: bytes, taken: bytes | None) -> None:
    wire = Wire()
    wire.receive(before)
    waiting = wire.frames()
    wire.shared[: len(data)] = data
    assert wire.assembler.take_alone(wire.shared, len(data), MAX_FRAME_SIZE) == taken
    assert wire.frames() == waiting
