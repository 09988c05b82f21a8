"""Requests to bytes and bytes to responses, for one connection. No I/O.

A broker answers the requests of a connection in order, yet every answer is matched by its correlation id: an answer
that does not fit is a broken broker, and reading on would hand one caller another caller's data.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.framing import decode_response_header, encode_request_header
from penstock.protocol.message import Message

FRAME_LENGTH = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">h")
_API_VERSIONS = 18
_MAX_CORRELATION_ID = 2**31 - 1
# How answers begin of those who do not speak Kafka's protocol. Read as sizes, both are beyond what is allowed.
_HTTP = b"HTTP"
_TLS_ALERT = b"\x15\x03"

# Twice a broker's default for requests (socket.request.max.bytes): a fetch may exceed its max.bytes by a batch.
MAX_FRAME_SIZE = 200 * 1024 * 1024


class ConnectionClosedError(ConnectionError):
    """The connection ended, or broke the protocol; none of its outstanding requests will be answered."""


class Expected(NamedTuple):
    response: type[Message]
    version: int


class Exchange:
    """Correlation ids, and what kind of answer is expected for each that is outstanding."""

    def __init__(self, client_id: str | None, max_frame_size: int = MAX_FRAME_SIZE) -> None:
        self._client_id = client_id
        self._max_frame_size = max_frame_size
        self._next_correlation_id = 0
        self._expected: dict[int, Expected] = {}

    @property
    def outstanding(self) -> int:
        return len(self._expected)

    def name_of(self, correlation_id: int) -> str:
        expected = self._expected.get(correlation_id)
        return "a request" if expected is None else expected.response.__name__.replace("Response", "Request")

    def encode_request(self, message: Message, version: int, is_answered: bool = True) -> tuple[int, bytes]:
        """(correlation id, whole frame). Without an answer (produce with acks=0) nothing is remembered. ApiError
        INVALID_REQUEST for what no broker could be asked: a name that is too long, half a character."""
        correlation_id = self._next_correlation_id
        flexible = version >= message.FLEXIBLE_FROM
        head = encode_request_header(message.API_KEY, version, correlation_id, self._client_id, flexible)
        try:
            payload = head + encode(message, version)
        except (struct.error, UnicodeEncodeError) as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"the request cannot be written: {error}") from error
        self._next_correlation_id = 0 if correlation_id == _MAX_CORRELATION_ID else correlation_id + 1
        if is_answered:
            self._expected[correlation_id] = Expected(message.RESPONSE, version)
        return correlation_id, FRAME_LENGTH.pack(len(payload)) + payload

    def check_frame_size(self, prefix: bytes) -> int:
        """The size that the four bytes announce, before anything is allocated for it."""
        size: int = FRAME_LENGTH.unpack(prefix)[0]
        if not FRAME_LENGTH.size <= size <= self._max_frame_size:
            if prefix == _HTTP:
                raise ConnectionClosedError("the port speaks HTTP, not Kafka's protocol")
            if prefix[:2] == _TLS_ALERT:
                raise ConnectionClosedError("the port asks for TLS")
            raise ConnectionClosedError(
                f"the answer announces {size} bytes; at most {self._max_frame_size} are allowed"
            )
        return size

    def decode_response(self, frame: bytes) -> tuple[int, Message]:
        """(correlation id, response) of a frame without its length."""
        correlation_id, _ = decode_response_header(frame, flexible=False)
        expected = self._expected.pop(correlation_id, None)
        if expected is None:
            raise ConnectionClosedError(f"an answer to request {correlation_id}, which nobody sent")
        response, version = expected
        # The header of an ApiVersions answer is never flexible: the client does not know the broker's versions yet.
        flexible = version >= response.FLEXIBLE_FROM and response.API_KEY != _API_VERSIONS
        try:
            _, position = decode_response_header(frame, flexible)
            if response.API_KEY == _API_VERSIONS and _is_unsupported_version(frame, position):
                version = 0
            return correlation_id, decode(response, frame, version, position)
        except (ApiError, ValueError, IndexError) as error:
            raise ConnectionClosedError(f"the answer cannot be decoded: {error}") from error


def _is_unsupported_version(frame: bytes, position: int) -> bool:
    """A broker that does not know the version of ApiVersions asked for answers in version 0 (KIP-511)."""
    if len(frame) < position + _ERROR_CODE.size:
        return False
    return bool(_ERROR_CODE.unpack_from(frame, position)[0] == ErrorCode.UNSUPPORTED_VERSION)
