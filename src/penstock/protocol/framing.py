"""Request and response headers: the bytes between a frame's length and a message's body."""

from __future__ import annotations

import struct
from typing import NamedTuple

from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer
from penstock.protocol.varints import read_unsigned_varint

_FIXED_PART = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CORRELATION_ID = struct.Struct(">i")
MIN_REQUEST_SIZE = _FIXED_PART.size
# Kafka defines none or one; what newer clients may add will be a few.
_MAX_TAGS = 100


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int


def decode_request_header(data: Buffer) -> RequestHeader:
    """The part every request has; what follows depends on whether the version is flexible."""
    if len(data) < MIN_REQUEST_SIZE:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"a request of {len(data)} bytes is too short for its header")
    return tuple.__new__(RequestHeader, _FIXED_PART.unpack_from(data))


def decode_client_id(data: Buffer, flexible: bool) -> tuple[str | None, int]:
    """(client id, where the body begins). The client id is never compact, not even in header version 2."""
    position = MIN_REQUEST_SIZE
    try:
        (size,) = _LENGTH.unpack_from(data, position)
        position += 2
        client_id = None
        if size >= 0:
            if position + size > len(data):
                raise ValueError("the client id runs past the end")
            client_id = str(data[position : position + size], "utf-8")
            position += size
        if flexible:
            position = position + 1 if data[position] == 0 else _skip_tags(data, position)
    except (struct.error, IndexError, ValueError) as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"the request header is malformed: {error}") from error
    return client_id, position


def _skip_tags(data: Buffer, position: int) -> int:
    count, position = read_unsigned_varint(data, position)
    if count > _MAX_TAGS:
        raise ValueError(f"{count} tagged fields in a header")
    for _ in range(count):
        _, position = read_unsigned_varint(data, position)
        size, position = read_unsigned_varint(data, position)
        position += size
        if position > len(data):
            raise ValueError("a tagged field runs past the end")
    return position


def encode_request_header(
    api_key: int, version: int, correlation_id: int, client_id: str | None, flexible: bool
) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    size = _LENGTH.pack(-1 if client_id is None else len(name))
    return _FIXED_PART.pack(api_key, version, correlation_id) + size + name + (b"\0" if flexible else b"")


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    return _CORRELATION_ID.pack(correlation_id) + (b"\0" if flexible else b"")


def decode_response_header(data: Buffer, flexible: bool) -> tuple[int, int]:
    """(correlation id, where the body begins)"""
    (correlation_id,) = _CORRELATION_ID.unpack_from(data)
    return correlation_id, _skip_tags(data, 4) if flexible else 4
