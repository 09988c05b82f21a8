"""Files that a schema imports: those among its references, and those that every schema may import."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message import DecodeError

from penstock.schemas.limits import Limits
from penstock.schemas.protobuf.custom_options import Interpreter
from penstock.schemas.protobuf.elements import ProtoFile
from penstock.schemas.protobuf.file_rules import check_file
from penstock.schemas.protobuf.from_descriptor import undescribe
from penstock.schemas.protobuf.grammar import read_proto
from penstock.schemas.protobuf.names import Symbols
from penstock.schemas.protobuf.printer import print_proto
from penstock.schemas.protobuf.to_descriptor import FileDescriptor, describe
from penstock.schemas.schema import InvalidSchemaError, ResolvedReference

_BUNDLED = (
    "any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp", "type",
    "wrappers",
)  # fmt: skip
# Dates, money, places and the like, which Confluent's registry knows, too: from googleapis-common-protos.
_COMMON = (
    "calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval", "latlng",
    "localized_text", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday",
)  # fmt: skip
_GOOGLE = {f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in _BUNDLED} | {
    f"google/type/{name}.proto": f"google.type.{name}_pb2" for name in _COMMON
}
# Definitions of Confluent's clients, in our words: metadata of fields and the like, decimal numbers, values of any
# type.
CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta {
          string doc = 1; map<string, string> params = 2; repeated string tags = 3; repeated Rule rules = 4;
        }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/type/variant.proto": """
        syntax = "proto3";
        package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }
    """,
}
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*")
# The name of the file that has no name of its own.
_DEFAULT_NAME = "default"


@dataclass(frozen=True, slots=True)
class LinkedFile:
    file: ProtoFile
    descriptor: FileDescriptor
    # Its subject and version in the registry; None for files that every schema may import.
    origin: tuple[str, int] | None = None


def read_source(text: str, limits: Limits) -> ProtoFile:
    """A .proto file, or a `FileDescriptorProto` in base64."""
    if not _BASE64.fullmatch(text):
        return read_proto(text, limits)
    return _read_descriptor(_decoded(text), limits)


def _decoded(text: str) -> FileDescriptor:
    try:
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, DecodeError, ValueError):
        raise InvalidSchemaError("Neither a .proto file nor a FileDescriptorProto in base64") from None
    _check_texts(descriptor)
    return descriptor


def _installed(name: str) -> FileDescriptor:
    try:
        module = import_module(_GOOGLE[name])
    except ModuleNotFoundError:  # the extra for Spark does not install it
        raise InvalidSchemaError(
            f'"{name}" is imported: googleapis-common-protos has it, and is not installed'
        ) from None
    descriptor = descriptor_pb2.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(descriptor)
    return descriptor


def _read_descriptor(descriptor: FileDescriptor, limits: Limits) -> ProtoFile:
    """Through the text: a descriptor may have names that no .proto file can have, and the text is stored."""
    return read_proto(print_proto(undescribe(descriptor)), limits)


def read_and_link(
    text: str, resolved: Mapping[str, ResolvedReference], limits: Limits, *, is_new: bool = True
) -> Linked:
    """The file with its imports, each checked by protobuf's runtime as it comes in. A new file has more checks to
    pass.
    """
    file = read_source(text, limits)
    if is_new:
        check_file(file)
    linked = _Linker(resolved, limits).link(file)
    if not linked.symbols.extensions or not _BASE64.fullmatch(text):
        return linked
    # The meaning of a descriptor's options is known once its imports are.
    descriptor = _decoded(text)
    linked.interpreter.spell_out(descriptor)
    return _Linker(resolved, limits).link(_read_descriptor(descriptor, limits))


def _check_texts(message: Any) -> None:
    """The library gives bytes where a string is no UTF-8. The library itself bounds the depth of messages."""
    for field, value in message.ListFields():
        for each in value if field.is_repeated else [value]:
            if field.type == field.TYPE_MESSAGE:
                _check_texts(each)
            elif field.type == field.TYPE_STRING and not isinstance(each, str):
                raise InvalidSchemaError(f"A {field.name} of the FileDescriptorProto is no text")


@dataclass(slots=True)
class Linked:
    """A schema and everything that it imports, each after its own imports; the schema comes last."""

    files: list[LinkedFile]
    symbols: Symbols
    interpreter: Interpreter
    # Has all of the files, as protobuf's runtime built them.
    pool: descriptor_pool.DescriptorPool

    @property
    def main(self) -> LinkedFile:
        return self.files[-1]


class _Linker:
    def __init__(self, resolved: Mapping[str, ResolvedReference], limits: Limits) -> None:
        self._resolved = resolved
        self._limits = limits
        self._pool = descriptor_pool.DescriptorPool()
        self._linked: dict[str, LinkedFile] = {}
        self._symbols = Symbols()

    def link(self, file: ProtoFile) -> Linked:
        for name in self._in_order(file):
            source, origin = self._sources[name]
            self._add(name, source, origin)
        main = _DEFAULT_NAME
        while main in self._linked:
            main += "_"
        self._add(main, file, None)
        interpreter = Interpreter(self._pool, self._symbols.extensions)
        return Linked(list(self._linked.values()), self._symbols, interpreter, self._pool)

    def _in_order(self, file: ProtoFile) -> list[str]:
        """The imports of imports first. Without recursion: a name is added when all its imports are."""
        self._sources: dict[str, tuple[ProtoFile, tuple[str, int] | None]] = {}
        order: dict[str, None] = {}
        under_way: set[str] = set()
        waiting = [*reversed([*file.imports, *file.public_imports])]
        while waiting:
            name = waiting[-1]
            if name in order:
                waiting.pop()
                continue
            if name not in self._sources:
                self._sources[name] = self._source(name)
            imported = self._sources[name][0]
            needed = [each for each in (*imported.imports, *imported.public_imports) if each not in order]
            if not needed:
                order[name] = None
                waiting.pop()
            elif name in under_way:
                raise InvalidSchemaError(f'"{name}" imports itself, or files that import each other')
            else:
                under_way.add(name)
                waiting += reversed(needed)
        return list(order)

    def _source(self, name: str) -> tuple[ProtoFile, tuple[str, int] | None]:
        if name in self._resolved:
            reference = self._resolved[name]
            return read_source(reference.text, self._limits), (reference.subject, reference.version)
        if name in _GOOGLE:
            return undescribe(_installed(name)), None
        if name in CONFLUENT:
            return read_proto(CONFLUENT[name], self._limits), None
        raise InvalidSchemaError(f'"{name[:200]}" is imported, but it is not among the references of the schema')

    def _add(self, name: str, file: ProtoFile, origin: tuple[str, int] | None) -> None:
        self._symbols.add_file(file)
        descriptor = describe(file, name, self._symbols)
        try:
            # The library's own check of a file.
            self._pool.Add(descriptor)
            self._pool.FindFileByName(name)
        except (TypeError, KeyError, ValueError) as error:
            reason = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
            raise InvalidSchemaError(reason[:1000]) from None
        self._linked[name] = LinkedFile(file, descriptor, origin)


def serialized(linked: Linked) -> str:
    descriptor = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyFrom(linked.main.descriptor)
    linked.interpreter.interpret(descriptor)
    return base64.b64encode(descriptor.SerializeToString(deterministic=True)).decode()
