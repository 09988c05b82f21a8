"""From a `FileDescriptorProto` back to the statements of a .proto file: maps, groups and optional fields as authors
write them, names in full.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2

from penstock.schemas.limits import DEFAULT_LIMITS
from penstock.schemas.protobuf.elements import (
    Aggregate,
    Enum,
    EnumConstant,
    Extend,
    Extensions,
    Field,
    ListValue,
    Literal,
    Message,
    OneOf,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
    Symbol,
)
from penstock.schemas.protobuf.option_reading import read_option_value
from penstock.schemas.protobuf.to_descriptor import camel
from penstock.schemas.protobuf.tokens import unquote
from penstock.schemas.schema import InvalidSchemaError

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {number: name.removeprefix("TYPE_").lower() for name, number in _FIELD.Type.items()}
_LABELS = {1: "optional", 2: "required", 3: "repeated"}


def undescribe(descriptor: Any) -> ProtoFile:
    file = ProtoFile(package=descriptor.package or None)
    if descriptor.syntax == "editions":
        file.syntax = descriptor_pb2.Edition.Name(descriptor.edition).removeprefix("EDITION_")
    else:
        file.syntax = descriptor.syntax or None
    public = set(descriptor.public_dependency)
    file.imports = [name for index, name in enumerate(descriptor.dependency) if index not in public]
    file.public_imports = [name for index, name in enumerate(descriptor.dependency) if index in public]
    file.options = _options(descriptor)
    reader = _Undescriber(has_labels=file.syntax in (None, "proto2"))
    file.messages = [reader.message(each) for each in descriptor.message_type if not _is_group_body(each, descriptor)]
    file.enums = [_enum(each) for each in descriptor.enum_type]
    file.extends = reader.extends(descriptor.extension, descriptor.message_type)
    file.services = [_service(each) for each in descriptor.service]
    return file


def _is_group_body(message: Any, descriptor: Any) -> bool:
    return any(
        each.type == _FIELD.TYPE_GROUP and each.type_name.rpartition(".")[2] == message.name
        for each in descriptor.extension
    )


class _Undescriber:
    def __init__(self, *, has_labels: bool) -> None:
        self._has_labels = has_labels

    def message(self, descriptor: Any) -> Message:
        nested = {each.name: each for each in descriptor.nested_type}
        bodies = {each.type_name.rpartition(".")[2] for each in descriptor.field if each.type == _FIELD.TYPE_GROUP}
        bodies |= {each.type_name.rpartition(".")[2] for each in descriptor.extension if each.type == _FIELD.TYPE_GROUP}
        message = Message(descriptor.name, options=_options(descriptor))
        message.messages = [
            self.message(each)
            for each in descriptor.nested_type
            if not each.options.map_entry and each.name not in bodies
        ]
        message.enums = [_enum(each) for each in descriptor.enum_type]
        oneofs = [OneOf(each.name, options=_options(each)) for each in descriptor.oneof_decl]
        for each in descriptor.field:
            field = self.field(each, nested)
            if each.HasField("oneof_index") and not each.proto3_optional:
                if each.oneof_index >= len(oneofs):
                    raise InvalidSchemaError(f'Field "{each.name}" is in a oneof that does not exist')
                field.label = None
                oneofs[each.oneof_index].fields.append(field)
            else:
                message.fields.append(field)
        message.oneofs = [oneof for oneof in oneofs if oneof.fields]
        message.extends = self.extends(descriptor.extension, descriptor.nested_type)
        message.extensions = [
            Extensions([_range(each.start, each.end - 1)], _options(each)) for each in descriptor.extension_range
        ]
        message.reserved = _reserved(descriptor, past_end=1)
        return message

    def field(self, descriptor: Any, nested: dict[str, Any]) -> Field:
        label: str | None = _LABELS.get(descriptor.label, "optional")
        if label == "optional" and not self._has_labels and not descriptor.proto3_optional:
            label = None
        field = Field(descriptor.name, descriptor.number, "", label, options=_field_options(descriptor))
        short = descriptor.type_name.rpartition(".")[2]
        entry = nested.get(short)
        if descriptor.type == _FIELD.TYPE_GROUP and entry is not None:
            field.group, field.type = self.message(entry), short
        elif entry is not None and entry.options.map_entry and len(entry.field) == 2:
            field.label = None
            field.map_key, field.type = _type(entry.field[0]), _type(entry.field[1])
        else:
            field.type = _type(descriptor)
        return field

    def extends(self, descriptors: Any, nested: Any) -> list[Extend]:
        found: dict[str, Extend] = {}
        bodies = {each.name: each for each in nested}
        for each in descriptors:
            extend = found.setdefault(each.extendee, Extend(each.extendee))
            extend.fields.append(self.field(each, bodies))
        return list(found.values())


def _type(descriptor: Any) -> str:
    return str(descriptor.type_name or _TYPES.get(descriptor.type, "int32"))


def _field_options(descriptor: Any) -> list[Option]:
    options = _options(descriptor)
    if descriptor.HasField("default_value"):
        options.append(Option("default", _default(descriptor)))
    if descriptor.json_name and descriptor.json_name != camel(descriptor.name):
        options.append(Option("json_name", Literal(descriptor.json_name.encode())))
    return options


def _default(descriptor: Any) -> OptionValue:
    if descriptor.type == _FIELD.TYPE_STRING:
        return Literal(descriptor.default_value.encode())
    if descriptor.type == _FIELD.TYPE_BYTES:
        return Literal(unquote(f'"{descriptor.default_value}"'))
    return Symbol(descriptor.default_value)


def _enum(descriptor: Any) -> Enum:
    constants = [EnumConstant(each.name, each.number, _options(each)) for each in descriptor.value]
    return Enum(descriptor.name, constants, _reserved(descriptor, past_end=0), _options(descriptor))


def _service(descriptor: Any) -> Service:
    rpcs = [
        Rpc(
            each.name,
            each.input_type,
            each.output_type,
            each.client_streaming,
            each.server_streaming,
            _options(each),
        )
        for each in descriptor.method
    ]
    return Service(descriptor.name, rpcs, _options(descriptor))


def _reserved(descriptor: Any, *, past_end: int) -> list[Reserved]:
    ranges: list[Range | str] = [_range(each.start, each.end - past_end) for each in descriptor.reserved_range]
    names: list[Range | str] = list(descriptor.reserved_name)
    return [Reserved(values) for values in (ranges, names) if values]


def _range(start: int, end: int) -> Range:
    return Range(start, end, is_single=start == end)


def _options(descriptor: Any) -> list[Option]:
    """The options that are set, except the one that marks a map: the map is written as such."""
    found = []
    for field, value in descriptor.options.ListFields():
        if field.name == "uninterpreted_option":
            found += [undescribe_uninterpreted(each) for each in value]
        elif field.name != "map_entry":
            found += [
                Option(field.name, option_value(field, each)) for each in (value if field.is_repeated else [value])
            ]
    return found


def undescribe_uninterpreted(option: Any) -> Option:
    parts = (f"({each.name_part})" if each.is_extension else each.name_part for each in option.name)
    name = ".".join(parts)
    if option.HasField("string_value"):
        return Option(name, Literal(option.string_value))
    for kind in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(kind):
            return Option(name, Symbol(str(getattr(option, kind))))
    return Option(name, read_option_value("{" + option.aggregate_value + "}", DEFAULT_LIMITS))


def option_value(field: Any, value: Any) -> OptionValue:
    """The value of an option as a .proto file has it."""
    if field.message_type is not None:
        return _aggregate(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return Symbol(str(value) if known is None else known.name)
    if isinstance(value, bool):
        return Symbol("true" if value else "false")
    if isinstance(value, bytes | str):
        return Literal(value if isinstance(value, bytes) else value.encode())
    return Symbol(str(value))


def _map(entry: Any, entries: Any) -> ListValue:
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    return ListValue(
        tuple(
            Aggregate((("key", option_value(key, each)), ("value", option_value(value, entries[each]))))
            for each in sorted(entries)
        )
    )


def _aggregate(message: Any) -> Aggregate:
    entries: list[tuple[str, OptionValue]] = []
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entries.append((field.name, _map(field.message_type, value)))
        elif field.is_repeated:
            entries.append((field.name, ListValue(tuple(option_value(field, each) for each in value))))
        else:
            entries.append((field.name, option_value(field, value)))
    return Aggregate(tuple(entries))
