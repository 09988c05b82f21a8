"""The frame of a payload, which names the schema that it was written with.

In front of it: a zero byte, then the id as four bytes. Or in a header, `__key_schema_id` or `__value_schema_id`: a byte
that is one, then the guid as 16 bytes, and nothing in front of the payload. A header may also hold the first form.
Readers look at the header first. Payloads of Protobuf also name their message in the file: by its position in the file,
and the positions in the messages that enclose it; these indexes follow the id or the guid.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from penstock.serdes.errors import FramingError

KEY_HEADER = "__key_schema_id"
VALUE_HEADER = "__value_schema_id"

_ID = struct.Struct(">bI")
_BY_ID = 0
_BY_GUID = 1
_GUID_SIZE = 16
# Messages in messages: no text nests deeper.
_MOST_INDEXES = 128
_VARINT_BITS = 35

Headers = Iterable[tuple[str, bytes | None]]


class Frame(NamedTuple):
    """Either an id or a guid. `before` has the message indexes, where they are not in front of the payload."""

    schema_id: int | None
    guid: str | None
    payload: bytes
    before: bytes | None = None


def header_name(*, is_key: bool) -> str:
    return KEY_HEADER if is_key else VALUE_HEADER


def prefix(schema_id: int) -> bytes:
    return _ID.pack(_BY_ID, schema_id)


def header_value(guid: str) -> bytes:
    return bytes((_BY_GUID,)) + UUID(guid).bytes


def read_frame(data: bytes, headers: Headers = (), *, is_key: bool = False) -> Frame:
    """Raises FramingError."""
    wanted = header_name(is_key=is_key)
    header = next((value for name, value in headers if name == wanted), None)
    if header is None:
        if data[:1] != b"\x00" or len(data) < _ID.size:
            raise FramingError("the payload does not begin with a zero byte and the id of a schema")
        return Frame(_ID.unpack_from(data)[1], None, data[_ID.size :])
    if header[:1] == bytes((_BY_GUID,)) and len(header) > _GUID_SIZE:
        end = 1 + _GUID_SIZE
        return Frame(None, str(UUID(bytes=header[1:end])), data, header[end:])
    if header[:1] == bytes((_BY_ID,)) and len(header) >= _ID.size:
        return Frame(_ID.unpack_from(header)[1], None, data, header[_ID.size :])
    raise FramingError(f"the header {wanted} has neither the guid nor the id of a schema")


def write_indexes(indexes: Sequence[int]) -> bytes:
    """The first message of a file, which nearly all payloads hold, is one byte."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, (len(indexes), *indexes)))


def read_indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes, and where they end. Raises FramingError."""
    count, position = _read_varint(data, 0)
    if count == 0:
        return (0,), position
    if not 0 < count <= _MOST_INDEXES:
        raise FramingError("the payload has no message indexes")
    indexes = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        indexes.append(index)
    return tuple(indexes), position


def _varint(number: int) -> bytes:
    number <<= 1  # zigzag of a number that is never negative
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while shift < _VARINT_BITS and position < len(data):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7
    raise FramingError("the payload ends in its message indexes")
