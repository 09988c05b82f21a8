"""Passes a request on to the leader over HTTP, and returns the leader's answer.

One connection for each request: writes are rare, and a connection that the leader has closed in the meantime would
leave it unknown whether the write was done. The caller's own credentials go along, so that the leader checks the
rights.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import h11

from penstock.core.sockets.host_names import failing_as_unknown
from penstock.registry.node.election import Identity

# Set on a forwarded request: the leader does not forward it again.
FORWARDED = b"x-forward"
# The position of the leader's log at its answer.
POSITION = b"x-penstock-position"

_PASSED_ON = (b"accept", b"authorization", b"content-type", b"confluent-identity-pool-id", b"user-agent")
# Headers of the leader's answer: how to log in, and when to try again.
_PASSED_BACK = (b"www-authenticate", b"retry-after")
_READ_BYTES = 64 * 1024
# Lists of subjects and versions may be long; a longer answer than this is no registry's.
_MOST_BYTES = 64 * 1024 * 1024


class ForwardingError(Exception):
    """The leader did not answer. `is_sent`: it may have got the request."""

    def __init__(self, text: str, *, is_sent: bool) -> None:
        super().__init__(text)
        self.is_sent = is_sent


class ForwardedAnswer(NamedTuple):
    status: int
    content_type: str | None
    position: int | None
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()  # which the caller gets, too


class Forwarder:
    def __init__(self, tls: ssl.SSLContext | None, timeout_s: float) -> None:
        """With `tls`, leaders are reached by https, and by nothing else."""
        self._tls = tls
        self._timeout_s = timeout_s

    async def forward(
        self, leader: Identity, method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> ForwardedAnswer:
        """Raises ForwardingError."""
        is_sent = False
        try:
            async with asyncio.timeout(self._timeout_s), self._connected(leader) as (reader, writer):
                connection = h11.Connection(h11.CLIENT)
                host = leader.url.partition("://")[2].encode()
                passed = [(name, value) for name, value in headers if name in _PASSED_ON]
                own = [(b"host", host), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
                request = h11.Request(method=method, target=target, headers=[*own, *passed, (FORWARDED, b"true")])
                is_sent = True
                for event in (request, h11.Data(data=body), h11.EndOfMessage()):
                    writer.write(connection.send(event) or b"")
                await writer.drain()
                return await _read_answer(connection, reader)
        except TimeoutError:
            raise ForwardingError(f"the leader {leader.url} did not answer in time", is_sent=is_sent) from None
        except (OSError, h11.ProtocolError) as error:
            raise ForwardingError(f"the leader {leader.url} did not answer: {error}", is_sent=is_sent) from error

    @contextlib.asynccontextmanager
    async def _connected(self, leader: Identity) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        tls = None
        if leader.scheme == "https":
            if self._tls is None:
                raise OSError("it speaks https, and this instance has no ssl.* settings to reach it by")
            tls = self._tls
        elif self._tls is not None:
            raise OSError("it speaks http, and passwords that came by https do not go on in plain text")
        with failing_as_unknown():
            reader, writer = await asyncio.open_connection(leader.host, leader.port, ssl=tls)
        try:
            yield reader, writer
        finally:
            writer.close()


async def _read_answer(connection: h11.Connection, reader: asyncio.StreamReader) -> ForwardedAnswer:
    response: h11.Response | None = None
    chunks: list[bytes] = []
    size = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            response = event
        elif isinstance(event, h11.Data):
            chunks.append(bytes(event.data))
            size += len(event.data)
            if size > _MOST_BYTES:
                raise OSError("its answer has no end")
        elif isinstance(event, h11.EndOfMessage) and response is not None:
            return _answer(response, b"".join(chunks))
        elif not isinstance(event, h11.InformationalResponse):
            raise OSError("it closed the connection")


def _answer(response: h11.Response, body: bytes) -> ForwardedAnswer:
    headers = dict(response.headers)
    content_type = headers.get(b"content-type")
    position = headers.get(POSITION, b"")
    return ForwardedAnswer(
        response.status_code,
        None if content_type is None else content_type.decode("latin-1"),
        int(position) if position.isdigit() else None,
        body,
        tuple((name.decode(), value.decode("latin-1")) for name, value in response.headers if name in _PASSED_BACK),
    )
