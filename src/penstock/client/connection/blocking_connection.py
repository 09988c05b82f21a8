"""The connection for one thread: the executors of Spark, commands, scripts and tests. It imports no asyncio.

`send` and `receive` apart make pipelining possible: any number of requests may be outstanding.
Bench: `bench.connections`.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from typing import Any, Self

from penstock.client.connection.core import CLIENT_ID, CONNECT_TIMEOUT_S, REQUEST_TIMEOUT_S, ConnectionCore
from penstock.client.connection.frames import FRAME_LENGTH, MAX_FRAME_SIZE, ConnectionClosedError
from penstock.client.connection.steps import Result, SendStep, Steps
from penstock.client.security import PLAINTEXT, ClientSecurity
from penstock.core.sockets.host_names import failing_as_unknown
from penstock.protocol.message import Message

_MOST_AT_ONCE = 1 << 17  # larger ones are mapped anew each time: a third slower where megabytes are fetched


class BlockingConnection:
    """One broker, for one thread."""

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
        self._socket = opened = _connect(host, port, timeout_s, security.tls)
        self._core = ConnectionCore(client_id, max_frame_size, security.credentials, host)
        self._core.hang_up = lambda _: opened.close()  # by `self` it would be a circle, which costs 10 us to collect
        self._received: dict[int, Message] = {}
        if self._core.has_login:
            try:
                self._log_in(timeout_s)
            except BaseException:
                self.close()
                raise

    @property
    def is_open(self) -> bool:
        return self._core.is_open

    @property
    def peer_certificate(self) -> bytes | None:
        """What the broker has shown, as DER; None without TLS."""
        return self._socket.getpeercert(binary_form=True) if isinstance(self._socket, ssl.SSLSocket) else None

    def request(self, message: Message, version: int, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> Any:
        return self.receive(self.send(message, version), timeout_s=timeout_s)

    def send(self, message: Message, version: int, *, is_answered: bool = True) -> int:
        """The correlation id to `receive` the answer with."""
        if self._core.login_renewed_at is not None and self._core.is_login_due(time.monotonic()):
            self._log_in(REQUEST_TIMEOUT_S)
        return self._send(message, version, is_answered=is_answered)

    def receive(self, correlation_id: int, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> Any:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while correlation_id not in self._received:
            try:
                answered_id, response = self._core.take_answer(self._read_frame(deadline))
            except TimeoutError:
                raise self._core.time_out(self._core.name_of(correlation_id), timeout_s) from None
            self._received[answered_id] = response
        return self._received.pop(correlation_id)

    def send_bytes(self, data: bytes) -> None:
        """Bytes as they are, for requests that no codec would write."""
        self._core.check_open()
        self._write(data)

    def receive_frame(self, *, timeout_s: float | None = REQUEST_TIMEOUT_S) -> bytes:
        """The next frame without its length, undecoded: the counterpart of `send_bytes`."""
        try:
            return self._read_frame(None if timeout_s is None else time.monotonic() + timeout_s)
        except TimeoutError:
            raise self._core.time_out("what was sent", timeout_s) from None

    def close(self) -> None:
        self._core.end("the connection was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: Message, version: int, *, is_answered: bool = True) -> int:
        correlation_id, frame = self._core.encode_request(message, version, is_answered=is_answered)
        self._write(frame)
        return correlation_id

    def _write(self, data: bytes) -> None:
        try:
            self._socket.settimeout(REQUEST_TIMEOUT_S)  # the last read has left what was left of its own time
            self._socket.sendall(data)
        except TimeoutError:
            raise self._core.time_out("what was sent", REQUEST_TIMEOUT_S) from None
        except OSError as error:
            raise self._core.lose(error) from error

    def _log_in(self, timeout_s: float) -> None:
        """Answers that are on their way already come first, and are kept for those who wait for them."""

        def ask(message: Message, version: int) -> Any:
            return self.receive(self._send(message, version), timeout_s=timeout_s)

        self._core.note_login(take_steps(self._core.log_in(), ask), time.monotonic())

    def _read_frame(self, deadline: float | None) -> bytes:
        self._core.check_open()
        try:
            size = self._core.frame_size(self._read_exactly(FRAME_LENGTH.size, deadline))
            return self._read_exactly(size, deadline)
        except (TimeoutError, ConnectionClosedError):
            raise
        except OSError as error:
            raise self._core.lose(error) from error

    def _read_exactly(self, size: int, deadline: float | None) -> bytes:
        """Room is taken as the bytes come, so that a size alone costs nothing."""
        chunks: list[bytes] = []
        while size > 0:
            remaining_s = None if deadline is None else deadline - time.monotonic()
            if remaining_s is not None and remaining_s <= 0:
                raise TimeoutError
            self._socket.settimeout(remaining_s)
            chunk = self._socket.recv(min(size, _MOST_AT_ONCE))
            if not chunk:
                raise self._core.lose()
            chunks.append(chunk)
            size -= len(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def take_steps(steps: Steps[Result], ask: Callable[[Message, int], Any]) -> Result:
    """The result of the steps; `ask` sends a message at a version, and returns the response. The steps are told what
    fails.
    """
    try:
        step = next(steps)
        while True:
            try:
                answer = ask(*step) if isinstance(step, SendStep) else step()
            except BaseException as error:  # noqa: BLE001  # the steps raise it again, or what they make of it
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: Result = end.value
        return result


def _connect(host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None) -> socket.socket:
    with failing_as_unknown():
        plain = socket.create_connection((host, port), timeout_s)
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
