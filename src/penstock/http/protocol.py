"""One HTTP connection: uvicorn's protocol over h11, and what it lacks against clients that mean harm.

Headers have their time from the first byte on, which uvicorn gives to idle connections alone; a client that takes
nothing of its answer is cut off; a request that h11 cannot read gets the status that h11 suggests; a refusal reaches a
client that is still sending.

Time here is the loop's, because these are timers of a real network.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.limits import HttpLimits

# uvicorn has a line for every request that cannot be read. What it would tell is counted instead.
_SILENCE = logging.getLogger("penstock.http.silence")
_SILENCE.disabled = True

# What a refused client may still send before it has read the answer: a second of it, or a megabyte.
_LINGER_S = 1.0
_LINGER_BYTES = 1024 * 1024


class GuardedProtocol(H11Protocol):
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
        self._is_lingering = False
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
        if self._is_lingering:
            self._count_unread(len(data))
            return
        if self._timer is None and self._is_between_requests():
            self._await_headers()
        super().data_received(data)
        if not self._is_between_requests():
            self._cancel_timer()

    def _is_between_requests(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _await_headers(self) -> None:
        self._timer = self.loop.call_later(self._limits.headers_s, self._give_up_headers)

    def _give_up_headers(self) -> None:
        """Who has sent nothing is told nothing."""
        self._timer = None
        if self.transport.is_closing():
            return
        self._metrics.count_refused("slow headers")
        if self.conn.trailing_data[0]:
            self._answer(HTTPStatus.REQUEST_TIMEOUT)
        self.transport.close()

    def on_response_complete(self) -> None:
        self._cancel_timer()
        super().on_response_complete()
        if not self._is_between_requests():  # the next request was there already
            self._cancel_timer()

    def send_400_response(self, msg: str) -> None:
        """Called where h11 could not read what came."""
        error = sys.exception()
        status = error.error_status_hint if isinstance(error, h11.RemoteProtocolError) else HTTPStatus.BAD_REQUEST
        is_large = status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        self._metrics.count_refused("headers" if is_large else "malformed")
        self._answer(HTTPStatus(status))
        self.transport.close()

    def _answer(self, status: HTTPStatus) -> None:
        """Nothing where an answer is under way already: a second one would be taken for its rest."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
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
        return self.conn.their_state in (h11.SEND_BODY, h11.ERROR) or bool(self.conn.trailing_data[0])

    def linger(self, transport: asyncio.Transport) -> None:
        """Closes our half, and takes what the client still sends, for a moment. To close both while something lies
        unread would make the system reset the connection, and the answer would be lost on the way.
        """
        if self._is_lingering:
            return
        self._is_lingering = True
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

    def shutdown(self) -> None:
        with contextlib.suppress(h11.LocalProtocolError):  # in the middle of a request: it will be closed in time
            super().shutdown()

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
