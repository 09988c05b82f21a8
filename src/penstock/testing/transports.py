"""A transport without a socket: the test decides, byte by byte, what a protocol receives and what it gets rid of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from typing import Any

from penstock.core.types import Buffer


class FakeTransport(asyncio.Transport):
    """Takes the protocol's writes and keeps them until the test lets them drain; pauses and resumes the protocol
    exactly as asyncio's own transports do.
    """

    def __init__(
        self, protocol: asyncio.BufferedProtocol, *, takes_everything: bool = True, host: str = "10.0.0.1"
    ) -> None:
        super().__init__()
        self.protocol = protocol
        self.takes_everything = takes_everything
        self.sent = bytearray()  # what the peer has received
        self.buffered = bytearray()  # what waits for the peer
        self.most_buffered = 0
        self.is_lost = False
        self._is_closing = False
        self._was_aborted = False
        self._is_reading_paused = False
        self._is_protocol_paused = False
        self._high, self._low = 65_536, 16_384
        self._extra = {"peername": (host, 50_000), "socket": socket.socket()}

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._extra.get(name, default)

    # ---- the peer's side

    def connect(self) -> None:
        self.protocol.connection_made(self)

    def receive(self, data: Buffer) -> int:
        """The peer sends `data`; returns how much of it was read before the protocol paused or closed.

        The view stays alive during the call, as it does in the standard event loop.
        """
        position = 0
        while position < len(data) and not self._is_reading_paused and not self._is_closing:
            view = memoryview(self.protocol.get_buffer(-1))
            size = min(len(view), len(data) - position)
            assert size, "the protocol asks for more and gives no room"
            view[:size] = data[position : position + size]
            position += size
            self.protocol.buffer_updated(size)
        return position

    def end_of_stream(self) -> None:
        if not self.protocol.eof_received():
            self.close()

    def take(self, size: int | None = None) -> None:
        """The peer reads `size` bytes, by default everything that waits."""
        size = len(self.buffered) if size is None else size
        self.sent += self.buffered[:size]
        del self.buffered[:size]
        if self._is_protocol_paused and len(self.buffered) <= self._low:
            self._is_protocol_paused = False
            self.protocol.resume_writing()

    def lose(self, error: Exception | None = None) -> None:
        """The connection is over; the protocol learns it once, as from an event loop."""
        if not self.is_lost:
            self.is_lost = self._is_closing = True
            self.release()
            self.protocol.connection_lost(error)

    def release(self) -> None:
        self._extra["socket"].close()  # type: ignore[attr-defined]

    # ---- the protocol's side

    def was_aborted(self) -> bool:
        return self._was_aborted

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = self._was_aborted = True
        self.buffered.clear()

    def is_reading_paused(self) -> bool:
        return self._is_reading_paused

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high
        self._low = self._high // 4 if low is None else low

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        assert not self._is_closing, "written to after it was closed"
        if self.takes_everything:
            self.sent += data
            return
        self.buffered += data
        self.most_buffered = max(self.most_buffered, len(self.buffered))
        if len(self.buffered) > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))
