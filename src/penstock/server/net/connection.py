"""One client's connection: bytes to frames, frames to replies, replies to the socket, in order and within bounds.

A connection serves one request at a time, as Kafka's does: that alone keeps replies in order and bounds what a client
can have in flight. Requests that arrive meanwhile wait in a short queue; when it is full, in number or in bytes,
reading stops and TCP pushes back. A reply that the client is slow to take stays mostly in its files: only about two
pieces of it are in memory at any time. A client that sends many requests at once is served some of them in each turn
of the loop, so that others get theirs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Awaitable
from typing import Protocol, cast

from penstock.broker.session import Reply, Session, UnanswerableError
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.message import Buffer, Chunk, FileChunk
from penstock.server.net import limits
from penstock.server.net.gathering import IN_MEMORY, gather

logger = logging.getLogger("penstock.server.net.connection")

_SIZE = struct.Struct(">i")


class Listener(Protocol):
    """What a connection needs of the port that accepted it."""

    receive_buffer: memoryview
    max_frame_size: int
    metrics: SocketMetrics

    def handle(self, session: Session, frame: Buffer) -> Reply | Awaitable[Reply]: ...

    def opened(self, connection: Connection) -> Session | None: ...

    def closed(self, connection: Connection) -> None: ...

    def malformed(self, connection: Connection, kind: str, reason: str) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """Memory: an idle connection holds this object and no buffer, since all connections of a loop share the
    receive buffer.
    """

    __slots__ = (
        "_awaited",
        "_chunk_position",
        "_chunks",
        "_closing",
        "_filled",
        "_frame",
        "_frame_size",
        "_head",
        "_listener",
        "_reading_paused",
        "_requests",
        "_socket_fd",
        "_transport",
        "_writing_paused",
        "_yielded",
        "idle_rounds",
        "session",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self.session: Session | None = None
        self.idle_rounds = 0
        # Receiving: either `_head` holds up to three bytes of a size, or `_frame` is under assembly.
        self._head = b""
        self._frame: bytearray | None = None
        self._frame_size = 0
        self._filled = 0
        self._requests: deque[Buffer] = deque()
        self._reading_paused = False
        self._yielded = False  # there is more to serve, in a later turn of the loop
        # Replying.
        self._awaited: asyncio.Future[Reply] | None = None
        self._chunks: deque[Chunk] = deque()
        self._chunk_position = 0
        self._writing_paused = False
        self._socket_fd = -1  # for sendfile; -1 where bytes must pass through TLS
        self._closing = False

    # -------------------------------------------------------------------------------------------- life

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Nothing may wait in the transport while we go on: what it cannot send at once stops us until it is out.
        self._transport.set_write_buffer_limits(high=0)
        sock = transport.get_extra_info("socket")
        self._socket_fd = -1 if sock is None or transport.get_extra_info("ssl_object") else sock.fileno()
        self.session = self._listener.opened(self)
        if self.session is None:  # the listener has no room for it
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._awaited is not None:
            # A turn later: a request that was begun in this one has not run yet, and would end as a warning.
            asyncio.get_running_loop().call_soon(self._awaited.cancel)
        self._requests.clear()
        self._chunks.clear()
        self._frame = None
        self._listener.closed(self)

    def close(self) -> None:
        """Closes once what was already handed to the transport is out."""
        if not self._closing and self._transport is not None:
            self._closing = True
            self._requests.clear()
            self._chunks.clear()  # a reply cut short is of no use to anybody
            self._transport.close()

    def abort(self) -> None:
        """Closes now; what was not yet sent is lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def socket(self) -> socket.socket:
        assert self._transport is not None
        sock: socket.socket = self._transport.get_extra_info("socket")
        return sock

    @property
    def peer(self) -> tuple[str, int]:
        assert self._transport is not None
        name = self._transport.get_extra_info("peername")
        return (name[0], name[1]) if name else ("unknown", 0)

    @property
    def awaited(self) -> asyncio.Future[Reply] | None:
        """The request that waits inside the broker. While there is one, the client has a reason to be silent."""
        return self._awaited

    @property
    def is_reading_paused(self) -> bool:
        """Then not even the client's end would be noticed."""
        return self._reading_paused

    # -------------------------------------------------------------------------------------------- receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        return self._listener.receive_buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Costs one copy of a frame that fits the receive buffer; a larger frame lands where it stays. Tried: a
        buffer per connection (64 KB for each idle client) and decoding in the shared buffer (a waiting request would
        see it overwritten). Bench: small requests, pipelined.
        """
        self.idle_rounds = 0
        if self._closing:
            return
        if self._frame is not None:
            self._filled += nbytes
            self._continue_frame()
        else:
            self._split_frames(self._listener.receive_buffer[:nbytes])
        self._serve()

    def _split_frames(self, data: memoryview) -> None:
        if self._head:
            data = memoryview(self._head + bytes(data))
            self._head = b""
        position, end = 0, len(data)
        while end - position >= 4:
            (size,) = _SIZE.unpack_from(data, position)
            position += 4
            if not 0 < size <= self._listener.max_frame_size:
                self._serve()  # what came before it is in order
                self._refuse(
                    "frame size", f"a frame of {size} bytes; at most {self._listener.max_frame_size} are accepted"
                )
                return
            if position + size > end:
                self._begin_frame(size, data[position:])
                return
            self._requests.append(bytes(data[position : position + size]))
            position += size
        self._head = bytes(data[position:])

    def _begin_frame(self, size: int, received: memoryview) -> None:
        """Memory follows the bytes that have arrived, not the size that was announced."""
        self._frame_size = size
        self._filled = len(received)
        self._frame = bytearray(min(size, max(limits.FIRST_FRAME_ALLOCATION, 4 * self._filled)))
        self._frame[: self._filled] = received

    def _continue_frame(self) -> None:
        frame = self._frame
        assert frame is not None
        if self._filled == self._frame_size:
            self._frame = None
            self._requests.append(frame)
        elif self._filled == len(frame):
            # A new buffer, not a longer one: the event loop still holds the view that it has just filled, and a
            # bytearray with a view on it cannot grow. Growing fourfold copies a third of the frame at most.
            self._frame = bytearray(min(self._frame_size, 4 * len(frame)))
            self._frame[: self._filled] = frame

    def eof_received(self) -> bool:
        return False

    def _refuse(self, kind: str, reason: str) -> None:
        if not self._closing:
            self._listener.malformed(self, kind, reason)
            self.close()

    # -------------------------------------------------------------------------------------------- serving

    def _serve(self) -> None:
        requests = self._requests
        left = limits.REQUESTS_PER_TURN
        replies: list[Chunk] = []  # those without records go out together
        size = 0
        while requests and self._can_serve():
            if not left:
                self._yield()
                break
            left -= 1
            assert self.session is not None
            try:
                reply = self._listener.handle(self.session, requests.popleft())
            except UnanswerableError as error:
                self._send(replies)
                self._refuse(error.kind, str(error))
                return
            except BaseException:  # a bug; going on would answer the next request in place of this one
                self.abort()
                raise
            if reply is None:
                continue
            if isinstance(reply, list):
                replies += reply
                size += len(reply[0])
                if len(reply) > 1 or size > limits.WRITE_PIECE_SIZE:
                    self._send(replies)
                    replies, size, left = [], 0, 0
            else:
                self._awaited = asyncio.ensure_future(reply)
                self._awaited.add_done_callback(self._on_reply)
        self._send(replies)
        self._throttle()

    def _yield(self) -> None:
        self._yielded = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._yielded = False
        if not self._closing:
            self._send_pieces()
            self._serve()

    def _can_serve(self) -> bool:
        return (
            self._awaited is None
            and not self._chunks
            and not self._writing_paused
            and not self._yielded
            and not self._closing
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def _throttle(self) -> None:
        """Reading goes on only while little is waiting, so a client that does not take its replies stops being read."""
        if self._closing or self._transport is None:
            return
        is_crowded = self._is_crowded()
        if is_crowded and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()
        elif self._reading_paused and not is_crowded and not self._requests:
            self._reading_paused = False
            self._transport.resume_reading()

    def _is_crowded(self) -> bool:
        """A frame still under assembly counts only while it would have to wait: else it could never be completed.
        Between two turns nothing is read, so that the end of the stream is not seen before what came ahead of it.
        """
        requests = self._requests
        if self._yielded or len(requests) >= limits.QUEUED_REQUESTS:
            return True
        if self._frame is None:
            return bool(requests) and sum(map(len, requests)) >= limits.QUEUED_BYTES
        return self._filled + sum(map(len, requests)) >= limits.QUEUED_BYTES and not self._can_serve()

    def _on_reply(self, future: asyncio.Future[Reply]) -> None:
        self._awaited = None
        if self._closing:
            if not future.cancelled():
                future.exception()  # nobody is left to hear of it
            return
        if future.cancelled():
            self.abort()  # the client would wait for ever
            return
        error = future.exception()
        if isinstance(error, UnanswerableError):
            self._refuse(error.kind, str(error))
            return
        if error is not None:  # a bug: dispatch turns every failure into a reply or an UnanswerableError
            self.abort()
            raise error
        reply = future.result()
        if reply is not None:
            self._send(reply)
        self._serve()

    # -------------------------------------------------------------------------------------------- sending

    def _send(self, chunks: list[Chunk]) -> None:
        if chunks and not self._closing:
            self._chunks.extend(chunks)
            self._send_pieces()

    def _send_pieces(self) -> None:
        """Hands over pieces until the transport says stop, or others must have a turn; `resume_writing` or `_go_on`
        comes back here.
        """
        assert self._transport is not None
        stop_at = self._listener.metrics.bytes_out + limits.BYTES_PER_TURN
        while self._chunks and not self._writing_paused and not self._closing and not self._transport.is_closing():
            if self._listener.metrics.bytes_out > stop_at:
                self._yield()
                return
            try:
                gathered = gather(self._chunks)
            except (OSError, ValueError) as error:
                self._fail_reading(error)
                return
            if not gathered:
                self._send_from_file()
            else:
                data = gathered[0] if len(gathered) == 1 else b"".join(gathered)
                self._listener.metrics.bytes_out += len(data)
                self._transport.write(data)

    def _send_from_file(self) -> None:
        """From the page cache to the socket if the socket takes anything; else a piece that waits in the transport,
        which tells us when it is out. The transport is empty here, so nothing can overtake.
        """
        chunk = self._chunks[0]
        assert self._transport is not None
        assert not isinstance(chunk, IN_MEMORY)
        start = self._chunk_position
        try:
            sent = self._send_directly(chunk, start)
            if not sent and len(chunk):
                piece = chunk.read(start, min(limits.WRITE_PIECE_SIZE, len(chunk) - start))
                sent = len(piece)
                self._transport.write(piece)
        except (OSError, ValueError) as error:
            self._fail_reading(error)
            return
        self._listener.metrics.bytes_out += sent
        self._chunk_position = start + sent
        if self._chunk_position == len(chunk):
            self._chunks.popleft()
            self._chunk_position = 0

    def _fail_reading(self, error: Exception) -> None:
        """Half a reply may be out and cannot be taken back; the client asks again and then gets the error."""
        if not isinstance(error, ConnectionError):
            logger.error("closing %s: reading a segment failed: %s", self.session, error)
        self.abort()

    def _send_directly(self, chunk: FileChunk, start: int) -> int:
        if self._socket_fd < 0 or not len(chunk):
            return 0
        try:
            return chunk.send(self._socket_fd, start)
        except BlockingIOError:
            return 0

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.idle_rounds = 0  # the client takes its replies, slowly as it may be
        if not self._closing:
            self._send_pieces()
            self._serve()
