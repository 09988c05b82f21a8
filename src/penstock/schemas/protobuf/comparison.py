"""Whether a new Protobuf schema reads data written with an old one, by the rules of Confluent's registry.

Fields are the same if their numbers are. A message in a field is compared with the message of the same name, also
across files, unless both come from the same version of a subject. Two rules are stricter than Confluent's: a field
without a label that becomes repeated has changed its label, and a field that becomes required is a new required field.

Each pair of messages is compared once, from a list of open pairs: schemas may refer to each other as deep as they like.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2

from penstock.schemas.limits import TOO_FAR_APART, Budget, Limits
from penstock.schemas.protobuf.files import Linked
from penstock.schemas.schema import Difference

_FIELD = descriptor_pb2.FieldDescriptorProto
_REQUIRED, _REPEATED = _FIELD.LABEL_REQUIRED, _FIELD.LABEL_REPEATED
# Kinds whose values read as each other's.
_KINDS: dict[int, str] = {
    _FIELD.TYPE_INT32: "number",
    _FIELD.TYPE_INT64: "number",
    _FIELD.TYPE_UINT32: "number",
    _FIELD.TYPE_UINT64: "number",
    _FIELD.TYPE_BOOL: "number",
    _FIELD.TYPE_ENUM: "number",
    _FIELD.TYPE_SINT32: "signed",
    _FIELD.TYPE_SINT64: "signed",
    _FIELD.TYPE_STRING: "text",
    _FIELD.TYPE_BYTES: "text",
    _FIELD.TYPE_FIXED32: "fixed32",
    _FIELD.TYPE_SFIXED32: "fixed32",
    _FIELD.TYPE_FIXED64: "fixed64",
    _FIELD.TYPE_SFIXED64: "fixed64",
    _FIELD.TYPE_FLOAT: "float",
    _FIELD.TYPE_DOUBLE: "double",
}

_DESCRIPTIONS = {
    "PACKAGE_CHANGED": "The package at path '{path}' in the {reader} schema is not the package of the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema lacks the message at path '{path}' of the {writer} schema",
    "FIELD_KIND_CHANGED": "The field at path '{path}' is a scalar, a message or a map in the {reader} schema, and "
    "another of these in the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The scalar type of the field at path '{path}' in the {reader} schema does not read "
    "that of the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The message of the field at path '{path}' in the {reader} schema has another name "
    "than in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label of the numeric field at path '{path}' in the {reader} schema is not that "
    "of the {writer} schema",
    "REQUIRED_FIELD_ADDED": "The field at path '{path}' is required in the {reader} schema and not in the {writer} "
    "schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema lacks the required field at path '{path}' of the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema lacks the field at path '{path}' of a oneof of the {writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Several fields of the oneof at path '{path}' in the {reader} schema are not in "
    "one oneof in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field of the oneof at path '{path}' in the {reader} schema is outside of an "
    "existing oneof in the {writer} schema",
}

Origin = tuple[str, int] | None


class _Types:
    """The messages of a schema and of its imports, by full name."""

    def __init__(self, linked: Linked) -> None:
        self.messages: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        # The name without the package of its file: a type may move with its package.
        self.local_names: dict[str, str] = {}
        for each in linked.files:
            waiting = [("", message) for message in each.descriptor.message_type]
            while waiting:
                outer, message = waiting.pop()
                local = f"{outer}.{message.name}" if outer else message.name
                full = f".{each.descriptor.package}.{local}" if each.descriptor.package else f".{local}"
                self.messages[full] = message
                self.local_names[full] = local
                self.origins[full] = each.origin
                waiting += [(local, inner) for inner in message.nested_type]

    def map_entry(self, field: Any) -> Any | None:
        message = self.messages.get(field.type_name) if field.type == _FIELD.TYPE_MESSAGE else None
        return message if message is not None and message.options.map_entry else None


def differences(old: Linked, new: Linked, limits: Limits) -> list[Difference]:
    return _Comparison(old, new, limits).run()


class _Comparison:
    def __init__(self, old: Linked, new: Linked, limits: Limits) -> None:
        self._old_file, self._new_file = old.main.descriptor, new.main.descriptor
        self._old, self._new = _Types(old), _Types(new)
        self._limits = limits
        self._budget = Budget(limits, TOO_FAR_APART)
        self._waiting: deque[tuple[Any, Any, str]] = deque()
        self._seen: set[tuple[int, int]] = set()

    def run(self) -> list[Difference]:
        found: dict[Difference, None] = {}
        if self._old_file.package != self._new_file.package:
            found[_difference("PACKAGE_CHANGED", "#/")] = None
        for each in self._compare_types(self._old_file.message_type, self._new_file.message_type, "#"):
            found[each] = None
        while self._waiting and len(found) < self._limits.differences:
            old, new, path = self._waiting.popleft()
            if (id(old), id(new)) in self._seen:
                continue
            self._seen.add((id(old), id(new)))
            self._budget.spend(1 + len(old.field) + len(new.field))
            found |= dict.fromkeys(self._compare_messages(old, new, path))
        return list(found)[: self._limits.differences]

    def _compare_types(self, olds: Any, news: Any, path: str) -> Iterator[Difference]:
        after = {each.name: each for each in news}
        for old in olds:
            if old.name in after:
                self._waiting.append((old, after[old.name], f"{path}/{old.name}"))
            elif not old.options.map_entry:
                yield _difference("MESSAGE_REMOVED", f"{path}/{old.name}")

    def _compare_messages(self, old: Any, new: Any, path: str) -> Iterator[Difference]:
        if old.options.map_entry or new.options.map_entry:
            # The field has been compared as a map.
            return
        before, after = _Fields(old), _Fields(new)
        yield from _compare_oneofs(before, after, path)
        for number in sorted({*before.by_number, *after.by_number}):
            yield from self._compare_number(number, before, after, path)
        yield from self._compare_types(old.nested_type, new.nested_type, path)

    def _compare_number(self, number: int, before: _Fields, after: _Fields, path: str) -> Iterator[Difference]:
        old: Any = before.by_number.get(number)
        new: Any = after.by_number.get(number)
        if new is None:
            oneof = before.oneof_of.get(number)
            if oneof is None:
                if old.label == _REQUIRED:
                    yield _difference("REQUIRED_FIELD_REMOVED", f"{path}/{number}")
            elif oneof in after.oneofs or any(each in after.by_number for each in before.oneofs[oneof]):
                yield _difference("ONEOF_FIELD_REMOVED", f"{path}/{oneof}/{number}")
        elif old is None:
            if new.label == _REQUIRED:
                yield _difference("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        else:
            oneof = after.oneof_of.get(number)
            place = f"{path}/{number}" if oneof is None else f"{path}/{oneof}/{number}"
            yield from self._compare_fields(old, new, place)

    def _compare_fields(self, old: Any, new: Any, path: str) -> Iterator[Difference]:
        if new.label == _REQUIRED and old.label != _REQUIRED:
            yield _difference("REQUIRED_FIELD_ADDED", path)
        old_entry, new_entry = self._old.map_entry(old), self._new.map_entry(new)
        kinds = [_shape(old, old_entry), _shape(new, new_entry)]
        if kinds[0] != kinds[1]:
            yield _difference("FIELD_KIND_CHANGED", path)
        elif old_entry is not None and new_entry is not None:
            for before, after in zip(old_entry.field, new_entry.field, strict=False):
                yield from self._compare_fields(before, after, path)
        elif kinds[0] == "message":
            yield from self._compare_named(old, new, path)
        elif _KINDS.get(old.type) != _KINDS.get(new.type):
            yield _difference("FIELD_SCALAR_KIND_CHANGED", path)
        elif _KINDS.get(old.type) != "text" and old.label != new.label:
            yield _difference("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _compare_named(self, old: Any, new: Any, path: str) -> Iterator[Difference]:
        if self._old.local_names.get(old.type_name) != self._new.local_names.get(new.type_name):
            yield _difference("FIELD_NAMED_TYPE_CHANGED", path)
            return
        origin = self._old.origins.get(old.type_name)
        if origin is None or origin != self._new.origins.get(new.type_name):
            name = "#/" + self._old.local_names[old.type_name].replace(".", "/")
            self._waiting.append((self._old.messages[old.type_name], self._new.messages[new.type_name], name))


class _Fields:
    """The fields of a message by number, and their oneofs; the oneofs that stand for `optional` do not count."""

    def __init__(self, message: Any) -> None:
        self.by_number = {each.number: each for each in message.field}
        self.oneof_of = {
            each.number: message.oneof_decl[each.oneof_index].name
            for each in message.field
            if each.HasField("oneof_index") and not each.proto3_optional
        }
        self.oneofs: dict[str, list[int]] = {}
        for number, name in self.oneof_of.items():
            self.oneofs.setdefault(name, []).append(number)


def _compare_oneofs(before: _Fields, after: _Fields, path: str) -> Iterator[Difference]:
    """Fields that could be set together no longer can. New fields do not count: no old data has them."""
    for name, numbers in after.oneofs.items():
        known = [number for number in numbers if number in before.by_number]
        moved = [number for number in known if number not in before.oneof_of]
        origins = {before.oneof_of[number] for number in known if number in before.oneof_of}
        if len(origins) + len(moved) > 1:
            kind = "MULTIPLE_FIELDS_MOVED_TO_ONEOF" if len(moved) > 1 else "FIELD_MOVED_TO_EXISTING_ONEOF"
            yield _difference(kind, f"{path}/{name}")


def _shape(field: Any, entry: Any | None) -> str:
    if entry is not None:
        return "map"
    return "message" if field.type in (_FIELD.TYPE_MESSAGE, _FIELD.TYPE_GROUP) else "scalar"


def _difference(kind: str, path: str) -> Difference:
    return Difference(kind, path, _DESCRIPTIONS[kind], quote='"')
