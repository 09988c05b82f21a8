"""The state of one connection to a broker: what may be sent, what an answer belongs to, and how the connection ends.

No I/O and no clock. Three drivers carry the bytes: `asyncio_connection`, `blocking_connection`, and the network of the
simulation. A driver asks for each frame here, hands in each frame that comes, and says what its socket reports.

Rules:
- A connection ends once. Every later request is refused with the reason of that end.
- A timeout or a broken answer ends the connection, because answers come in order: what follows a lost answer cannot be
  trusted to come at all. Every answer is matched by its correlation id even so: an answer that does not fit is a broken
  broker, and reading on would hand one caller another caller's data.
- A connection is lost where the other side ends it, or the network does. A connection that its owner closes, and one
  whose request timed out, is not lost.
- A client logs in again, on the same connection, before its login ends.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from typing import NamedTuple

from penstock.client.connection.frames import (
    FRAME_LENGTH,
    MAX_FRAME_SIZE,
    ConnectionClosedError,
    describe_size,
    is_unsupported_version,
)
from penstock.client.connection.login import LoginPutOffError, LoginRefusedError, log_in
from penstock.client.connection.steps import Steps
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message
from penstock.security.sasl.exchange import Credentials

CLIENT_ID = "penstock"
CONNECT_TIMEOUT_S = 10.0
# Longer than the longest default wait inside a broker: a rebalance may take max.poll.interval.ms, others take far less.
REQUEST_TIMEOUT_S = 30.0
# What the kernel of this side says when the other one is not heard: a machine that is there resets or closes.
_SILENCE = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH})
_API_VERSIONS = 18
_MAX_CORRELATION_ID = 2**31 - 1


class ExpectedAnswer(NamedTuple):
    response: type[Message]
    version: int


def _ignore() -> None:
    """Nobody listens."""


class ConnectionCore:
    """`hang_up` of its driver is called once, when the connection ends: it closes the socket, and fails the requests
    that wait.
    """

    def __init__(
        self,
        client_id: str | None = CLIENT_ID,
        max_frame_size: int = MAX_FRAME_SIZE,
        credentials: Credentials | None = None,
        host: str = "",
    ) -> None:
        """`host` is the name of the broker, which some mechanisms sign."""
        self.hang_up: Callable[[ConnectionClosedError], None] = lambda _: None
        self.on_lost: Callable[[], None] = _ignore
        self.fell_silent = False  # whether the other side was not heard any more: a cut network
        self.answers = 0  # that have come
        self.login_renewed_at: float | None = None  # None without a login, and for one that does not end
        self.has_login = credentials is not None
        self._client_id = client_id
        self._max_frame_size = max_frame_size
        self._next_correlation_id = 0
        self._expected: dict[int, ExpectedAnswer] = {}
        self._credentials = credentials
        self._host = host
        self._failure: ConnectionClosedError | None = None

    @property
    def is_open(self) -> bool:
        return self._failure is None

    @property
    def is_idle(self) -> bool:
        """Whether no answer is awaited."""
        return self._failure is not None or not self._expected

    # ------------------------------------------------------------------------------------ requests and answers

    def encode_request(self, message: Message, version: int, *, is_answered: bool = True) -> tuple[int, bytes]:
        """(correlation id, whole frame). Without an answer (produce with acks=0) nothing is remembered.

        ConnectionClosedError after the end. ApiError INVALID_REQUEST for what no broker could be asked: a name that is
        too long, half a character.
        """
        if self._failure is not None:
            self.check_open()
        correlation_id = self._next_correlation_id
        flexible = version >= message.FLEXIBLE_FROM
        head = encode_request_header(message.API_KEY, version, correlation_id, self._client_id, flexible)
        try:
            payload = head + encode(message, version)
        except (struct.error, UnicodeEncodeError) as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the request cannot be written: {error}") from error
        self._next_correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        if is_answered:
            self._expected[correlation_id] = ExpectedAnswer(message.RESPONSE, version)
        return correlation_id, FRAME_LENGTH.pack(len(payload)) + payload

    def check_open(self) -> None:
        if self._failure is not None:
            raise ConnectionClosedError(str(self._failure))

    def frame_size(self, prefix: bytes) -> int:
        """The size that the four bytes announce, before anything is allocated for it. ConnectionClosedError for one
        that cannot be."""
        size: int = FRAME_LENGTH.unpack(prefix)[0]
        if not FRAME_LENGTH.size <= size <= self._max_frame_size:
            raise self._broken(describe_size(prefix, self._max_frame_size))
        return size

    def take_answer(self, frame: bytes) -> tuple[int, Message]:
        """(correlation id, response) of a frame without its length. ConnectionClosedError for a broken one, and after
        the end: a late answer finds no request any more."""
        if self._failure is not None:
            self.check_open()
        correlation_id, _ = decode_response_header(frame, flexible=False)
        expected = self._expected.pop(correlation_id, None)
        if expected is None:
            raise self._broken(f"an answer to request {correlation_id}, which nobody sent")
        response, version = expected
        # The header of an ApiVersions answer is never flexible: the client does not know the broker's versions yet.
        flexible = version >= response.FLEXIBLE_FROM and response.API_KEY != _API_VERSIONS
        try:
            _, position = decode_response_header(frame, flexible)
            if response.API_KEY == _API_VERSIONS and is_unsupported_version(frame, position):
                version = 0
            answer = decode(response, frame, version, position)
        except (ApiError, ValueError, IndexError) as error:
            raise self._broken(f"the answer cannot be decoded: {error}") from error
        self.answers += 1
        return correlation_id, answer

    def _broken(self, reason: str) -> ConnectionClosedError:
        failure = ConnectionClosedError(reason)
        self.end(failure)
        return failure

    def name_of(self, correlation_id: int) -> str:
        """The name of a request that waits for its answer, for a message."""
        expected = self._expected.get(correlation_id)
        return "a request" if expected is None else expected.response.__name__.replace("Response", "Request")

    # ------------------------------------------------------------------------------------ logins

    def is_login_due(self, now: float) -> bool:
        """By the driver's steady clock, in seconds."""
        return self.login_renewed_at is not None and now >= self.login_renewed_at

    def log_in(self) -> Steps[float]:
        """How long the login lasts, for `note_login`. Raises LoginRefusedError and LoginPutOffError. A login that does
        not come to its end, for whatever reason, ends the connection: the broker waits for the rest of it.
        """
        assert self._credentials is not None, "a login needs credentials"
        try:
            return (yield from log_in(self._credentials, self._host))
        except (LoginRefusedError, LoginPutOffError) as failure:
            self.end(failure)
            raise
        except BaseException:
            self.end("the login did not come to its end")
            raise

    def note_login(self, lifetime_s: float, now: float) -> None:
        self.login_renewed_at = now + lifetime_s if lifetime_s else None

    # ------------------------------------------------------------------------------------ the end

    def time_out(self, asked: str, timeout_s: float | None) -> TimeoutError:
        """An answer did not come: the connection ends. The caller raises what this returns."""
        self.end("a request on this connection timed out")
        return TimeoutError(f"no answer to {asked} within {timeout_s} s")

    def lose(self, error: OSError | None = None) -> ConnectionClosedError:
        """What the socket reports; None where the other side has ended the connection in order."""
        reason = "the broker closed the connection" if error is None else f"the connection was lost: {error}"
        failure = ConnectionClosedError(reason)
        if self.is_open:
            self.fell_silent = error is not None and error.errno in _SILENCE
            self.end(failure)
            self.on_lost()
        return failure

    def end(self, reason: str | ConnectionClosedError) -> None:
        if self._failure is None:
            self._failure = ConnectionClosedError(reason) if isinstance(reason, str) else reason
            self.hang_up(self._failure)
