"""A .proto file with names in full, and sorted where the order means nothing.

The order of messages stays: the numbers of messages, which records carry, are counted by it.
"""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.schemas.protobuf.elements import (
    Aggregate,
    Enum,
    Extend,
    Extensions,
    Field,
    ListValue,
    Message,
    OneOf,
    Option,
    OptionValue,
    ProtoFile,
    Range,
    Reserved,
    Rpc,
    Service,
)
from penstock.schemas.protobuf.names import SCALARS, Symbols, joined, resolve

_CUSTOM = re.compile(r"\(([^)]*)\)(?:\.(.+))?")


def normalize(file: ProtoFile, symbols: Symbols) -> ProtoFile:
    normalizer = _Normalizer(symbols)
    scope = file.package or ""
    return ProtoFile(
        # Without a syntax a file is in proto2.
        syntax=None if file.syntax == "proto2" else file.syntax,
        package=file.package,
        imports=sorted(set(file.imports)),
        public_imports=sorted(set(file.public_imports)),
        options=normalizer.options(file.options, scope),
        messages=[normalizer.message(each, scope) for each in file.messages],
        enums=[normalizer.enum(each, scope) for each in file.enums],
        extends=normalizer.extends(file.extends, scope),
        services=[normalizer.service(each, scope) for each in file.services],
    )


class _Normalizer:
    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols

    def message(self, message: Message, outer: str) -> Message:
        scope = joined(outer, message.name)
        oneofs = [self._oneof(each, scope) for each in message.oneofs if each.fields]
        return Message(
            name=message.name,
            fields=self._fields(message.fields, scope),
            oneofs=sorted(oneofs, key=lambda oneof: oneof.fields[0].number),
            messages=[self.message(each, scope) for each in message.messages],
            enums=[self.enum(each, scope) for each in message.enums],
            reserved=_split(message.reserved),
            extensions=self._extensions(message.extensions, scope),
            extends=self.extends(message.extends, scope),
            options=self.options(message.options, scope),
        )

    def _fields(self, fields: list[Field], scope: str) -> list[Field]:
        return [self._field(each, scope) for each in sorted(fields, key=lambda field: field.number)]

    def _field(self, field: Field, scope: str) -> Field:
        group = None if field.group is None else self.message(field.group, scope)
        kind = field.type if group is not None else self._type(field.type, scope)
        return replace(field, type=kind, options=self.options(field.options, scope), group=group)

    def _type(self, name: str, scope: str) -> str:
        if name in SCALARS:
            return name
        full = self._symbols.type(name, scope)
        return name if full is None else "." + full

    def _oneof(self, oneof: OneOf, scope: str) -> OneOf:
        return OneOf(oneof.name, self._fields(oneof.fields, scope), self.options(oneof.options, scope))

    def _extensions(self, statements: list[Extensions], scope: str) -> list[Extensions]:
        single = [
            Extensions([_one_number(each)], self.options(extensions.options, scope))
            for extensions in statements
            for each in extensions.ranges
        ]
        return sorted(single, key=lambda extensions: extensions.ranges[0].start)

    def extends(self, statements: list[Extend], scope: str) -> list[Extend]:
        """One statement for each message that is extended."""
        found: dict[str, Extend] = {}
        for extend in statements:
            name = self._type(extend.name, scope)
            found.setdefault(name, Extend(name)).fields.extend(extend.fields)
        return [Extend(each.name, self._fields(each.fields, scope)) for each in found.values()]

    def enum(self, enum: Enum, scope: str) -> Enum:
        # The first constant is the default, and has to be zero in proto3: its number stays in front.
        first = enum.constants[0].number if enum.constants else 0
        constants = sorted(enum.constants, key=lambda each: (each.number != first, each.number, each.name))
        return Enum(
            enum.name,
            [replace(each, options=self.options(each.options, scope)) for each in constants],
            _split(enum.reserved),
            self.options(enum.options, scope),
        )

    def service(self, service: Service, scope: str) -> Service:
        rpcs = [self._rpc(each, scope) for each in service.rpcs]
        return Service(service.name, rpcs, self.options(service.options, scope))

    def _rpc(self, rpc: Rpc, scope: str) -> Rpc:
        request, response = self._type(rpc.request, scope), self._type(rpc.response, scope)
        return replace(rpc, request=request, response=response, options=self.options(rpc.options, scope))

    def options(self, options: list[Option], scope: str) -> list[Option]:
        found = [self._option(each, scope) for each in options]
        return sorted(found, key=lambda option: option.name)

    def _option(self, option: Option, scope: str) -> Option:
        custom = _CUSTOM.fullmatch(option.name)
        value = _sorted_value(option.value)
        if custom is None:
            return Option(option.name, value)
        full = resolve(custom[1], scope, self._symbols.extensions) or custom[1]
        if custom[2] is not None and "(" not in custom[2]:
            # `(a).b = 1` and `(a) = { b: 1 }` mean the same.
            for part in reversed(custom[2].split(".")):
                value = Aggregate(((part, value),))
            return Option(f"({full})", value)
        return Option(f"({full})" + (f".{custom[2]}" if custom[2] else ""), value)


def _sorted_value(value: OptionValue) -> OptionValue:
    if isinstance(value, Aggregate):
        entries = [(key, _sorted_value(each)) for key, each in value.entries if each != ListValue(())]
        return Aggregate(tuple(sorted(entries, key=lambda entry: entry[0])))
    if isinstance(value, ListValue):
        return ListValue(tuple(_sorted_value(each) for each in value.values))
    return value


def _split(statements: list[Reserved]) -> list[Reserved]:
    """One statement for each number or name, numbers first."""
    values = [value for reserved in statements for value in reserved.values]
    numbers = sorted((_one_number(each) for each in values if isinstance(each, Range)), key=lambda each: each.start)
    names = sorted(each for each in values if isinstance(each, str))
    return [*(Reserved([each]) for each in numbers), *(Reserved([each]) for each in names)]


def _one_number(numbers: Range) -> Range:
    return Range(numbers.start, numbers.end, is_single=numbers.start == numbers.end)
