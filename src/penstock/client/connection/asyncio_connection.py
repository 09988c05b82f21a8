"""The connection for asyncio. Any number of requests may be outstanding."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Self

from penstock.client.connection.core import CLIENT_ID, CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, ConnectionCore
from penstock.client.connection.frames import FRAME_LENGTH, MAX_FRAME_SIZE, ConnectionClosedError
from penstock.client.connection.steps import Result, SendStep, Steps
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.protocol.message import Message

# A broker that hangs does not say goodbye over TLS; the library would wait for 30 s.
_TLS_FAREWELL_S = 1.0


class Connection:
    """Use `await Connection.open(host, port)`; close with `await connection.close()` or `async with`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, core: ConnectionCore) -> None:
        self._reader = reader
        self._writer = writer
        self._core = core
        core.hang_up = self._hang_up
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._login_turn = asyncio.Lock()
        self._gathered: list[bytes] = []  # frames that leave at the end of this turn of the loop
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
        core = ConnectionCore(client_id, max_frame_size, security.credentials, host)
        connection = cls(reader, writer, core)
        if security.tls is not None:
            connection.peer_certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if core.has_login:
            try:
                await connection._log_in(timeout_s)
            except BaseException:
                await connection.close()
                raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._core.is_open

    @property
    def is_idle(self) -> bool:
        """Whether no answer is awaited."""
        return self._core.is_idle

    @property
    def answers(self) -> int:
        """How many have come."""
        return self._core.answers

    @property
    def fell_silent(self) -> bool:
        """Whether the connection was lost without a word of the other side: a cut network."""
        return self._core.fell_silent

    @property
    def login_renewed_at(self) -> float | None:
        """When the next login is due, by the loop's clock; None without a login, and for one that does not end."""
        return self._core.login_renewed_at

    def on_lost(self, listener: Callable[[], None]) -> None:
        """Calls `listener` once, when the other side ends the connection or the network does. A connection that its
        owner closes, and one whose request timed out, is not lost in this sense. At most one listener."""
        self._core.on_lost = listener

    # ------------------------------------------------------------------------------------ requests

    async def request(self, message: Message, version: int, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> Any:
        """The response, an object of `message.RESPONSE`. TimeoutError or ConnectionClosedError if none comes.
        A login that is due before it may take as long again.
        """
        if self._core.has_login:
            await self.renew_login(timeout_s)
        return await self._request(message, version, timeout_s)

    async def begin(self, message: Message, version: int) -> asyncio.Future[Any]:
        """Sends a request, in the order of the calls, and returns its answer to be. There is no time limit: whoever
        does not want to wait any longer leaves the answer alone, or calls `end`."""
        await self.renew_login()
        return await self._begin(message, version)

    def begin_now(self, message: Message, version: int) -> asyncio.Future[Any] | None:
        """The same without waiting for the socket: the caller bounds what it sends. None where a login comes first.

        What is sent in one turn of the loop leaves in one piece: half the processor time of small produce requests was
        the system's for sending them one by one."""
        loop = asyncio.get_running_loop()
        if self._core.has_login and (self._login_turn.locked() or self._core.is_login_due(loop.time())):
            return None
        answer, frame = self._encode(message, version)
        if not self._gathered:
            loop.call_soon(self._flush)
        self._gathered.append(frame)
        return answer

    async def send(self, message: Message, version: int) -> None:
        """A request that is not answered: produce with acks=0."""
        await self.renew_login()
        await self._write(self._core.encode_request(message, version, is_answered=False)[1])

    async def renew_login(self, timeout_s: float | None = REQUEST_TIMEOUT_S) -> None:
        """Waits for a login that is due or under way. One at a time; whoever sends something meanwhile waits for it.
        TimeoutError where the login takes longer: each caller has a time of its own, whoever began the login.
        """
        loop = asyncio.get_running_loop()
        if not self._login_turn.locked() and not self._core.is_login_due(loop.time()):
            return
        try:
            async with asyncio.timeout(timeout_s) as limit, self._login_turn:
                if self._core.is_login_due(loop.time()):
                    await self._log_in(None)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(f"no login within {timeout_s} s") from None

    def end(self, reason: str) -> None:
        """For a broker that does not answer any more. `close` is still to be called."""
        self._core.end(reason)

    async def close(self) -> None:
        self._core.end("the connection was closed")
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------ the socket

    async def _request(self, message: Message, version: int, timeout_s: float | None) -> Any:
        try:
            async with asyncio.timeout(timeout_s):
                return await (await self._begin(message, version))
        except TimeoutError:
            raise self._core.time_out(type(message).__name__, timeout_s) from None

    async def _begin(self, message: Message, version: int) -> asyncio.Future[Any]:
        answer, frame = self._encode(message, version)
        await self._write(frame)
        return answer

    def _encode(self, message: Message, version: int) -> tuple[asyncio.Future[Message], bytes]:
        correlation_id, frame = self._core.encode_request(message, version)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answer
        return answer, frame

    async def _log_in(self, timeout_s: float | None) -> None:
        def ask(message: Message, version: int) -> Awaitable[Any]:
            return self._request(message, version, timeout_s)

        lifetime_s = await take_steps(self._core.log_in(), ask)
        self._core.note_login(lifetime_s, asyncio.get_running_loop().time())

    def _flush(self) -> None:
        if self._gathered:
            frames, self._gathered = self._gathered, []
            if self._core.is_open:
                self._writer.write(frames[0] if len(frames) == 1 else b"".join(frames))

    async def _write(self, frame: bytes) -> None:
        self._flush()  # what came before goes before
        self._writer.write(frame)
        try:
            await self._writer.drain()
        except OSError as error:
            raise self._core.lose(error) from error

    async def _read(self) -> None:
        core, reader = self._core, self._reader
        try:
            while True:
                size = core.frame_size(await reader.readexactly(FRAME_LENGTH.size))
                correlation_id, response = core.take_answer(await reader.readexactly(size))
                answer = self._waiting.pop(correlation_id)
                if not answer.done():  # the caller may have been cancelled
                    answer.set_result(response)
        except ConnectionClosedError:
            return  # the core has ended the connection
        except asyncio.IncompleteReadError:
            core.lose()
        except OSError as error:
            core.lose(error)

    def _hang_up(self, failure: ConnectionClosedError) -> None:
        self._writer.close()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(failure)
                answer.exception()  # a caller that was cancelled meanwhile will not fetch it; that is no leak


async def take_steps(steps: Steps[Result], ask: Callable[[Message, int], Awaitable[Any]]) -> Result:
    """The result of the steps; `ask` sends a message at a version, and returns the response. The steps are told what
    fails.
    """
    try:
        step = next(steps)
        while True:
            try:
                answer = await (ask(*step) if isinstance(step, SendStep) else asyncio.to_thread(step))
            except BaseException as error:  # noqa: BLE001  # the steps raise it again, or what they make of it
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result
