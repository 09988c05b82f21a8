"""Rules of .proto files that protobuf's runtime leaves to the compiler."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from penstock.schemas.protobuf.elements import Enum, Field, Message, ProtoFile, Range, Reserved, Symbol
from penstock.schemas.protobuf.names import enums_of, walk
from penstock.schemas.schema import InvalidSchemaError

_MAP_KEYS = frozenset(
    {
        "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "uint32", "sfixed32", "sfixed64", "sint32",
        "sint64",
    }
)  # fmt: skip


def check_file(file: ProtoFile) -> None:
    problem = next(_problems(file), None)
    if problem is not None:
        raise InvalidSchemaError(problem)


def _problems(file: ProtoFile) -> Iterator[str]:
    is_proto3 = file.syntax == "proto3"
    for name, message in walk(file.messages, file.package or ""):
        reserved = _ReservedNames(message.reserved)
        for field in message.all_fields():
            yield from _field_problems(name, field, is_proto3=is_proto3)
            if reserved.has(field.name, field.number):
                yield f'Field "{field.name}" of "{name}" uses a name or a number that is reserved'
        yield from _oneof_problems(name, message)
    for enum in enums_of(file):
        yield from _enum_problems(enum)


def _field_problems(message: str, field: Field, *, is_proto3: bool) -> Iterator[str]:
    place = f'Field "{field.name}" of "{message}"'
    if 19_000 <= field.number <= 19_999:
        yield f"{place} has a number between 19000 and 19999, which are protobuf's own"
    if field.map_key is not None and field.map_key not in _MAP_KEYS:
        yield f"{place} is a map with keys of type {field.map_key}"
    if field.map_key is not None and field.label is not None:
        yield f"{place} is a map, and maps have no label"
    if is_proto3 and field.group is not None:
        yield f"{place} is a group, which proto3 does not have"
    if is_proto3 and any(option.name == "default" for option in field.options):
        yield f"{place} has a default, which proto3 does not have"


def _oneof_problems(name: str, message: Message) -> Iterator[str]:
    for oneof in message.oneofs:
        if any(field.label is not None or field.map_key is not None for field in oneof.fields):
            yield f'Fields of the oneof "{oneof.name}" of "{name}" have a label, or are maps'


def _enum_problems(enum: Enum) -> Iterator[str]:
    may_repeat = any(option.name == "allow_alias" and option.value == Symbol("true") for option in enum.options)
    reserved = _ReservedNames(enum.reserved)
    seen: set[int] = set()
    for constant in enum.constants:
        if constant.number in seen and not may_repeat:
            yield f'"{constant.name}" of enum "{enum.name}" has the number of another constant, without allow_alias'
        seen.add(constant.number)
        if reserved.has(constant.name, constant.number):
            yield f'"{constant.name}" of enum "{enum.name}" uses a name or a number that is reserved'


class _ReservedNames:
    """Names and numbers that are reserved, sorted so that one search finds a number."""

    def __init__(self, statements: list[Reserved]) -> None:
        values = [value for reserved in statements for value in reserved.values]
        self._names = {each for each in values if isinstance(each, str)}
        self._starts: list[int] = []
        # The largest end of the ranges up to each start.
        self._ends: list[int] = []
        for each in sorted((each for each in values if isinstance(each, Range)), key=lambda each: each.start):
            self._starts.append(each.start)
            self._ends.append(max(each.end, self._ends[-1]) if self._ends else each.end)

    def has(self, name: str, number: int) -> bool:
        index = bisect_right(self._starts, number) - 1
        return name in self._names or (index >= 0 and number <= self._ends[index])
