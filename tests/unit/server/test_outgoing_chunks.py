from __future__ import annotations

from penstock.protocol.message import Chunk
from penstock.server.net import limits
from penstock.server.net.outgoing_chunks import Outgoing
from tests.unit.server.harness import FakeSlice

SOCKET = 7


def outgoing(*chunks: Chunk) -> Outgoing:
    queue = Outgoing()
    queue.chunks.extend(chunks)
    return queue


def test_memory_and_small_files_go_together_when_memory_comes_first() -> None:
    large = FakeSlice(limits.GATHERED_CHUNK_SIZE + 1)
    queue = outgoing(b"head", FakeSlice(10), bytearray(b"tail"), large, b"next")
    assert queue.gather() == [b"head", bytes(10), b"tail"]
    assert list(queue.chunks) == [large, b"next"]


def test_nothing_is_gathered_when_a_file_comes_first() -> None:
    queue = outgoing(FakeSlice(10), b"next")
    assert queue.gather() == []
    assert len(queue.chunks) == 2


def test_file_goes_in_pieces_when_the_socket_takes_part_of_it() -> None:
    file = FakeSlice(100, takes=[30, 70])
    queue = outgoing(file, b"next")
    assert (queue.send_file(SOCKET), len(queue.chunks)) == (30, 2)
    assert (queue.send_file(SOCKET), len(queue.chunks)) == (70, 1)
    assert file.sends == [(0, 30), (30, 70)]


def test_piece_is_read_behind_what_was_sent_when_the_socket_takes_no_more() -> None:
    file = FakeSlice(limits.WRITE_PIECE_SIZE + 50, takes=[20])
    queue = outgoing(file)
    assert queue.send_file(SOCKET) == 20
    assert queue.send_file(SOCKET) == 0
    assert len(queue.read_file()) == limits.WRITE_PIECE_SIZE
    assert len(queue.read_file()) == 30
    assert not queue.chunks
    assert file.reads == [(20, limits.WRITE_PIECE_SIZE), (20 + limits.WRITE_PIECE_SIZE, 30)]


def test_empty_file_is_passed_over_without_a_read_when_its_turn_comes() -> None:
    file = FakeSlice(0)
    queue = outgoing(file, b"next")
    assert (queue.send_file(SOCKET), queue.read_file()) == (0, b"")
    assert file.reads == []
    assert list(queue.chunks) == [b"next"]
