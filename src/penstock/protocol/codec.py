"""Encodes and decodes every Kafka message, from the field tables of the generated classes.

For each (class, version) one flat Python function is compiled at first use: runs of fixed-width fields become one
precompiled `struct`, nested structs and arrays become inline loops. The decoder trusts nothing: every length is
checked against what is left of the frame, and the number of array elements is limited, so a hostile frame costs no
more memory than a small multiple of its size.

`records` are never copied: decoding gives a memoryview of the frame, encoding passes the chunk through by reference.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

from penstock.protocol.codec_source import DecoderSource, EncoderSource
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Buffer, Chunk, Message

M = TypeVar("M", bound=Message)

# A request that names more things than this is refused: a handler takes about 10 us for each of them, so the broker is
# at work on it for a second. A fetch or a metadata request for everything that one broker holds stays far below.
MAX_REQUEST_ELEMENTS = 100_000
# Answers and stored records come from brokers. Metadata of the largest clusters stays below this. Each element may cost
# some 100 bytes of Python objects, so the worst frame costs about 200 MB.
MAX_ELEMENTS = 2_000_000

# Of each array in a message that is encoded in one piece. With arrays in arrays, 64 elements make some 0.1 ms.
_FEW_ELEMENTS = 4

_Key = tuple[type[Message], int]
_Encoder = Callable[[Message, bytearray, list[Chunk]], bytearray]
_SlicedEncoder = Callable[[Message, bytearray, list[Chunk]], Generator[None, None, bytearray]]
_Decoder = Callable[[Buffer, int, int], tuple[Message, int]]
_SlicedDecoder = Callable[[Buffer, int, int], Generator[None, None, tuple[Message, int]]]

# Bounded by the versions that Kafka has defined.
_encoders: dict[_Key, _Encoder] = {}
_sliced_encoders: dict[_Key, _SlicedEncoder] = {}
_decoders: dict[_Key, _Decoder] = {}
_sliced_decoders: dict[_Key, _SlicedDecoder] = {}
# The attributes of a message class that hold arrays or other messages.
_array_attributes: dict[type[Message], tuple[str, ...]] = {}


def encode(message: Message, version: int) -> bytes:
    """The body of `message`. `records` fields must be in memory."""
    return b"".join(encode_chunks(message, version))  # type: ignore[arg-type]


def encode_chunks(message: Message, version: int, head: bytes = b"") -> list[Chunk]:
    """`head` and the body of `message`, as chunks in wire order."""
    key = (type(message), version)
    encoder = _encoders.get(key)
    if encoder is None:
        encoder = _encoders[key] = cast("_Encoder", _compile_encoder(key, sliced=False))
    chunks: list[Chunk] = []
    chunks.append(encoder(message, bytearray(head), chunks))
    return chunks


def encode_in_slices(message: Message, version: int, head: bytes = b"") -> Generator[None, None, list[Chunk]]:
    """`encode_chunks` for a message that may be large: yields now and then."""
    key = (type(message), version)
    encoder = _sliced_encoders.get(key)
    if encoder is None:
        encoder = _sliced_encoders[key] = cast("_SlicedEncoder", _compile_encoder(key, sliced=True))
    chunks: list[Chunk] = []
    chunks.append((yield from encoder(message, bytearray(head), chunks)))
    return chunks


def is_small(message: Message) -> bool:
    """Whether no array in `message` has more than a few elements, so that nobody has to wait while it is encoded."""
    attributes = _array_attributes.get(type(message))
    if attributes is None:
        attributes = _array_attributes[type(message)] = tuple(
            field.attribute for field in message.FIELDS if not isinstance(field.kind, str)
        )
    for attribute in attributes:
        value = getattr(message, attribute)
        if not value:
            continue
        elements = value if isinstance(value, list) else (value,)
        if len(elements) > _FEW_ELEMENTS:
            return False
        for element in elements:
            if isinstance(element, Message) and not is_small(element):
                return False
    return True


def decode(message_class: type[M], data: Buffer, version: int, position: int = 0) -> M:
    """The message that fills `data` from `position` to its end; ApiError(INVALID_REQUEST) if it does not."""
    message, end = decode_prefix(message_class, data, version, position)
    if end != len(data):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{message_class.__name__} v{version} has {len(data) - end} bytes too many"
        )
    return message


def decode_prefix(message_class: type[M], data: Buffer, version: int, position: int = 0) -> tuple[M, int]:
    """The message at `position`, and where it ends."""
    key = (message_class, version)
    decoder = _decoders.get(key)
    if decoder is None:
        decoder = _decoders[key] = cast("_Decoder", _compile_decoder(key, sliced=False))
    try:
        return decoder(data, position, len(data))  # type: ignore[return-value]
    except _DECODE_ERRORS as error:
        raise _malformed(message_class, version, error) from error


def decode_in_slices(message_class: type[M], data: Buffer, version: int, position: int) -> Generator[None, None, M]:
    """The message at `position` of a frame that may be large: yields now and then."""
    key = (message_class, version)
    decoder = _sliced_decoders.get(key)
    if decoder is None:
        decoder = _sliced_decoders[key] = cast("_SlicedDecoder", _compile_decoder(key, sliced=True))
    try:
        message, _ = yield from decoder(data, position, len(data))
    except _DECODE_ERRORS as error:
        raise _malformed(message_class, version, error) from error
    return message  # type: ignore[return-value]


_DECODE_ERRORS = (struct.error, IndexError, UnicodeDecodeError, ValueError)


def _malformed(message_class: type[Message], version: int, error: Exception) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"{message_class.__name__} v{version} is malformed: {error}")


def _compile_encoder(key: _Key, *, sliced: bool) -> Any:
    message_class, version = key
    _check_version(message_class, version)
    is_request = hasattr(message_class, "RESPONSE")
    source = EncoderSource(version, version >= message_class.FLEXIBLE_FROM, sliced, is_request)
    source.struct(message_class, "m")
    source.add("return out")
    return source.compile(f"encode {message_class.__name__} v{version}")


def _compile_decoder(key: _Key, *, sliced: bool) -> Any:
    message_class, version = key
    _check_version(message_class, version)
    is_request = hasattr(message_class, "RESPONSE")
    max_elements = MAX_REQUEST_ELEMENTS if is_request else MAX_ELEMENTS
    source = DecoderSource(version, version >= message_class.FLEXIBLE_FROM, max_elements, sliced)
    source.struct(message_class, "m")
    source.add("return m, pos")
    return source.compile(f"decode {message_class.__name__} v{version}")


def _check_version(message_class: type[Message], version: int) -> None:
    if not message_class.MIN_VERSION <= version <= message_class.MAX_VERSION:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"{message_class.__name__} has no version {version}")
