"""Options of descriptors: protobuf's own as fields of the options message, all others uninterpreted."""

from __future__ import annotations

import re
from typing import Any

from penstock.schemas.protobuf.elements import Aggregate, ListValue, Literal, Option, OptionValue, Symbol
from penstock.schemas.protobuf.printer import print_option_value

_PART = re.compile(r"\(([^)]*)\)|([^.()]+)")


def apply_options(descriptor: Any, options: list[Option]) -> None:
    for option in options:
        if option.is_custom or not set_path(descriptor.options, option.name.split("."), option.value):
            add_uninterpreted(descriptor.options, option)


def set_path(message: Any, path: list[str], value: OptionValue) -> bool:
    """Sets a field by its path; False if there is no such field, or the value does not fit."""
    field = message.DESCRIPTOR.fields_by_name.get(path[0])
    if field is None:
        return False
    if len(path) > 1:
        if field.message_type is None or field.is_repeated:
            return False
        return set_path(getattr(message, path[0]), path[1:], value)
    if isinstance(value, ListValue):
        return field.is_repeated and all(set_path(message, path, each) for each in value.values)
    if field.message_type is not None:
        return isinstance(value, Aggregate) and _set_message(message, field, value)
    try:
        plain = value_for(field, value)
        if field.is_repeated:
            getattr(message, field.name).append(plain)
        else:
            setattr(message, field.name, plain)
    except (TypeError, ValueError):
        return False
    return True


def _set_message(message: Any, field: Any, value: Aggregate) -> bool:
    inner = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        return _set_map_entry(inner, field.message_type, dict(value.entries))
    target = inner.add() if field.is_repeated else inner
    target.SetInParent()
    return all(set_path(target, [key], each) for key, each in value.entries)


def _set_map_entry(entries: Any, entry: Any, value: dict[str, OptionValue]) -> bool:
    """An entry of a map is a message with a key and a value. Values that are messages stay uninterpreted."""
    kinds = entry.fields_by_name
    if kinds["value"].message_type is not None or "key" not in value or "value" not in value:
        return False
    try:
        entries[value_for(kinds["key"], value["key"])] = value_for(kinds["value"], value["value"])
    except (TypeError, ValueError):
        return False
    return True


def value_for(field: Any, value: OptionValue) -> Any:
    """The value as the field takes it; TypeError or ValueError if it does not fit."""
    if isinstance(value, Literal):
        return value.content if field.type == field.TYPE_BYTES else value.content.decode()
    if not isinstance(value, Symbol):
        raise TypeError
    text = value.text
    if field.enum_type is not None:
        known = field.enum_type.values_by_name
        return known[text].number if text in known else int(text)
    if field.type == field.TYPE_BOOL:
        return ("false", "true").index(text) == 1
    return int(text, 0) if text.lstrip("-").isalnum() else float(text)


def add_uninterpreted(options: Any, option: Option) -> None:
    uninterpreted = options.uninterpreted_option.add()
    for extension, plain in _PART.findall(option.name):
        uninterpreted.name.add(name_part=extension or plain, is_extension=bool(extension))
    value = option.value
    if isinstance(value, Literal):
        uninterpreted.string_value = value.content
    elif isinstance(value, Symbol):
        _set_symbol(uninterpreted, value.text)
    else:
        # The compiler has the text between the braces here.
        uninterpreted.aggregate_value = print_option_value(value)[1:-1].strip()


def _set_symbol(uninterpreted: Any, text: str) -> None:
    try:
        number = int(text, 0)
    except ValueError:
        try:
            uninterpreted.double_value = float(text)
        except ValueError:
            uninterpreted.identifier_value = text
        return
    if -(1 << 63) <= number < 0:
        uninterpreted.negative_int_value = number
    elif 0 <= number < 1 << 64:
        uninterpreted.positive_int_value = number
    else:
        uninterpreted.double_value = float(number)
