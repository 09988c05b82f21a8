"""The framing of keys and values of a coordinator's records: an int16 names the type or version, then a message body
follows.

Records of newer software are skipped, so that a broker can go back to an older version.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Generator
from typing import NamedTuple, TypeVar

from penstock.protocol.codec import decode, encode, encode_in_slices
from penstock.protocol.errors import ApiError, ErrorCode
from penstock.protocol.message import Message

M = TypeVar("M", bound=Message)

logger = logging.getLogger(__name__)

_INT16 = struct.Struct(">h")
_BODY_POSITION = _INT16.size
_KEY_BODY_VERSION = 0


def encode_key(kind: int, body: Message) -> bytes:
    return _INT16.pack(kind) + encode(body, _KEY_BODY_VERSION)


def encode_value(body: Message, version: int) -> bytes:
    return _INT16.pack(version) + encode(body, version)


def encode_value_in_steps(body: Message, version: int) -> Generator[None, None, bytes]:
    chunks = yield from encode_in_slices(body, version, _INT16.pack(version))
    return b"".join(chunks)  # type: ignore[arg-type]


def leading_int16(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a coordinator's record of {len(data)} bytes has no version")
    version: int = _INT16.unpack_from(data)[0]
    if version < 0:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a coordinator's record has version {version}")
    return version


def decode_body(message_class: type[M], data: bytes, version: int = _KEY_BODY_VERSION) -> M:
    try:
        return decode(message_class, data, version, _BODY_POSITION)
    except ApiError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"a coordinator's record cannot be read: {error.message}") from error


class UnknownRecord(NamedTuple):
    """A record of newer software, for features that this version does not have."""

    what: str  # "key version 9", "value version 5": at most 65,536 of each


class SkippedRecords:
    """Logs once for each kind of record, and partition, that it is skipped."""

    __slots__ = ("_partition", "_topic", "_warned_of")

    def __init__(self, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._warned_of: set[str] = set()

    def note(self, unknown: UnknownRecord) -> None:
        if unknown.what not in self._warned_of:
            self._warned_of.add(unknown.what)
            logger.warning(
                "records of newer software are skipped",
                extra={"what": unknown.what, "topic": self._topic, "partition": self._partition},
            )
