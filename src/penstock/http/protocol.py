"""One HTTP connection: uvicorn's protocol over httptools, and what it lacks against clients that mean harm.

Headers have a size and their time from the first byte on; what comes behind a body is no header, and has a size, as has
what comes between the pieces of a body (the parser keeps a trailer whole until its end); few requests wait behind
the one that is answered; a client that takes nothing of its answer is cut off; a refusal reaches a client that is still
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

# uvicorn has a line for every request that cannot be read. What it would tell is counted instead.
_SILENCE = logging.getLogger("penstock.http.silence")
_SILENCE.disabled = True

# What a refused client may still send before it has read the answer: a second of it, or a megabyte.
_LINGER_S = 1.0
_LINGER_BYTES = 1024 * 1024
# Behind the request that is answered. Clients that pipeline wait for answers sooner, and send the rest again when the
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
        self._timer: asyncio.TimerHandle | None = None  # for headers
        self._stall: asyncio.TimerHandle | None = None
        self._is_in_message = False
        self._is_in_headers = False
        self._header_bytes = 0
        self._has_progress = False  # by what was fed last: headers came to their end, or a piece of a body came
        self._bytes_without_body = 0
        self._is_deaf = False  # what comes is not read any more
        self._unread = 0
        self.on_gone: Callable[[], None] | None = None  # the answer under way has nobody left to go to

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        established = transport.get_extra_info("ssl_object")
        certificate = None if established is None else established.getpeercert(binary_form=True)
        self.app_state = {"peer_certificate": certificate, "connection": self}
        super().connection_made(cast("asyncio.Transport", _GentleTransport(transport, self)))
        self._await_headers()

    # -------------------------------------------------------------------------------------------- while inside

    def data_received(self, data: bytes) -> None:
        if self._is_deaf:
            self._count_unread(len(data))
            return
        self._unset_keepalive_if_required()
        if self._timer is None and self._is_between_requests():
            self._await_headers()
        self._has_progress = False
        try:
            self._feed(data)
        except httptools.HttpParserError as error:
            if isinstance(error.__context__, _TooManyWaitingError):
                self._hear_no_more()
            else:
                self._refuse(HTTPStatus.BAD_REQUEST, "malformed")
            return
        if self._is_in_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.max_header_bytes + self._limits.max_target_bytes:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers")
            return
        if not self._is_between_requests():
            self._cancel_timer()
        if self._is_in_message:
            self._count_without_body(len(data))

    def _count_without_body(self, size: int) -> None:
        """Trailers and extensions of chunks: nobody looks at them."""
        self._bytes_without_body = 0 if self._has_progress else self._bytes_without_body + size
        if self._bytes_without_body > self._limits.max_header_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "trailers")

    def _feed(self, data: bytes) -> None:
        """A request to change the protocol is answered in this one, and more may follow it."""
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
        if self._is_in_headers:  # those behind a body come too late to be looked at by anybody
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

    def _hear_no_more(self) -> None:
        """The requests that were read are answered, and the connection closed then."""
        self._is_deaf = True
        self.cycle.keep_alive = False
        self._cancel_timer()

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        self._metrics.count_refused(reason)
        if (self._is_in_headers or self.pipeline) and not self._is_between_requests():
            self._hear_no_more()  # the requests before it have their answers first
            return
        self._answer(status)
        if not self._is_between_requests():
            self.cycle.disconnected = True  # whoever works on the request has nobody to answer
            self.cycle.message_event.set()
        self.transport.close()

    def _await_headers(self) -> None:
        self._timer = self.loop.call_later(self._limits.headers_s, self._give_up_headers)

    def _give_up_headers(self) -> None:
        """Who has sent nothing is told nothing."""
        self._timer = None
        if self.transport.is_closing():
            return
        self._metrics.count_refused("slow headers")
        if self._is_in_message:
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
        self.transport.close()

    def on_response_complete(self) -> None:
        self._cancel_timer()
        super().on_response_complete()
        if not self._is_between_requests():  # the next request was there already
            self._cancel_timer()

    def _answer(self, status: HTTPStatus) -> None:
        """Nothing where an answer is under way already: a second one would be taken for its rest."""
        if not self._is_between_requests() and self.cycle.response_started:
            return
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self._metrics.count_answer(status)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(self._limits.stalled_s, self._give_up_answer)

    def resume_writing(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        super().resume_writing()

    def _give_up_answer(self) -> None:
        self._metrics.count_refused("slow reader")
        self.transport.abort()

    # -------------------------------------------------------------------------------------------- going out

    def has_unread_request(self) -> bool:
        return self._is_in_message or self._is_deaf or bool(self.pipeline)

    def linger(self, transport: asyncio.Transport) -> None:
        """Closes our half, and takes what the client still sends, for a moment. To close both while something lies
        unread would make the system reset the connection, and the answer would be lost on the way.
        """
        self._is_deaf = True
        self._cancel_timer()
        transport.write_eof()
        transport.resume_reading()
        self._timer = self.loop.call_later(_LINGER_S, transport.abort)

    def _count_unread(self, size: int) -> None:
        self._unread += size
        if self._unread > _LINGER_BYTES:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        super().connection_lost(exc)
        if self.on_gone is not None:
            self.on_gone()
        self._unset_keepalive_if_required()
        self._on_lost()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _GentleTransport:
    """What uvicorn takes for the transport: it closes without losing the answer that was written last."""

    def __init__(self, transport: asyncio.Transport, protocol: GuardedProtocol) -> None:
        self._transport = transport
        self._protocol = protocol
        self._is_closing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        can_linger = not self._transport.is_closing() and self._transport.can_write_eof()
        if can_linger and self._protocol.has_unread_request():
            self._protocol.linger(self._transport)
        else:
            self._transport.close()
