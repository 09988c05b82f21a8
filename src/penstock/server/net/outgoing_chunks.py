"""Replies on their way out: chunks in order, in memory or in files, and how much of the first file has gone.

What a slow client has not taken stays in its files. Nothing here waits or touches a transport.
"""

from __future__ import annotations

from collections import deque

from penstock.protocol.message import Buffer, Chunk
from penstock.server.net import limits

_IN_MEMORY = (bytes, bytearray, memoryview)


class Outgoing:
    __slots__ = ("_position", "chunks")

    def __init__(self) -> None:
        self.chunks: deque[Chunk] = deque()
        self._position = 0  # in the first chunk, where that is a file

    def gather(self) -> list[Buffer]:
        """Takes from the front all that is in memory, and with it small files: a system call and a packet of their own
        would cost more than reading them, and a consumer at the end of a log is mostly sent so little.

        Returns nothing when a file comes first, since part of it may be out already. Raises OSError or ValueError when
        a file cannot be read.
        """
        gathered: list[Buffer] = []
        chunks = self.chunks
        room = limits.WRITE_PIECE_SIZE
        while chunks:
            chunk = chunks[0]
            if not isinstance(chunk, _IN_MEMORY):
                size = len(chunk)
                if not gathered or not 0 < size <= min(limits.GATHERED_CHUNK_SIZE, room):
                    break
                room -= size
                chunk = chunk.read(0, size)
            gathered.append(chunk)
            chunks.popleft()
        return gathered

    def send_or_read(self, socket_fd: int) -> tuple[int, bytes]:
        """How much of the first chunk, a file, the socket has taken; if nothing, the next piece of it. There is no
        socket below 0. Raises OSError or ValueError when the file cannot be read.
        """
        sent = 0 if socket_fd < 0 else self.send_file(socket_fd)
        return sent, b"" if sent else self.read_file()

    def send_file(self, socket_fd: int) -> int:
        """From the page cache to the socket, as much of the first chunk, a file, as the socket takes: maybe nothing.
        Raises OSError or ValueError when the file cannot be read.
        """
        chunk = self.chunks[0]
        assert not isinstance(chunk, _IN_MEMORY)
        if not len(chunk):
            return 0
        try:
            sent = chunk.send(socket_fd, self._position)
        except BlockingIOError:
            return 0
        self._advance(sent)
        return sent

    def read_file(self) -> bytes:
        """The next piece of the first chunk, a file. Raises OSError or ValueError when the file cannot be read."""
        chunk = self.chunks[0]
        assert not isinstance(chunk, _IN_MEMORY)
        size = min(limits.WRITE_PIECE_SIZE, len(chunk) - self._position)
        piece = chunk.read(self._position, size) if size else b""
        self._advance(len(piece))
        return piece

    def _advance(self, size: int) -> None:
        self._position += size
        if self._position == len(self.chunks[0]):
            self.chunks.popleft()
            self._position = 0
