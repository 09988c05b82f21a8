"""One HTTP connection, from the socket to the headers of a request: counted, timed, and only then read.

uvicorn's protocol over h11 does the rest. What is added: a connection beyond the limits is closed before anything is
read; the TLS handshake begins only after that, and has its time; headers have their time from the first byte on, which
uvicorn gives to idle connections alone; a client that takes nothing of its answer is cut off; a request that h11 cannot
read gets the status that h11 suggests.

Time here is the loop's, because these are timers of a real network.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import sys
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from penstock.core.metrics.counters import HttpMetrics
from penstock.http.limits import HttpLimits

TlsContext = Callable[[], ssl.SSLContext]

# uvicorn has a line for every request that cannot be read. What it would tell is counted instead.
_SILENCE = logging.getLogger("penstock.http.silence")
_SILENCE.disabled = True

_SHUTDOWN_S = 5.0
# What a refused client may still send before it has read the answer: a second of it, or a megabyte.
_LINGER_S = 1.0
_LINGER_BYTES = 1024 * 1024
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Door:
    """Who is inside, and what they may do. Shared by the connections of one listener."""

    def __init__(self, limits: HttpLimits, metrics: HttpMetrics, tls: TlsContext | None) -> None:
        self.limits = limits
        self.metrics = metrics
        self.tls = tls
        self.handshakes: set[asyncio.Task[None]] = set()
        self._addresses: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        limits = self.limits
        is_full = self._addresses.total() >= limits.max_connections
        if is_full or self._addresses[address] >= limits.max_connections_per_address:
            self.metrics.count_refused("connections")
            return False
        self._addresses[address] += 1
        self.metrics.connections += 1
        return True

    def leave(self, address: str) -> None:
        self.metrics.connections -= 1
        self._addresses[address] -= 1
        if not self._addresses[address]:
            del self._addresses[address]

    def close(self) -> None:
        for handshake in self.handshakes:
            handshake.cancel()


class GuardedProtocol(H11Protocol):
    """`protocol_at` makes the class for a listener's door."""

    door: Door

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.logger = _SILENCE
        self.access_log = False
        self._address: str | None = None  # while inside
        self._is_begun = False
        self._early = bytearray()  # what came with the end of the handshake
        self._timer: asyncio.TimerHandle | None = None  # for headers
        self._stall: asyncio.TimerHandle | None = None
        self._is_lingering = False
        self._unread = 0

    # -------------------------------------------------------------------------------------------- coming in

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        address = _address_of(transport)
        if not self.door.enter(address):
            if self.door.tls is None:
                transport.write(_BUSY)
            transport.close()
            return
        self._address = address
        if self.door.tls is None:
            self._begin(transport)
        else:
            transport.pause_reading()
            handshake = self.loop.create_task(self._shake_hands(transport, self.door.tls()))
            self.door.handshakes.add(handshake)
            handshake.add_done_callback(self.door.handshakes.discard)

    async def _shake_hands(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            encrypted = await self.loop.start_tls(
                transport,
                self,
                tls,
                server_side=True,
                ssl_handshake_timeout=self.door.limits.handshake_s,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except (OSError, ssl.SSLError, TimeoutError, asyncio.CancelledError):
            self.door.metrics.count_refused("handshake")
            transport.abort()
            self._leave()
            return
        if encrypted is None or self._address is None:  # the client went in the same turn
            transport.abort()
            self._leave()
            return
        self._begin(encrypted)

    def _begin(self, transport: asyncio.Transport) -> None:
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, "peer_certificate": certificate}
        gentle = cast("asyncio.Transport", _GentleTransport(transport, self))
        super().connection_made(gentle)
        self._is_begun = True
        self._await_headers()
        if self._early:
            early, self._early = bytes(self._early), bytearray()
            self.data_received(early)

    # -------------------------------------------------------------------------------------------- while inside

    def data_received(self, data: bytes) -> None:
        if self._address is None or self._is_lingering:  # refused, and not gone yet
            self._count_unread(len(data))
            return
        if not self._is_begun:
            self._early += data
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
        self._timer = self.loop.call_later(self.door.limits.headers_s, self._give_up_headers)

    def _give_up_headers(self) -> None:
        """Who has sent nothing is told nothing."""
        self._timer = None
        if self.transport.is_closing():
            return
        self.door.metrics.count_refused("slow headers")
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
        self.door.metrics.count_refused("headers" if is_large else "malformed")
        self._answer(HTTPStatus(status))
        self.transport.close()

    def _answer(self, status: HTTPStatus) -> None:
        """Nothing where an answer is under way already: a second one would be taken for its rest."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.door.metrics.count_answer(status)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(self.door.limits.stalled_s, self._give_up_answer)

    def resume_writing(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        super().resume_writing()

    def _give_up_answer(self) -> None:
        self.door.metrics.count_refused("slow reader")
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
        if self._unread > _LINGER_BYTES and self.transport is not None:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
        if self._is_begun:
            super().connection_lost(exc)
            self._unset_keepalive_if_required()
        self._leave()

    def shutdown(self) -> None:
        with contextlib.suppress(h11.LocalProtocolError):  # in the middle of a request: it will be closed in time
            super().shutdown()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _leave(self) -> None:
        address, self._address = self._address, None
        if address is not None:
            self.door.leave(address)


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


def protocol_at(door: Door) -> type[GuardedProtocol]:
    """uvicorn makes the protocols and gives them nothing of ours, so each listener has a class."""
    return type("ListenerProtocol", (GuardedProtocol,), {"door": door})


def _address_of(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    return str(name[0]) if isinstance(name, tuple) and name else ""
