"""Custom options, those that protobuf itself does not define: from words to the bytes that readers of a descriptor
look for, and back.

Clients find tags of fields (`confluent.field_meta`) in these bytes. Options whose definition is not among the imports
stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import message_factory

from penstock.schemas.protobuf.elements import Aggregate, ListValue, Option
from penstock.schemas.protobuf.from_descriptor import option_value, undescribe_uninterpreted
from penstock.schemas.protobuf.names import joined, resolve
from penstock.schemas.protobuf.option_describing import add_uninterpreted, set_path, value_for

_CUSTOM = re.compile(r"\(\.?([^)]*)\)(?:\.([^()]+))?")


class Interpreter:
    """Knows the extensions of one pool."""

    def __init__(self, pool: Any, extensions: set[str]) -> None:
        self._pool = pool
        self._extensions = extensions

    def interpret(self, descriptor: Any) -> None:
        """Gives the options of a file, and of all its parts, their bytes, which replace the uninterpreted options."""
        for options, scope in _all_options(descriptor, descriptor.package):
            if options.uninterpreted_option:
                self._interpret(options, scope)

    def spell_out(self, descriptor: Any) -> None:
        """The other way round: turns bytes into words, as an uninterpreted option."""
        for options, _ in _all_options(descriptor, descriptor.package):
            for field, value in self._known(options):
                for each in value if field.is_repeated else [value]:
                    add_uninterpreted(options, Option(f"({field.full_name})", option_value(field, each)))

    def _known(self, options: Any) -> list[tuple[Any, Any]]:
        """The custom options that this pool knows."""
        target = self._empty(options)
        if target is None:
            return []
        target.MergeFromString(options.SerializeToString())
        return [(field, value) for field, value in target.ListFields() if field.is_extension]

    def _interpret(self, options: Any, scope: str) -> None:
        target = self._empty(options)
        if target is None:
            return
        left = [
            each
            for each in options.uninterpreted_option
            if not self._set(target, undescribe_uninterpreted(each), scope)
        ]
        del options.uninterpreted_option[:]
        options.uninterpreted_option.extend(left)
        options.MergeFromString(target.SerializeToString(deterministic=True))

    def _empty(self, options: Any) -> Any | None:
        """Options of the same kind, of this pool."""
        try:
            kind = self._pool.FindMessageTypeByName(options.DESCRIPTOR.full_name)
        except KeyError:
            return None
        return message_factory.GetMessageClass(kind)()

    def _set(self, target: Any, option: Option, scope: str) -> bool:
        found = _CUSTOM.fullmatch(option.name)
        full = None if found is None else resolve(found[1], scope, self._extensions)
        if found is None or full is None:
            return False
        extension = self._pool.FindExtensionByName(full)
        if extension.containing_type.full_name != target.DESCRIPTOR.full_name:
            return False
        # Tried on a message of its own, so that a value that does not fit leaves nothing behind.
        attempt = type(target)()
        attempt.CopyFrom(target)
        try:
            is_set = _set_extension(attempt, extension, found[2], option)
        except (KeyError, TypeError, ValueError):
            is_set = False
        if is_set:
            target.CopyFrom(attempt)
        return is_set


def _all_options(descriptor: Any, scope: str) -> Iterator[tuple[Any, str]]:
    """The options in a descriptor, each with the scope from which its names are looked up."""
    for field, value in descriptor.ListFields():
        if field.name == "options":
            yield value, scope
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                is_message = field.name in ("message_type", "nested_type")
                yield from _all_options(each, joined(scope, each.name) if is_message else scope)


def _set_extension(target: Any, extension: Any, path: str | None, option: Option) -> bool:
    if path is not None:
        return extension.message_type is not None and set_path(
            target.Extensions[extension], path.split("."), option.value
        )
    values = option.value.values if isinstance(option.value, ListValue) else (option.value,)
    if not extension.is_repeated and len(values) != 1:
        return False
    for value in values:
        if extension.message_type is None:
            plain = value_for(extension, value)
            if extension.is_repeated:
                target.Extensions[extension].append(plain)
            else:
                target.Extensions[extension] = plain
            continue
        if not isinstance(value, Aggregate):
            return False
        inner = target.Extensions[extension]
        message = inner.add() if extension.is_repeated else inner
        message.SetInParent()
        if not all(set_path(message, [key], each) for key, each in value.entries):
            return False
    return True
