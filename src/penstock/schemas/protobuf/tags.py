"""Tags inside a Protobuf schema: `(confluent.message_meta).tags` and `(confluent.field_meta).tags`."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.schemas.protobuf.elements import (
    Aggregate,
    Field,
    ListValue,
    Literal,
    Message,
    Option,
    OptionValue,
    ProtoFile,
)
from penstock.schemas.tags import FIELD, RECORD, Entity

_MESSAGE_META = "(confluent.message_meta)"
_FIELD_META = "(confluent.field_meta)"
_META_FILE = "confluent/meta.proto"


def entities(file: ProtoFile) -> Iterator[Entity]:
    """Messages and fields, outermost first. Paths have the package in front."""
    prefix = f"{file.package}." if file.package else ""
    waiting = [(prefix + message.name, message) for message in reversed(file.messages)]
    while waiting:
        path, message = waiting.pop()
        yield _entity(file, path, RECORD, _MESSAGE_META, message)
        for field in message.all_fields():
            yield _entity(file, f"{path}.{field.name}", FIELD, _FIELD_META, field)
        waiting += [(f"{path}.{inner.name}", inner) for inner in reversed(message.messages)]


def _entity(file: ProtoFile, path: str, kind: str, meta: str, element: Message | Field) -> Entity:
    def write(tags: tuple[str, ...]) -> None:
        kept = [left for option in element.options if (left := _without_tags(option, meta)) is not None]
        if tags:
            # One option for each tag: every reader of options understands this beside other parts of the same option.
            kept += [Option(f"{meta}.tags", Literal(tag.encode())) for tag in tags]
            if _META_FILE not in (*file.imports, *file.public_imports):
                file.imports.append(_META_FILE)
        element.options = kept

    return Entity(path, kind, tuple(_tags(element.options, meta)), write)


def _tags(options: list[Option], meta: str) -> Iterator[str]:
    for option in options:
        name = _plain(option.name)
        if name == f"{meta}.tags":
            yield from _strings(option.value)
        elif name == meta and isinstance(option.value, Aggregate):
            for part, value in option.value.entries:
                if part == "tags":
                    yield from _strings(value)


def _without_tags(option: Option, meta: str) -> Option | None:
    name = _plain(option.name)
    if name == f"{meta}.tags":
        return None
    if name == meta and isinstance(option.value, Aggregate):
        left = tuple(entry for entry in option.value.entries if entry[0] != "tags")
        return Option(option.name, Aggregate(left)) if left else None
    return option


def _plain(name: str) -> str:
    return name.replace("(.", "(")


def _strings(value: OptionValue) -> Iterator[str]:
    if isinstance(value, Literal):
        yield value.content.decode(errors="replace")
    elif isinstance(value, ListValue):
        for each in value.values:
            yield from _strings(each)
