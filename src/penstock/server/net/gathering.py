"""Which chunks of a reply go out in one piece."""

from __future__ import annotations

from collections import deque

from penstock.protocol.message import Buffer, Chunk
from penstock.server.net import limits

IN_MEMORY = (bytes, bytearray, memoryview)


def gather(chunks: deque[Chunk]) -> list[Buffer]:
    """Takes from the front all that is in memory, and with it what is so little that a system call and a packet of its
    own would cost more than reading it: a consumer at the end of a log is mostly sent so little. Nothing when a file
    comes first, since part of it may be out already. OSError or ValueError when the file cannot be read.
    """
    gathered: list[Buffer] = []
    room = limits.WRITE_PIECE_SIZE
    while chunks:
        chunk = chunks[0]
        if not isinstance(chunk, IN_MEMORY):
            size = len(chunk)
            if not gathered or not 0 < size <= min(limits.GATHERED_CHUNK_SIZE, room):
                break
            room -= size
            chunk = chunk.read(0, size)
        gathered.append(chunk)
        chunks.popleft()
    return gathered
