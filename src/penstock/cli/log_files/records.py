"""The records of `__consumer_offsets` as what they mean."""

from __future__ import annotations

import struct
from typing import Any

from penstock.core.internal_topics import CONSUMER_OFFSETS
from penstock.core.types import format_topic_id
from penstock.protocol.codec import decode
from penstock.protocol.errors import ApiError
from penstock.protocol.message import Message
from penstock.protocol.messages.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group_metadata_value import GroupMetadataValue
from penstock.protocol.messages.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.offset_commit_value import OffsetCommitValue
from penstock.protocol.records import Record

_VERSION = struct.Struct(">h")

# The version in front of the key says what kind of record it is. Version 0 and 1 of the commit key are laid out alike.
_KINDS: dict[int, tuple[str, type[Message], type[Message]]] = {
    0: ("offset_commit", OffsetCommitKey, OffsetCommitValue),
    1: ("offset_commit", OffsetCommitKey, OffsetCommitValue),
    2: ("group_metadata", GroupMetadataKey, GroupMetadataValue),
}


def decode_coordinator_record(directory: str, record: Record) -> dict[str, Any] | None:
    """A coordinator's record as a document; None for other topics and for kinds of records that the table lacks."""
    if not directory.startswith(f"{CONSUMER_OFFSETS}-") or record.key is None or len(record.key) < _VERSION.size:
        return None
    (key_version,) = _VERSION.unpack_from(record.key)
    kind = _KINDS.get(key_version)
    if kind is None:
        return None
    name, key_class, value_class = kind
    try:
        key = decode(key_class, record.key[_VERSION.size :], key_class.MAX_VERSION)
        return {"kind": name, "key": _fields(key), "value": _decode_value(value_class, record.value)}
    except (ApiError, struct.error):
        return None


def _decode_value(value_class: type[Message], value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    (version,) = _VERSION.unpack_from(value)
    return {"version": version, **_fields(decode(value_class, value[_VERSION.size :], version))}


def _fields(message: Message) -> dict[str, Any]:
    """Topic ids in Kafka's text form; other bytes (subscriptions, assignments) in hex."""
    names: tuple[str, ...] = type(message).__slots__
    values = {name: getattr(message, name) for name in names}
    return {name: format_topic_id(value) if name == "topic_id" else _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return _fields(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return value
