"""Names in .proto files: declared names, and the meaning of a name at its place."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from penstock.schemas.protobuf.elements import Enum, Extend, Message, ProtoFile

SCALARS = frozenset(
    {
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    }
)  # fmt: skip


def joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def resolve(name: str, scope: str, known: Container[str]) -> str | None:
    """The full name, without the dot before it: looked up from the innermost scope outwards."""
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    while True:
        candidate = joined(scope, name)
        if candidate in known:
            return candidate
        if not scope:
            return None
        scope = scope.rpartition(".")[0]


@dataclass(slots=True)
class Symbols:
    """The full names that files declare."""

    messages: set[str] = field(default_factory=set)
    enums: set[str] = field(default_factory=set)
    extensions: set[str] = field(default_factory=set)

    def add_file(self, file: ProtoFile) -> None:
        scope = file.package or ""
        self.enums |= {joined(scope, each.name) for each in file.enums}
        self._add_extends(file.extends, scope)
        for inner, message in walk(file.messages, scope):
            self.messages.add(inner)
            self.enums |= {joined(inner, each.name) for each in message.enums}
            self._add_extends(message.extends, inner)

    def _add_extends(self, extends: list[Extend], scope: str) -> None:
        self.extensions |= {joined(scope, each.name) for extend in extends for each in extend.fields}

    def type(self, name: str, scope: str) -> str | None:
        return resolve(name, scope, self)

    def __contains__(self, name: object) -> bool:
        return name in self.messages or name in self.enums


def walk(messages: list[Message], scope: str) -> Iterator[tuple[str, Message]]:
    """All messages with their full names, those in messages and groups too."""
    waiting = [(joined(scope, each.name), each) for each in reversed(messages)]
    while waiting:
        name, message = waiting.pop()
        yield name, message
        inner = [*message.messages, *(each.group for each in message.all_fields() if each.group is not None)]
        waiting += [(joined(name, each.name), each) for each in reversed(inner)]


def enums_of(file: ProtoFile) -> Iterator[Enum]:
    yield from file.enums
    for _, message in walk(file.messages, file.package or ""):
        yield from message.enums
