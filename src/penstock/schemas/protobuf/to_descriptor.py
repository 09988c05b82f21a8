"""From a .proto file to the `FileDescriptorProto` that a compiler would make of it.

Names are resolved, maps and optional fields of proto3 get the messages and oneofs that stand for them. Custom options
stay uninterpreted: their bytes would need the definitions of the options.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2

from penstock.schemas.protobuf.elements import (
    Enum,
    Extend,
    Field,
    Literal,
    Message,
    ProtoFile,
    Range,
    Reserved,
    Service,
)
from penstock.schemas.protobuf.names import SCALARS, Symbols, joined
from penstock.schemas.protobuf.option_describing import apply_options
from penstock.schemas.schema import InvalidSchemaError

# The library comes without annotations.
FileDescriptor = Any

_LABELS = {None: 1, "optional": 1, "required": 2, "repeated": 3}
_TYPES = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in SCALARS}
_FIELD = descriptor_pb2.FieldDescriptorProto


def describe(file: ProtoFile, name: str, symbols: Symbols) -> FileDescriptor:
    """`symbols` has what the file and its imports declare."""
    descriptor = descriptor_pb2.FileDescriptorProto(name=name)
    if file.package is not None:
        descriptor.package = file.package
    if file.is_edition:
        descriptor.syntax = "editions"
        try:
            descriptor.edition = descriptor_pb2.Edition.Value(f"EDITION_{file.syntax}")
        except ValueError:
            raise InvalidSchemaError(f"Unknown edition {file.syntax}") from None
    elif file.syntax == "proto3":
        descriptor.syntax = "proto3"
    descriptor.dependency.extend([*file.imports, *file.public_imports])
    descriptor.public_dependency.extend(range(len(file.imports), len(descriptor.dependency)))
    apply_options(descriptor, file.options)
    _Describer(file, symbols).fill(descriptor)
    return descriptor


class _Describer:
    def __init__(self, file: ProtoFile, symbols: Symbols) -> None:
        self._file = file
        self._symbols = symbols
        self._is_proto3 = file.syntax == "proto3"

    def fill(self, descriptor: Any) -> None:
        scope = self._file.package or ""
        for message in self._file.messages:
            self._message(message, descriptor.message_type.add(), scope)
        for enum in self._file.enums:
            _describe_enum(enum, descriptor.enum_type.add())
        self._extends(self._file.extends, descriptor.extension, descriptor.message_type, scope)
        for service in self._file.services:
            self._service(service, descriptor.service.add(), scope)

    def _message(self, message: Message, descriptor: Any, outer: str) -> None:
        descriptor.name = message.name
        scope = joined(outer, message.name)
        for inner in message.messages:
            self._message(inner, descriptor.nested_type.add(), scope)
        for enum in message.enums:
            _describe_enum(enum, descriptor.enum_type.add())
        for field in message.fields:
            self._field(field, descriptor.field.add(), descriptor.nested_type, scope)
        for index, oneof in enumerate(message.oneofs):
            apply_options(descriptor.oneof_decl.add(name=oneof.name), oneof.options)
            for field in oneof.fields:
                described = descriptor.field.add(oneof_index=index)
                self._field(field, described, descriptor.nested_type, scope)
        if self._is_proto3:
            _add_synthetic_oneofs(message, descriptor)
        self._extends(message.extends, descriptor.extension, descriptor.nested_type, scope)
        for extensions in message.extensions:
            for each in extensions.ranges:
                described = descriptor.extension_range.add(start=each.start, end=each.end + 1)
                apply_options(described, extensions.options)
        _describe_reserved(message.reserved, descriptor, past_end=1)
        apply_options(descriptor, message.options)

    def _field(self, field: Field, descriptor: Any, nested: Any, scope: str) -> None:
        descriptor.name = field.name
        descriptor.number = _int32(field.number)
        descriptor.label = _LABELS[field.label]
        descriptor.json_name = camel(field.name)
        if field.map_key is not None:
            self._map(field, descriptor, nested, scope)
        elif field.group is not None:
            self._message(field.group, nested.add(), scope)
            descriptor.type = _FIELD.TYPE_GROUP
            descriptor.type_name = "." + joined(scope, field.group.name)
        else:
            self._type(field.type, descriptor, scope)
        _apply_field_options(field, descriptor)

    def _map(self, field: Field, descriptor: Any, nested: Any, scope: str) -> None:
        entry = nested.add(name=camel(field.name, capital=True) + "Entry")
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", str(field.map_key)), ("value", field.type)), start=1):
            part = entry.field.add(name=name, number=number, label=1, json_name=name)
            self._type(kind, part, scope)
        descriptor.label = 3
        descriptor.type = _FIELD.TYPE_MESSAGE
        descriptor.type_name = "." + joined(scope, entry.name)

    def _type(self, name: str, descriptor: Any, scope: str) -> None:
        if name in _TYPES:
            descriptor.type = _TYPES[name]
            return
        full = self._resolved(name, scope)
        descriptor.type = _FIELD.TYPE_ENUM if full in self._symbols.enums else _FIELD.TYPE_MESSAGE
        descriptor.type_name = "." + full

    def _resolved(self, name: str, scope: str) -> str:
        full = self._symbols.type(name, scope)
        if full is None:
            raise InvalidSchemaError(f'"{name}" is not defined')
        return full

    def _extends(self, extends: list[Extend], descriptors: Any, nested: Any, scope: str) -> None:
        for extend in extends:
            target = "." + self._resolved(extend.name, scope)
            for field in extend.fields:
                descriptor = descriptors.add(extendee=target)
                self._field(field, descriptor, nested, scope)
                if self._is_proto3 and field.label == "optional":
                    descriptor.proto3_optional = True

    def _service(self, service: Service, descriptor: Any, scope: str) -> None:
        descriptor.name = service.name
        for rpc in service.rpcs:
            described = descriptor.method.add(name=rpc.name)
            described.input_type = "." + self._resolved(rpc.request, scope)
            described.output_type = "." + self._resolved(rpc.response, scope)
            if rpc.streams_request:
                described.client_streaming = True
            if rpc.streams_response:
                described.server_streaming = True
            apply_options(described, rpc.options)
        apply_options(descriptor, service.options)


def _add_synthetic_oneofs(message: Message, descriptor: Any) -> None:
    """An optional field of proto3 is the only field of an implicit oneof. Those come after the others."""
    optional = {field.number for field in message.fields if field.label == "optional"}
    taken = {each.name for each in (*descriptor.oneof_decl, *descriptor.field)}
    for field in descriptor.field:
        if field.number in optional and not field.HasField("oneof_index"):
            name = "_" + field.name
            while name in taken:
                name = "X" + name
            field.proto3_optional = True
            field.oneof_index = len(descriptor.oneof_decl)
            descriptor.oneof_decl.add(name=name)


def _apply_field_options(field: Field, descriptor: Any) -> None:
    others = []
    for option in field.options:
        value = option.value
        if option.name == "json_name" and isinstance(value, Literal):
            descriptor.json_name = value.content.decode("utf-8", "replace")
        elif option.name == "default":
            descriptor.default_value = _default(value, is_bytes=field.type == "bytes")
        else:
            others.append(option)
    apply_options(descriptor, others)


def _default(value: Any, *, is_bytes: bool) -> str:
    if not isinstance(value, Literal):
        return str(getattr(value, "text", ""))
    if not is_bytes:
        return value.content.decode("utf-8", "replace")
    escaped = {0x5C: "\\\\", 0x27: "\\'", 0x22: '\\"', 0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t"}
    return "".join(escaped.get(each) or (chr(each) if 32 <= each < 127 else f"\\{each:03o}") for each in value.content)


def _describe_enum(enum: Enum, descriptor: Any) -> None:
    descriptor.name = enum.name
    for constant in enum.constants:
        apply_options(descriptor.value.add(name=constant.name, number=_int32(constant.number)), constant.options)
    _describe_reserved(enum.reserved, descriptor, past_end=0)
    apply_options(descriptor, enum.options)


def _describe_reserved(statements: list[Reserved], descriptor: Any, *, past_end: int) -> None:
    """The ends of ranges are past the last number in messages, and the last number in enums."""
    for reserved in statements:
        for value in reserved.values:
            if isinstance(value, Range):
                descriptor.reserved_range.add(start=_int32(value.start), end=_int32(value.end) + past_end)
            else:
                descriptor.reserved_name.append(value)


def _int32(number: int) -> int:
    if not -(1 << 31) <= number < 1 << 31:
        raise InvalidSchemaError(f"{number} is out of range")
    return number


def camel(name: str, *, capital: bool = False) -> str:
    """`some_name` as `someName`, as the compiler makes names for JSON and for the entries of maps."""
    parts: list[str] = []
    for char in name:
        if char == "_":
            capital = True
        else:
            parts.append(char.upper() if capital and char.isascii() else char)
            capital = False
    return "".join(parts)
