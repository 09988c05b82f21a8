"""The statements of a .proto file, in their order: without comments, with names as they were written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

# A field's number ends here; as the end of a range it is written `max`.
MAX_FIELD_NUMBER = (1 << 29) - 1
MAX_ENUM_NUMBER = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Literal:
    """A string, as the bytes that it stands for."""

    content: bytes


@dataclass(frozen=True, slots=True)
class Symbol:
    """A number, true, false, or the name of a constant: a word that is written without quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Fields of a message in braces; names in square brackets keep those."""

    entries: tuple[tuple[str, OptionValue], ...]


@dataclass(frozen=True, slots=True)
class ListValue:
    values: tuple[OptionValue, ...]


OptionValue: TypeAlias = "Literal | Symbol | Aggregate | ListValue"


@dataclass(frozen=True, slots=True)
class Option:
    """`name` is as written: `deprecated`, `(my.option).part`."""

    name: str
    value: OptionValue

    @property
    def is_custom(self) -> bool:
        return self.name.startswith("(")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from start to end, both included; one number where the source has one."""

    start: int
    end: int
    is_single: bool = False


@dataclass(slots=True)
class Reserved:
    values: list[Range | str]


@dataclass(slots=True)
class Extensions:
    ranges: list[Range]
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Field:
    name: str
    number: int
    # As written: `int32`, `.a.B`; of a map the type of the values.
    type: str
    label: str | None = None
    map_key: str | None = None
    options: list[Option] = field(default_factory=list)
    # The body, if the field is a group.
    group: Message | None = None


@dataclass(slots=True)
class OneOf:
    name: str
    fields: list[Field] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class EnumConstant:
    name: str
    number: int
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Enum:
    name: str
    constants: list[EnumConstant] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Extend:
    name: str
    fields: list[Field] = field(default_factory=list)


@dataclass(slots=True)
class Message:
    name: str
    fields: list[Field] = field(default_factory=list)
    oneofs: list[OneOf] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    extensions: list[Extensions] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)

    def all_fields(self) -> list[Field]:
        return [*self.fields, *(each for oneof in self.oneofs for each in oneof.fields)]


@dataclass(slots=True)
class Rpc:
    name: str
    request: str
    response: str
    streams_request: bool = False
    streams_response: bool = False
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    name: str
    rpcs: list[Rpc] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class ProtoFile:
    # `proto2`, `proto3`, an edition such as `2023`, or nothing, which means proto2.
    syntax: str | None = None
    package: str | None = None
    imports: list[str] = field(default_factory=list)
    public_imports: list[str] = field(default_factory=list)
    options: list[Option] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    enums: list[Enum] = field(default_factory=list)
    extends: list[Extend] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)

    @property
    def is_edition(self) -> bool:
        return self.syntax is not None and not self.syntax.startswith("proto")
