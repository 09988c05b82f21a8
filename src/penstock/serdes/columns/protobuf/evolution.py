"""Reads payloads of one version of a message with another version of it.

Fields are matched by number. Where Protobuf lets a type become another, the bytes stay the same: a reader's message
reads them, has the default where the writer has no such field, and leaves out unknown fields. If a field's type has
become any other, its bytes would be read as a value that was never written: rows that have the field are errors.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from penstock.serdes.errors import PayloadError

_Type = FieldDescriptor
# Types whose bytes mean the same.
_SAME = (
    {_Type.TYPE_INT32, _Type.TYPE_INT64, _Type.TYPE_UINT32, _Type.TYPE_UINT64, _Type.TYPE_BOOL, _Type.TYPE_ENUM},
    {_Type.TYPE_SINT32, _Type.TYPE_SINT64},
    {_Type.TYPE_FIXED32, _Type.TYPE_SFIXED32},
    {_Type.TYPE_FIXED64, _Type.TYPE_SFIXED64},
    {_Type.TYPE_FLOAT},
    {_Type.TYPE_DOUBLE},
    {_Type.TYPE_STRING, _Type.TYPE_BYTES},
    {_Type.TYPE_MESSAGE, _Type.TYPE_BYTES},
    {_Type.TYPE_GROUP},
)
_NAMES = {getattr(_Type, name): name[5:].lower() for name in dir(_Type) if name.startswith("TYPE_")}


def clash(writer: FieldDescriptor, reader: FieldDescriptor) -> str | None:
    """Why the reader's field cannot read the writer's, whatever messages they hold; None if it can."""
    if not any({writer.type, reader.type} <= same for same in _SAME):
        return f"{_NAMES[writer.type]} was written, and the reader's schema has {_NAMES[reader.type]}"
    if writer.is_packed and not reader.is_repeated:
        return f"a list was written, and the reader's schema has one {_NAMES[reader.type]}"
    return None


def has_clash(writer: Descriptor, reader: Descriptor) -> bool:
    """Whether there is a clash at any depth."""
    seen: set[tuple[str, str]] = set()
    waiting = [(writer, reader)]
    while waiting:
        written, wanted = waiting.pop()
        if (written.full_name, wanted.full_name) in seen:
            continue
        seen.add((written.full_name, wanted.full_name))
        for field in written.fields:
            other = wanted.fields_by_number.get(field.number)
            if other is None:
                continue
            if clash(field, other) is not None:
                return True
            if field.message_type is not None and other.message_type is not None:
                waiting.append((field.message_type, other.message_type))
    return False


def check_readable(message: Message, reader: Descriptor) -> None:
    """`message` is one of the writer's. Raises PayloadError for a field that has a value and another type."""
    for field, value in message.ListFields():
        other = reader.fields_by_number.get(field.number)
        if other is None:
            continue
        reason = clash(field, other)
        if reason is not None:
            raise PayloadError(reason, (other.name,))
        if field.message_type is not None and other.message_type is not None:
            for each in _messages(field, value):
                try:
                    check_readable(each, other.message_type)
                except PayloadError as error:
                    raise error.inside(other.name) from None


def _messages(field: FieldDescriptor, value: Any) -> list[Message]:
    if not field.is_repeated:
        return [value]
    if not field.message_type.GetOptions().map_entry:
        return list(value)
    entry = message_factory.GetMessageClass(field.message_type)
    return [entry(key=key, value=value[key]) for key in value]
