"""One HTTP connection: uvicorn's protocol over httptools, with defences against hostile clients.

Headers have a size limit and a time limit from the first byte on; bytes behind a body are no header, and have a limit,
as have the bytes between the pieces of a body (the parser keeps a trailer whole until its end); few requests wait
behind the current one; a client that reads nothing of its answer is cut off; a refusal reaches a client that is still
sending.

Time here is the loop's, because these are timers of a real network.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.limits import HttpLimits

# uvicorn logs a line for every unreadable request. Here a metric counts them instead.
_SILENCE = logging.getLogger("penstock.http.silence")
_SILENCE.disabled = True

# The bytes that a refused client may still send before it has read the answer: a second of them, or a megabyte.
_LINGER_S = 1.0
_LINGER_BYTES = 1024 * 1024
# The requests behind the current one. Clients that pipeline wait for answers sooner, and send the rest again when the
# connection is closed in an orderly way.
_MOST_WAITING = 16


class _TooManyWaitingError(Exception):
    """Raised through the parser, to make it stop."""


class GuardedProtocol(HttpToolsProtocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        limits: HttpLimits,
        metrics: HttpMetrics,
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(config, server_state, {}, asyncio.get_running_loop())
        self.logger = _SILENCE
        self.access_log = False
        self._limits = limits
        self._metrics = metrics
        self._on_lost = on_lost
        self._headers_due = _Deadline(self.loop)
        self._stall = _Deadline(self.loop)
        self._is_in_message = False
        self._is_in_headers = False
        self._header_bytes = 0
        self._has_progress = False  # by the last data: headers were completed, or a piece of a body came
        self._bytes_without_body = 0
        self._is_deaf = False  # incoming data is not read any more
        self._answering: RequestResponseCycle | None = None
        self.on_gone: Callable[[], None] | None = None  # called when the client of the current answer has gone

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        established = transport.get_extra_info("ssl_object")
        certificate = None if established is None else established.getpeercert(binary_form=True)
        self.app_state = {"peer_certificate": certificate, "connection": self}
        self._outgoing = _GentleTransport(transport, self)
        super().connection_made(cast("asyncio.Transport", self._outgoing))
        self._await_headers()

    # -------------------------------------------------------------------------------------------- while inside

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._outgoing.count_unread(len(data))
            return
        self._unset_keepalive_if_required()
        if not self._headers_due.is_set and self._is_between_requests():
            self._await_headers()
        self._has_progress = False
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooManyWaitingError):
                self.hear_no_more()
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, "malformed")
            return
        if self._is_in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.max_header_bytes + self._limits.max_target_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers")
            return
        if not self._is_between_requests():
            self._headers_due.cancel()
        if self._is_in_message:
            self._count_without_body(len(data))

    def _count_without_body(self, size: int) -> None:
        """Trailers and extensions of chunks, which are ignored."""
        self._bytes_without_body = 0 if self._has_progress else self._bytes_without_body + size
        if self._bytes_without_body > self._limits.max_header_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "trailers")

    def _feed(self, data: bytes) -> None:
        """A request to change the protocol is answered in the present protocol, and more may follow it."""
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_message = self._is_in_headers = True
        self._header_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_headers:  # headers behind a body come too late for any reader
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MOST_WAITING:
            raise _TooManyWaitingError
        super().on_headers_complete()
        self._is_in_headers = False
        self._has_progress = True

    def on_body(self, body: bytes) -> None:
        self._has_progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_message = False
        super().on_message_complete()

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def hear_no_more(self) -> None:
        """The requests that were read are answered, and then the connection is closed."""
        self._is_deaf = True
        if self.cycle is not None:
            self.cycle.keep_alive = False
        self._headers_due.cancel()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._metrics.count_refused(reason)
        if (self._is_in_headers or self.pipeline) and not self._is_between_requests():
            self.hear_no_more()  # the requests before it get their answers first
            return
        self._answer(status)
        if not self._is_between_requests():
            self.cycle.disconnected = True  # the client has gone: its request needs no answer any more
            self.cycle.message_event.set()
        self.transport.close()

    def _await_headers(self) -> None:
        self._headers_due.set(self._limits.headers_s, self._give_up_headers)

    def _give_up_headers(self) -> None:
        """A client that has sent nothing gets no answer."""
        if self.transport.is_closing():
            return
        self._metrics.count_refused("slow headers")
        if self._is_in_message:
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
        self.transport.close()

    def on_response_complete(self) -> None:
        self._headers_due.cancel()
        super().on_response_complete()
        if not self._is_between_requests():  # the next request was there already
            self._headers_due.cancel()

    def _answer(self, status: HTTPStatus) -> None:
        """Does nothing during an answer: the client would take a second answer for the rest of the first."""
        if not self._is_between_requests() and self.cycle.response_started:
            return
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self._metrics.count_answer(status)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.set(self._limits.stalled_s, self._give_up_answer)

    def resume_writing(self) -> None:
        self._stall.cancel()
        super().resume_writing()

    def _give_up_answer(self) -> None:
        self._metrics.count_refused("slow reader")
        self.transport.abort()

    # -------------------------------------------------------------------------------------------- going out

    def has_unread_request(self) -> bool:
        return self._is_in_message or self._is_deaf or bool(self.pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_due.cancel()
        self._outgoing.forget()
        self._stall.cancel()
        super().connection_lost(exc)
        self._tell_gone()
        if self.on_gone is not None:
            self.on_gone()
        self._unset_keepalive_if_required()
        self._on_lost()

    def _tell_gone(self) -> None:
        """uvicorn disconnects the last request, but with several on the connection another is being answered."""
        cycle = self._answering
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)


class _Deadline:
    """A timer that is set or not; to set it again moves it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, seconds: float, call: Callable[[], None]) -> None:
        self.cancel()
        self._timer = self._loop.call_later(seconds, self._end, call)

    def _end(self, call: Callable[[], None]) -> None:
        self._timer = None
        call()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _GentleTransport:
    """The transport for uvicorn: it closes without losing the last answer. It drops data for a client that has just
    left: uvloop raises an error for that.
    """

    def __init__(self, transport: asyncio.Transport, protocol: GuardedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self._is_closing = False
        self._patience = _Deadline(protocol.loop)
        self._unread = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        can_linger = not self._transport.is_closing() and self._transport.can_write_eof()
        if can_linger and self._protocol.has_unread_request():
            self._linger()
        else:
            self._transport.close()

    def _linger(self) -> None:
        """Closes our half, and reads the client's remaining data, for a moment. If both halves closed while data is
        unread, the system would reset the connection, and the answer would be lost on the way.
        """
        self._protocol.hear_no_more()
        self._transport.write_eof()
        self._transport.resume_reading()
        self._patience.set(_LINGER_S, self._transport.abort)

    def count_unread(self, size: int) -> None:
        self._unread += size
        if self._unread > _LINGER_BYTES:
            self._transport.abort()

    def forget(self) -> None:
        """The connection is gone."""
        self._patience.cancel()
