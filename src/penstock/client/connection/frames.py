"""Frames on a connection: their size, and the answers of those who do not speak Kafka's protocol. No I/O."""

from __future__ import annotations

import struct

from penstock.protocol.errors import ErrorCode

FRAME_LENGTH = struct.Struct(">i")
_ERROR_CODE = struct.Struct(">h")
# How answers begin of those who do not speak Kafka's protocol. Read as sizes, both are beyond what is allowed.
_HTTP = b"HTTP"
_TLS_ALERT = b"\x15\x03"

# Twice a broker's default for requests (socket.request.max.bytes): a fetch may exceed its max.bytes by a batch.
MAX_FRAME_SIZE = 200 * 1024 * 1024


class ConnectionClosedError(ConnectionError):
    """The connection ended, or broke the protocol; none of its outstanding requests will be answered."""


def describe_size(prefix: bytes, most: int) -> str:
    """Why the four bytes are no size of a frame."""
    if prefix == _HTTP:
        return "the port speaks HTTP, not Kafka's protocol"
    if prefix[:2] == _TLS_ALERT:
        return "the port asks for TLS"
    return f"the answer announces {FRAME_LENGTH.unpack(prefix)[0]} bytes; at most {most} are allowed"


def is_unsupported_version(frame: bytes, position: int) -> bool:
    """A broker that does not know the version of ApiVersions asked for answers in version 0 (KIP-511)."""
    if len(frame) < position + _ERROR_CODE.size:
        return False
    return bool(_ERROR_CODE.unpack_from(frame, position)[0] == ErrorCode.UNSUPPORTED_VERSION)
