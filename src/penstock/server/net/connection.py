"""One client's connection: bytes to frames, frames to replies, replies to the socket, in order and within bounds.

A connection serves one request at a time, as Kafka's does: that alone keeps replies in order and bounds what a client
can have in flight. Writes that wait for replicas or the disk are the exception: others are appended behind them
(`PendingReplies`). Requests that arrive meanwhile wait in a short queue; when it is full, in number or in bytes,
reading stops and TCP pushes back. A reply that the client is slow to take stays mostly in its files: only about two
pieces of it are in memory at any time. A client that sends many requests at once is served some of them in each turn
of the loop, so that others get theirs. A client that has used more than its quota is not read for a while (`mute`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, cast

from penstock.broker.session import Outcome, Session, Throttled, UnanswerableError
from penstock.core.metrics.counters import SocketMetrics
from penstock.protocol.message import Buffer, Chunk
from penstock.server.net import limits
from penstock.server.net.backlog import Backlog
from penstock.server.net.frames import FrameAssembler
from penstock.server.net.outgoing_chunks import Outgoing
from penstock.server.net.pending_replies import PendingReplies

_NOBODY = Session("none", "unknown", "")


class Listener(Protocol):
    """What a connection needs of the port that accepted it."""

    receive_buffer: memoryview
    max_frame_size: int
    metrics: SocketMetrics

    def backlog_of(self, connection: Connection) -> Backlog: ...

    @property
    def handle(self) -> Callable[[Session, Buffer], Outcome | Awaitable[Outcome]]: ...

    def opened(self, connection: Connection, transport: asyncio.BaseTransport) -> Session | None: ...

    def closed(self, connection: Connection) -> None: ...

    def malformed(self, connection: Connection, kind: str, reason: str) -> None: ...

    def failed_reading(self, connection: Connection, error: Exception) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """An idle connection holds this object and no buffer: all connections of a loop share the receive buffer."""

    __slots__ = (
        "_assembler",
        "_closing",
        "_holds",
        "_listener",
        "_outgoing",
        "_socket_fd",
        "_transport",
        "_writing_paused",
        "_yielded",
        "idle_rounds",
        "is_reading_paused",
        "pending",
        "session",
        "unmuting",
    )

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self.session: Session = _NOBODY  # until the listener has taken the connection in
        self.idle_rounds = 0
        self._assembler = FrameAssembler()  # its whole frames are the requests that wait
        self._holds = False  # whether the backlog knows of something
        self.is_reading_paused = False  # meanwhile not even the end of the client is noticed
        self._yielded = False  # nothing is served before `_go_on`, in a later turn of the loop
        self.unmuting: asyncio.TimerHandle | None = None  # a muted connection has yielded until then
        self.pending = PendingReplies()
        self._outgoing = Outgoing()
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
        self.session = self._listener.opened(self, transport) or _NOBODY
        if self.session is _NOBODY:  # the listener has no room for it
            self.abort()
        elif self.is_reading_paused:  # uvloop begins to read after this call, whatever it was told in it
            asyncio.get_running_loop().call_soon(self._transport.pause_reading)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        for waiting in self.pending.futures():
            # A turn later: a request that was begun in this one has not run yet, and would end as a warning.
            asyncio.get_running_loop().call_soon(waiting.cancel)
        self._assembler.discard()
        self._outgoing.chunks.clear()
        if self.unmuting is not None:
            self.unmuting.cancel()
        self._listener.closed(self)

    def close(self) -> None:
        """Closes once what was already handed to the transport is out."""
        if not self._closing and self._transport is not None:
            self._closing = True
            self._assembler.whole.clear()
            self._outgoing.chunks.clear()  # a reply cut short is of no use to anybody
            self._transport.close()

    def abort(self) -> None:
        """Closes now; what was not yet sent is lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    # -------------------------------------------------------------------------------------------- receiving

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._assembler.buffer(self._listener.receive_buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self.idle_rounds = 0
        if self._closing:
            return
        listener = self._listener
        listener.metrics.bytes_in += nbytes
        max_frame_size = self.session.max_frame_size or listener.max_frame_size
        frame = self._assembler.take_alone(listener.receive_buffer, nbytes, max_frame_size)
        if frame is not None and not self.pending.replies and self._can_serve():
            self._serve_alone(frame)
            return
        bad_size = self._assembler.received(listener.receive_buffer, nbytes, max_frame_size)
        self._serve()
        if bad_size is not None:  # what came before it is in order and was served
            reason = f"a frame of {bad_size} bytes; at most {max_frame_size} are accepted"
            self._refuse(UnanswerableError("frame size", reason))

    def _refuse(self, error: UnanswerableError) -> None:
        if not self._closing:
            self._listener.malformed(self, error.kind, str(error))
            self._send(error.reply or [])
            self.close()

    # -------------------------------------------------------------------------------------------- serving

    def _serve(self) -> None:
        if self._can_serve():
            self._serve_waiting(self._assembler.whole)
        self.pace_reading()

    def _serve_waiting(self, requests: deque[Buffer]) -> None:
        """Costs 0.7 us a request and 3 us a turn; through `Outgoing` 4 us more a turn. Bench: requests in flight."""
        session, handle = self.session, self._listener.handle
        left = limits.REQUESTS_PER_TURN
        replies: list[Chunk] = []  # those without records go out together
        size, is_in_memory = 0, True
        metrics, pending = self._listener.metrics, self.pending
        while requests and left and pending.may_serve(requests[0]):
            left -= 1
            metrics.requests += 1
            try:
                request = requests.popleft()
                reply = handle(session, request)
            except UnanswerableError as error:
                self._send(replies)
                self._refuse(error)
                return
            except BaseException:  # a bug; going on would answer the next request in place of this one
                self.abort()
                raise
            if type(reply) is list and not pending.replies:
                replies += reply
                size += len(reply[0])
                if len(reply) > 1 or size > limits.WRITE_PIECE_SIZE:
                    left = 0
                    is_in_memory = len(reply) == 1
            elif isinstance(reply, Throttled):
                left = 0
                self.mute(reply.throttle_ms)
                if pending.replies:
                    pending.add(reply.reply or [], self._on_reply)
                else:
                    replies, is_in_memory = [*replies, *(reply.reply or ())], False
            elif reply is not None:
                self._listener.backlog_of(self).serve(len(request), pending.add(reply, self._on_reply))
        if not is_in_memory:
            self._send(replies)
        elif replies and not self._closing:
            self._write(b"".join(cast("list[Buffer]", replies)))
        if requests and self._can_serve() and pending.may_serve(requests[0]):
            self._yield()

    def _serve_alone(self, frame: Buffer) -> None:
        """What `_serve` does, where nothing waits and the reply mostly goes straight to the socket. Costs 1.5 us;
        `_serve` costs 4. Bench: one record at a time.
        """
        listener = self._listener
        listener.metrics.requests += 1
        try:
            reply = listener.handle(self.session, frame)
        except UnanswerableError as error:
            self._refuse(error)
            return
        except BaseException:  # a bug; going on would answer the next request in place of this one
            self.abort()
            raise
        if isinstance(reply, list):
            if len(reply) == 1 and type(reply[0]) is bytearray:
                self._write(reply[0])
            else:
                self._send(reply)
                self.pace_reading()
        elif isinstance(reply, Throttled):
            self.mute(reply.throttle_ms)
            self._send(reply.reply or [])
        elif reply is not None:
            listener.backlog_of(self).serve(len(frame), self.pending.add(reply, self._on_reply))

    def mute(self, throttle_ms: int) -> None:
        """Serves and reads nothing more for so long. Replies go out as ever."""
        loop = asyncio.get_running_loop()
        until = loop.time() + throttle_ms / 1000
        if self.unmuting is not None:
            if self.unmuting.when() >= until:
                return
            self.unmuting.cancel()
        self._yielded = True
        self.unmuting = loop.call_at(until, self._unmute)
        self.pace_reading()

    def _unmute(self) -> None:
        self.unmuting = None
        self.idle_rounds = 0  # the silence was ours
        self._go_on()

    def _yield(self) -> None:
        self._yielded = True
        asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._yielded = self.unmuting is not None
        if not self._closing:
            self._send_pieces()
            self._serve()

    def _can_serve(self) -> bool:
        return (
            not self._outgoing.chunks
            and not self._writing_paused
            and not self._yielded
            and not self._closing
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def pace_reading(self) -> None:
        """Stops reading while much waits: it pushes back on a client. The backlog calls it when there is room again."""
        if self.is_reading_paused and self._yielded and self.unmuting is None:
            return  # Between two turns nothing is read: the stream's end must not overtake what came before it.
        assembler = self._assembler
        is_waiting = bool(assembler.whole or assembler.assembled_size)
        is_held_back = self.is_reading_paused or self._yielded or self._holds or self.session.is_refused
        if not (is_waiting or is_held_back) or self._closing or self._transport is None:
            return
        self._holds = is_waiting
        size = assembler.waiting_size()
        has_room = self._listener.backlog_of(self).has_room_for(self, len(assembler.whole), size)
        is_crowded = not has_room or self._yielded or self._is_crowded(size)
        if is_crowded and not self.is_reading_paused:
            self.is_reading_paused = True
            self._transport.pause_reading()
        elif self.is_reading_paused and not is_crowded and not self._assembler.whole:
            self.is_reading_paused = False
            self._transport.resume_reading()

    def _is_crowded(self, size: int) -> bool:
        """Whether too much waits, in number or in bytes. A frame under assembly counts only while it would have to
        wait: otherwise it could never be completed.
        """
        assembler = self._assembler
        if len(assembler.whole) >= limits.QUEUED_REQUESTS or self.session.is_refused:
            return True
        is_free = assembler.assembled_size and not self.pending.replies and self._can_serve()
        return size >= limits.QUEUED_BYTES and not is_free

    def _on_reply(self, future: asyncio.Future[Outcome]) -> None:
        if self._closing:
            if not future.cancelled():
                future.exception()  # nobody is left to hear of it
            return
        replies, throttle_ms, failed = self.pending.take_ready()
        if throttle_ms:
            self.mute(throttle_ms)
        self._send(replies)
        if failed is None:
            self._serve()
        else:
            self._fail(failed)

    def _fail(self, future: asyncio.Future[Outcome]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, UnanswerableError):
            self._refuse(error)
            return
        self.abort()  # the client would wait for ever
        if error is not None:
            raise error  # a bug: dispatch turns every failure into a reply or an UnanswerableError

    # -------------------------------------------------------------------------------------------- sending

    def _send(self, chunks: list[Chunk]) -> None:
        if chunks and not self._closing:
            self._outgoing.chunks.extend(chunks)
            self._send_pieces()

    def _write(self, data: Buffer) -> None:
        assert self._transport is not None
        self._listener.metrics.bytes_out += len(data)
        self._transport.write(data)

    def _send_pieces(self) -> None:
        """Hands over pieces until the transport says stop, or others must have a turn; `resume_writing` or `_go_on`
        comes back here.
        """
        assert self._transport is not None
        stop_at = self._listener.metrics.bytes_out + limits.BYTES_PER_TURN
        chunks = self._outgoing.chunks
        while chunks and not self._writing_paused and not self._closing and not self._transport.is_closing():
            if self._listener.metrics.bytes_out > stop_at:
                self._yield()
                return
            try:
                gathered = self._outgoing.gather()
                if gathered:
                    self._write(gathered[0] if len(gathered) == 1 else b"".join(gathered))
                    continue
                # From the page cache to the socket; else a piece that waits in the transport, which tells when it is
                # out. The transport is empty here, so nothing can overtake.
                sent, piece = self._outgoing.send_or_read(self._socket_fd)
                self._listener.metrics.bytes_out += sent
                if piece:
                    self._write(piece)
            except (OSError, ValueError) as error:
                # Half a reply may be out and cannot be taken back; the client asks again and then gets the error.
                if not isinstance(error, ConnectionError):
                    self._listener.failed_reading(self, error)
                self.abort()
                return

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        self.idle_rounds = 0  # the client takes its replies, slowly as it may be
        if not self._closing:
            self._send_pieces()
            self._serve()
