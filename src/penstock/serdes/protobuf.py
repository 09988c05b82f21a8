"""The codec of a Protobuf file: values in Protobuf's own JSON encoding, by the runtime's `json_format`.

Every codec has a pool of its own, so messages of one name in several schemas do not meet.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, EncodeError, Message

from penstock.schemas.protobuf.schema import ProtobufSchema
from penstock.schemas.schema import SchemaType
from penstock.serdes.codec import MOST_BYTES
from penstock.serdes.errors import ChoiceError, FramingError, PayloadError, UnusableSchemaError
from penstock.serdes.framing import read_indexes, write_indexes

# Messages within messages, in JSON. The runtime has the same bound for bytes.
_MOST_DEPTH = 100


class ProtobufCodec:
    schema_type = SchemaType.PROTOBUF

    def __init__(self, schema: ProtobufSchema) -> None:
        self._pool, name = schema.described()
        self._file = self._pool.FindFileByName(name)
        # In the order of the file, which is what indexes count.
        self._messages: list[Descriptor] = list(self._file.message_types_by_name.values())
        if not self._messages:
            raise UnusableSchemaError("the file has no message, so no value can be written with it")

    def record_name(self, message: str | None) -> str | None:
        return str(self._named(message).full_name)

    def indexes(self, message: str | None) -> bytes:
        return write_indexes(self._position(self._named(message)))

    def encode(self, value: Any, message: str | None, most_bytes: int = MOST_BYTES) -> bytes:
        target = self._new(self._named(message))
        try:
            json_format.ParseDict(value, target, descriptor_pool=self._pool, max_recursion_depth=_MOST_DEPTH)
            return bytes(target.SerializeToString(deterministic=True))
        # The library lets Python's own errors through for values of another shape than it expects.
        except (json_format.ParseError, EncodeError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise PayloadError(f"the value does not fit {target.DESCRIPTOR.full_name}: {_words(error)}") from None
        except RecursionError:
            raise PayloadError("the value nests too deep") from None

    def decode(self, payload: bytes, before: bytes | None) -> Any:
        if before is None:
            indexes, start = read_indexes(payload)
            payload = payload[start:]
        else:
            indexes = read_indexes(before)[0]
        target = self._new(self._at(indexes))
        try:
            target.ParseFromString(payload)
            return json_format.MessageToDict(
                target, always_print_fields_with_no_presence=True, descriptor_pool=self._pool
            )
        except (DecodeError, json_format.SerializeToJsonError, ValueError, TypeError, KeyError) as error:
            name = target.DESCRIPTOR.full_name
            raise PayloadError(f"the payload is not one of {name}: {_words(error)}") from None
        except RecursionError:
            raise PayloadError("the payload nests too deep") from None

    def name_at(self, indexes: tuple[int, ...]) -> str:
        """The name of the message that a payload with these indexes holds. Raises FramingError."""
        return str(self._at(indexes).full_name)

    def descriptor(self, message: str | None) -> Descriptor:
        """Raises ChoiceError."""
        return self._named(message)

    def find(self, message: str) -> Descriptor | None:
        """The message of this full name."""
        try:
            return self._named(f".{message}")
        except ChoiceError:
            return None

    def _new(self, descriptor: Descriptor) -> Message:
        return message_factory.GetMessageClass(descriptor)()

    def _named(self, message: str | None) -> Descriptor:
        """By its full name, or by the part behind the package; the first one without a name."""
        if message is None:
            return self._messages[0]
        package = self._file.package
        wanted = message.removeprefix(".")
        for name in (wanted, f"{package}.{wanted}"):
            try:
                found = self._pool.FindMessageTypeByName(name)
            except KeyError:
                continue
            if found.file.name == self._file.name:
                return found
        raise ChoiceError(f"the schema has no message {message[:100]!r}")

    def _position(self, descriptor: Descriptor) -> list[int]:
        indexes: list[int] = []
        while descriptor.containing_type is not None:
            outer = descriptor.containing_type
            indexes.append(_written_out(outer).index(descriptor))
            descriptor = outer
        indexes.append(self._messages.index(descriptor))
        return indexes[::-1]

    def _at(self, indexes: tuple[int, ...]) -> Descriptor:
        found: Descriptor | None = None
        for index in indexes:
            inner = self._messages if found is None else _written_out(found)
            # Java's clients count the messages in the text, and Python's also the entries of maps that come before. An
            # index without a message by the one count has a meaning by the other if only one message is left.
            if found is not None and index >= len(inner):
                entries = len(found.nested_types) - len(inner)
                inner = inner[index - entries :] if entries <= index else inner
                index = 0 if len(inner) == 1 else index
            if not 0 <= index < len(inner):
                raise FramingError(f"the schema has no message at {list(indexes)}")
            found = inner[index]
        assert found is not None
        return found


def _written_out(outer: Descriptor) -> list[Descriptor]:
    """The messages in a message, without the entries of its maps, which no text has."""
    return [each for each in outer.nested_types if not each.GetOptions().map_entry]


def _words(error: Exception) -> str:
    """The first line: the lines after it list all fields of the message."""
    text = str(error).partition("\n")[0].strip()
    return (text or type(error).__name__)[:300]
