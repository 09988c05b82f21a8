"""How keys and values of `__consumer_offsets` are framed: an int16 that says what follows, then a message body."""

from __future__ import annotations

import struct
from typing import TypeVar

from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message

M = TypeVar("M", bound=Message)

_INT16 = struct.Struct(">h")
_BODY_POSITION = _INT16.size
_KEY_BODY_VERSION = 0


def encode_key(kind: int, body: Message) -> bytes:
    return _INT16.pack(kind) + encode(body, _KEY_BODY_VERSION)


def encode_value(body: Message, version: int) -> bytes:
    return _INT16.pack(version) + encode(body, version)


def leading_int16(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a group record of {len(data)} bytes has no version")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a group record has version {version}")
    return version


def decode_body(message_class: type[M], data: bytes, version: int = _KEY_BODY_VERSION) -> M:
    try:
        return decode(message_class, data, version, _BODY_POSITION)
    except ApiError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a group record cannot be read: {error.message}") from error
