"""From the bytes of a connection to whole frames: four bytes of size, then that many bytes of a request. No I/O.

Rules:
- Small frames come in through a buffer that all connections share; a whole frame is copied out of it once.
- A frame that reaches beyond the shared buffer gets memory of its own, and the rest of it is received right there.
- Memory follows the bytes that have arrived, not the size that was announced.
- Between two frames the assembler holds at most three bytes, so an idle connection costs nothing more.
"""

from __future__ import annotations

import struct
from collections import deque

from penstock.protocol.message import Buffer
from penstock.server.net import limits

_SIZE = struct.Struct(">i")


class FrameAssembler:
    """`whole` has the frames that are complete, the oldest first; the connection takes them from there.

    Either `_head` holds up to three bytes of the next size, or `_frame` is under assembly.
    """

    __slots__ = ("_frame", "_frame_size", "_head", "assembled_size", "whole")

    def __init__(self) -> None:
        self.whole: deque[Buffer] = deque()
        self._head = b""
        self._frame: bytearray | None = None
        self._frame_size = 0
        self.assembled_size = 0  # bytes that the frame under assembly has

    def buffer(self, shared: memoryview) -> memoryview:
        """Where the next bytes go."""
        return shared if self._frame is None else memoryview(self._frame)[self.assembled_size :]

    def take_alone(self, shared: memoryview, size: int, max_frame_size: int) -> bytes | None:
        """The frame, where the `size` bytes that are now in the buffer are one whole frame and no other is there. None
        where anything is different: then nothing has been taken, and the bytes are for `received`.
        """
        if self.whole or self._head or self._frame is not None or not 4 < size <= max_frame_size:
            return None
        if _SIZE.unpack_from(shared)[0] != size - 4:
            return None
        return bytes(shared[4:size])

    def received(self, shared: memoryview, size: int, max_frame_size: int) -> int | None:
        """Takes the `size` bytes that are now in the buffer from `buffer`. Returns None, or the announced size of a
        frame that is out of bounds. Nothing can be received after that: where the next frame begins is not known.

        Costs one copy of a frame that fits the shared buffer. Tried: a buffer per connection (64 KB for each idle
        client) and decoding in the shared buffer (a waiting request would see it overwritten). Bench: small requests,
        pipelined.
        """
        if self._frame is not None:
            self._continue(self._frame, size)
            return None
        data = shared[:size]
        if self._head:
            data = memoryview(self._head + bytes(data))
            self._head = b""
        position, end = 0, len(data)
        while end - position >= 4:
            (frame_size,) = _SIZE.unpack_from(data, position)
            position += 4
            if not 0 < frame_size <= max_frame_size:
                return int(frame_size)
            if position + frame_size > end:
                self._begin(frame_size, data[position:], max_frame_size)
                return None
            self.whole.append(bytes(data[position : position + frame_size]))
            position += frame_size
        self._head = bytes(data[position:])
        return None

    def waiting_size(self) -> int:
        """Bytes of the whole frames and of the one under assembly."""
        return self.assembled_size + sum(map(len, self.whole))

    def discard(self) -> None:
        """The connection is over: nothing that arrived is of use to anybody."""
        self.whole.clear()
        self._frame = None
        self.assembled_size = 0

    def _begin(self, size: int, received: memoryview, max_frame_size: int) -> None:
        self._frame_size = size
        self.assembled_size = len(received)
        first = min(limits.FIRST_FRAME_ALLOCATION, max_frame_size // limits.FIRST_FRAME_PART)
        self._frame = bytearray(min(size, max(first, 4 * self.assembled_size)))
        self._frame[: self.assembled_size] = received

    def _continue(self, frame: bytearray, size: int) -> None:
        self.assembled_size += size
        if self.assembled_size == self._frame_size:
            self._frame = None
            self.assembled_size = 0
            self.whole.append(frame)
        elif self.assembled_size == len(frame):
            # A new buffer, not a longer one: the event loop still holds the view that it has just filled, and a
            # bytearray with a view on it cannot grow. Growing fourfold copies a third of the frame at most.
            self._frame = bytearray(min(self._frame_size, 4 * len(frame)))
            self._frame[: self.assembled_size] = frame
