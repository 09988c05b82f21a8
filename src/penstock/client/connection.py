"""One connection to a broker: a request and its response. No retries, no metadata, no pooling; callers decide those.

`Connection` is for asyncio, `BlockingConnection` for scripts and tests. Both pipeline: any number of requests may be
outstanding. A timeout or a broken answer ends the connection, because answers come in order: what follows a lost answer
cannot be trusted to come at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Self

from penstock.client.exchange import FRAME_LENGTH, MAX_FRAME_SIZE, ConnectionClosedError, Exchange
from penstock.client.login import VERSIONS, LoginRefusedError, log_in
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.protocol.message import Message
from penstock.security.sasl.exchange import Credentials

__all__ = ["BlockingConnection", "Connection", "ConnectionClosedError", "LoginRefusedError"]

CLIENT_ID = "penstock"
CONNECT_TIMEOUT_S = 10.0
# Longer than the longest default wait inside a broker: a rebalance may take max.poll.interval.ms, others take far less.
REQUEST_TIMEOUT_S = 30.0
# What the kernel of this side says when the other one is not heard: a machine that is there resets or closes.
# A broker that hangs does not say goodbye over TLS; the library would wait for 30 s.
_TLS_FAREWELL_S = 1.0
_SILENCE = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH})
_MOST_AT_ONCE = 1 << 17  # larger ones are mapped anew each time: a third slower where megabytes are fetched


class Connection:
    """Use `await Connection.open(host, port)`; close with `await connection.close()` or `async with`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: Exchange) -> None:
        self._reader = reader
        self._writer = writer
        self._exchange = exchange
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._failure: ConnectionClosedError | None = None
        self._lost: Callable[[], None] | None = None
        self.fell_silent = False  # whether it was lost without a word of the other side: a cut network
        self._login: _Login | None = None
        self._gathered: list[bytes] = []  # frames that leave at the end of this turn of the loop
        self.answers = 0  # that have come
        self.peer_certificate: bytes | None = None  # what the broker has shown, as DER; None without TLS
        self._reading = asyncio.create_task(self._read(), name="client connection")

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str | None = CLIENT_ID,
        timeout_s: float = CONNECT_TIMEOUT_S,
        max_frame_size: int = MAX_FRAME_SIZE,
        security: ClientSecurity = PLAINTEXT,
        set_options: Callable[[socket.socket], None] | None = None,
    ) -> Self:
        """`set_options` is called with the socket once the connection is there. With credentials the client logs in,
        and again before each login ends; LoginRefusedError where the broker does not let it in.
        """
        async with asyncio.timeout(timeout_s):
            # Otherwise uvloop leaves the failure of a name behind that nobody fetches, where the caller is cancelled.
            with failing_as_unknown():
                await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            farewell_s = None if security.tls is None else _TLS_FAREWELL_S
            reader, writer = await asyncio.open_connection(
                host, port, ssl=security.tls, ssl_shutdown_timeout=farewell_s
            )
        if set_options is not None:
            set_options(writer.get_extra_info("socket"))
        connection = cls(reader, writer, Exchange(client_id, max_frame_size))
        if security.tls is not None:
            connection.peer_certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if security.credentials is not None:
            connection._login = _Login(security.credentials, host)
            try:
                await connection._log_in(connection._login, timeout_s)
            except BaseException:
                await connection.close()
                raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def is_idle(self) -> bool:
        """Whether no answer is awaited."""
        return not self._waiting

    @property
    def login_renewed_at(self) -> float | None:
        """When the next login is due, by the loop's clock; None without a login, and for one that does not end."""
        return None if self._login is None else self._login.renew_at

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once, when the other side ends the connection or the network does. A connection that its
        owner closes, and one whose request timed out, is not lost in this sense. At most one listener."""
        self._lost = listener

    async def request(self, message: Message, version: int, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> Any:
        """The response, an object of `message.RESPONSE`. TimeoutError or ConnectionClosedError if none comes."""
        if self._login is not None:
            await self._renew_login(self._login, timeout_s)
        return await self._request(message, version, timeout_s)

    async def _request(self, message: Message, version: int, timeout_s: float | None) -> Any:
        self._raise_if_closed()
        try:
            async with asyncio.timeout(timeout_s):
                return await (await self._begin(message, version))
        except TimeoutError:
            self._end(ConnectionClosedError("a request on this connection timed out"))
            raise TimeoutError(f"no answer to {type(message).__name__} within {timeout_s} s") from None

    async def begin(self, message: Message, version: int) -> asyncio.Future[Any]:
        """Sends a request, in the order of the calls, and returns its answer to be. There is no time limit: whoever
        does not want to wait any longer leaves the answer alone, or calls `end`."""
        await self.renew_login()
        return await self._begin(message, version)

    async def renew_login(self) -> None:
        """Waits for a login that is due or under way."""
        if self._login is not None:
            await self._renew_login(self._login, REQUEST_TIMEOUT_S)

    def begin_now(self, message: Message, version: int) -> asyncio.Future[Any] | None:
        """The same without waiting for the socket: the caller bounds what it sends. None where a login comes first.

        What is sent in one turn of the loop leaves in one piece: half the processor time of small produce requests was
        the system's for sending them one by one."""
        login, loop = self._login, asyncio.get_running_loop()
        if login is not None and (login.turn.locked() or login.is_due(loop.time())):
            return None
        self._raise_if_closed()
        correlation_id, frame = self._exchange.encode_request(message, version)
        answer: asyncio.Future[Message] = loop.create_future()
        self._waiting[correlation_id] = answer
        if not self._gathered:
            loop.call_soon(self._flush)
        self._gathered.append(frame)
        return answer

    def _flush(self) -> None:
        if self._gathered:
            frames, self._gathered = self._gathered, []
            if self._failure is None:
                self._writer.write(frames[0] if len(frames) == 1 else b"".join(frames))

    async def _begin(self, message: Message, version: int) -> asyncio.Future[Any]:
        self._raise_if_closed()
        correlation_id, frame = self._exchange.encode_request(message, version)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        await self._write(frame)
        return answer

    async def send(self, message: Message, version: int) -> None:
        """A request that is not answered: produce with acks=0."""
        await self.renew_login()
        self._raise_if_closed()
        await self._write(self._exchange.encode_request(message, version, is_answered=False)[1])

    def end(self, reason: str) -> None:
        """For a broker that does not answer any more. `close` is still to be called."""
        self._end(ConnectionClosedError(reason))

    async def close(self) -> None:
        self._end(ConnectionClosedError("the connection was closed"))
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    # ------------------------------------------------------------------------------------ logins

    async def _renew_login(self, login: _Login, timeout_s: float | None) -> None:
        """One login at a time; whoever sends something meanwhile waits for it."""
        async with login.turn:
            if login.is_due(asyncio.get_running_loop().time()):
                await self._log_in(login, timeout_s)

    async def _log_in(self, login: _Login, timeout_s: float | None) -> None:
        steps = log_in(login.credentials, login.host)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
                if isinstance(step, Message):
                    answer = await self._request(step, VERSIONS[type(step)], timeout_s)
                else:
                    answer = await asyncio.to_thread(step)
            except StopIteration as end:
                lifetime_s: float = end.value
                login.renew_at = asyncio.get_running_loop().time() + lifetime_s if lifetime_s else None
                return
            except LoginRefusedError as error:
                self._end(error)
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _write(self, frame: bytes) -> None:
        self._flush()  # what came before goes before
        self._writer.write(frame)
        try:
            await self._writer.drain()
        except OSError as error:
            raise self._lose(error) from error

    async def _read(self) -> None:
        try:
            while True:
                size = self._exchange.check_frame_size(await self._reader.readexactly(FRAME_LENGTH.size))
                correlation_id, response = self._exchange.decode_response(await self._reader.readexactly(size))
                answer = self._waiting.pop(correlation_id)
                self.answers += 1
                if not answer.done():  # the caller may have been cancelled
                    answer.set_result(response)
        except ConnectionClosedError as failure:
            self._end(failure)
        except asyncio.IncompleteReadError:
            self._end(ConnectionClosedError("the broker closed the connection"), is_lost=True)
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> ConnectionClosedError:
        failure = ConnectionClosedError(f"the connection was lost: {error}")
        self.fell_silent = error.errno in _SILENCE
        self._end(failure, is_lost=True)
        return failure

    def _end(self, failure: ConnectionClosedError, *, is_lost: bool = False) -> None:
        if self._failure is None:
            self._failure = failure
            self._writer.close()
            if is_lost and self._lost is not None:
                self._lost()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(failure)
                answer.exception()  # a caller that was cancelled meanwhile will not fetch it; that is no leak

    def _raise_if_closed(self) -> None:
        if self._failure is not None:
            raise ConnectionClosedError(str(self._failure))


class _Login:
    """How a connection logs in, and when it has to do so again."""

    __slots__ = ("credentials", "host", "renew_at", "turn")

    def __init__(self, credentials: Credentials, host: str) -> None:
        self.credentials = credentials
        self.host = host
        self.renew_at: float | None = None
        self.turn = asyncio.Lock()

    def is_due(self, now: float) -> bool:
        return self.renew_at is not None and now >= self.renew_at


class BlockingConnection:
    """The same without asyncio, for one thread. `send` and `receive` apart make pipelining possible."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str | None = CLIENT_ID,
        timeout_s: float = CONNECT_TIMEOUT_S,
        max_frame_size: int = MAX_FRAME_SIZE,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        """With credentials the client logs in, and again before each login ends. Raises LoginRefusedError where the
        broker does not let it in.
        """
        with failing_as_unknown():
            plain = socket.create_connection((host, port), timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = plain if security.tls is None else _encrypt(plain, security.tls, host)
        self._exchange = Exchange(client_id, max_frame_size)
        self._received: dict[int, Message] = {}
        self._is_open = True
        self._credentials = security.credentials
        self._host = host
        self._renew_at: float | None = None
        if security.credentials is not None:
            try:
                self._log_in(security.credentials, timeout_s)
            except BaseException:
                self.close()
                raise

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def peer_certificate(self) -> bytes | None:
        """What the broker has shown, as DER; None without TLS."""
        return self._socket.getpeercert(binary_form=True) if isinstance(self._socket, ssl.SSLSocket) else None

    def request(self, message: Message, version: int, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> Any:
        return self.receive(self.send(message, version), timeout_s=timeout_s)

    def send(self, message: Message, version: int, *, is_answered: bool = True) -> int:
        """The correlation id to `receive` the answer with."""
        if self._renew_at is not None and time.monotonic() >= self._renew_at and self._credentials is not None:
            self._log_in(self._credentials, REQUEST_TIMEOUT_S)
        return self._send(message, version, is_answered=is_answered)

    def _send(self, message: Message, version: int, *, is_answered: bool = True) -> int:
        correlation_id, frame = self._exchange.encode_request(message, version, is_answered=is_answered)
        self.send_bytes(frame)
        return correlation_id

    def receive(self, correlation_id: int, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> Any:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while correlation_id not in self._received:
            try:
                answered_id, response = self._exchange.decode_response(self._read_frame(deadline))
            except ConnectionClosedError:
                self.close()
                raise
            self._received[answered_id] = response
        return self._received.pop(correlation_id)

    def _log_in(self, credentials: Credentials, timeout_s: float) -> None:
        """Answers that are on their way already come first, and are kept for those who wait for them."""
        steps = log_in(credentials, self._host)
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
                if isinstance(step, Message):
                    answer = self.receive(self._send(step, VERSIONS[type(step)]), timeout_s=timeout_s)
                else:
                    answer = step()
            except StopIteration as end:
                lifetime_s: float = end.value
                self._renew_at = time.monotonic() + lifetime_s if lifetime_s else None
                return
            except LoginRefusedError:
                self.close()
                raise

    def send_bytes(self, data: bytes) -> None:
        """Bytes as they are, for requests that no codec would write."""
        self._raise_if_closed()
        try:
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise ConnectionClosedError(f"the connection was lost: {error}") from error

    def receive_frame(self, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> bytes:
        """The next frame without its length, undecoded: the counterpart of `send_bytes`."""
        return self._read_frame(None if timeout_s is None else time.monotonic() + timeout_s)

    def close(self) -> None:
        self._is_open = False
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_frame(self, deadline: float | None) -> bytes:
        self._raise_if_closed()
        size = self._exchange.check_frame_size(self._read_exactly(FRAME_LENGTH.size, deadline))
        return self._read_exactly(size, deadline)

    def _read_exactly(self, size: int, deadline: float | None) -> bytes:
        """Room is taken as the bytes come, so that a size alone costs nothing."""
        chunks: list[bytes] = []
        while size > 0:
            remaining_s = None if deadline is None else deadline - time.monotonic()
            try:
                if remaining_s is not None and remaining_s <= 0:
                    raise TimeoutError
                self._socket.settimeout(remaining_s)
                chunk = self._socket.recv(min(size, _MOST_AT_ONCE))
            except TimeoutError:
                self.close()
                raise TimeoutError("the broker did not answer in time") from None
            except OSError as error:
                self.close()
                raise ConnectionClosedError(f"the connection was lost: {error}") from error
            if not chunk:
                self.close()
                raise ConnectionClosedError("the broker closed the connection")
            chunks.append(chunk)
            size -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _raise_if_closed(self) -> None:
        if not self._is_open:
            raise ConnectionClosedError("the connection was closed")


def _encrypt(plain: socket.socket, tls: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    try:
        return tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
