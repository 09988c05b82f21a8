"""A .proto file as text, in the layout of Confluent's registry, which is that of the Wire library.

Each kind of statement has its section: in a file the imports, options, messages, enums, extensions and services; in a
message what is reserved, options, fields, oneofs, groups, extensions, messages and enums.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.schemas.protobuf.elements import (
    MAX_FIELD_NUMBER,
    Aggregate,
    Enum,
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
from penstock.schemas.protobuf.tokens import quote


def print_proto(file: ProtoFile) -> str:
    parts: list[str] = []
    if file.syntax is not None:
        parts.append(f'{"edition" if file.is_edition else "syntax"} = "{file.syntax}";\n')
    if file.package is not None:
        parts.append(f"package {file.package};\n")
    imports = [f"import {quote(name.encode())};\n" for name in file.imports]
    imports += [f"import public {quote(name.encode())};\n" for name in file.public_imports]
    types = [*map(_message, file.messages), *map(_enum, file.enums)]
    for section in (
        imports,
        [*map(_option_statement, file.options)],
        types,
        [*map(_extend, file.extends)],
        [*map(_service, file.services)],
    ):
        if section:
            parts += ["\n", *section]
    return "".join(parts)


def _block(head: str, *sections: Iterable[str]) -> str:
    """A head and its sections in braces; a line goes before each section, and so after the brace."""
    body = "".join("\n" + "".join(map(_indented, texts)) for texts in map(list, sections) if texts)
    return f"{head} {{{body}}}\n"


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.rstrip("\n").split("\n"))


def _message(message: Message) -> str:
    return _block(f"message {message.name}", *_message_sections(message))


def _message_sections(message: Message) -> Iterator[list[str]]:
    yield [*map(_reserved, message.reserved)]
    yield [*map(_option_statement, message.options)]
    yield [_field(each) for each in message.fields if each.group is None]
    yield [*map(_oneof, message.oneofs)]
    yield [_field(each) for each in message.fields if each.group is not None]
    yield [*map(_extensions, message.extensions)]
    yield [*map(_extend, message.extends)]
    yield [*map(_message, message.messages), *map(_enum, message.enums)]


def _enum(enum: Enum) -> str:
    constants = [f"{each.name} = {each.number}{_bracketed(each.options)};\n" for each in enum.constants]
    body = [*map(_reserved, enum.reserved), *map(_option_statement, enum.options), *constants]
    return _block(f"enum {enum.name}", body)


def _oneof(oneof: OneOf) -> str:
    plain = [_field(each) for each in oneof.fields if each.group is None]
    groups = [_field(each) for each in oneof.fields if each.group is not None]
    return _block(f"oneof {oneof.name}", [*map(_option_statement, oneof.options)], plain, groups)


def _extend(extend: Extend) -> str:
    return _block(f"extend {extend.name}", [*map(_field, extend.fields)])


def _service(service: Service) -> str:
    options = [*map(_option_statement, service.options)]
    return _block(f"service {service.name}", options, [*map(_rpc, service.rpcs)])


def _rpc(rpc: Rpc) -> str:
    request = ("stream " if rpc.streams_request else "") + rpc.request
    response = ("stream " if rpc.streams_response else "") + rpc.response
    head = f"rpc {rpc.name} ({request}) returns ({response})"
    if not rpc.options:
        return head + ";\n"
    return _block(head, [*map(_option_statement, rpc.options)]).rstrip("\n") + ";\n"


def _field(field: Field) -> str:
    label = f"{field.label} " if field.label else ""
    if field.group is not None:
        head = f"{label}group {field.group.name} = {field.number}{_bracketed(field.options)}"
        return _block(head, *_message_sections(field.group))
    kind = field.type if field.map_key is None else f"map<{field.map_key}, {field.type}>"
    # Wire does not take these two for options, and writes them last.
    last = [option for name in ("default", "json_name") for option in field.options if option.name == name]
    options = [option for option in field.options if option not in last] + last
    return f"{label}{kind} {field.name} = {field.number}{_bracketed(options)};\n"


def _reserved(reserved: Reserved) -> str:
    values = (quote(each.encode()) if isinstance(each, str) else _range(each) for each in reserved.values)
    return f"reserved {', '.join(values)};\n"


def _extensions(extensions: Extensions) -> str:
    return f"extensions {', '.join(map(_range, extensions.ranges))}{_bracketed(extensions.options)};\n"


def _range(numbers: Range) -> str:
    if numbers.is_single:
        return str(numbers.start)
    return f"{numbers.start} to {numbers.end if numbers.end < MAX_FIELD_NUMBER else 'max'}"


def _option_statement(option: Option) -> str:
    return f"option {_option(option)};\n"


def _option(option: Option) -> str:
    value = option.value
    if isinstance(value, ListValue):
        return f"{option.name} = {_listed([print_option_value(each) for each in value.values])}"
    return f"{option.name} = {print_option_value(value)}"


def _bracketed(options: list[Option]) -> str:
    return f" {_listed([_option(each) for each in options])}" if options else ""


def _listed(texts: list[str]) -> str:
    """One on the same line, several on lines of their own."""
    if len(texts) == 1:
        return f"[{texts[0]}]"
    return "[\n" + _lines(texts) + "]"


def _lines(texts: list[str]) -> str:
    return "".join(_indented(text + ("," if index < len(texts) - 1 else "")) for index, text in enumerate(texts))


def print_option_value(value: OptionValue) -> str:
    if isinstance(value, Literal):
        return quote(value.content)
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Aggregate):
        return "{\n" + _lines([f"{key}: {print_option_value(each)}" for key, each in value.entries]) + "}"
    return "[\n" + _lines([print_option_value(each) for each in value.values]) + "]"
