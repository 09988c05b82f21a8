"""Options of descriptors: protobuf's own as fields of the options message, all others uninterpreted."""

from __future__ import annotations

import re
from typing import Any

from penstock.schemas.protobuf.elements import Aggregate, Literal, Option, OptionValue, Symbol
from penstock.schemas.protobuf.printing import print_option_value

_PART = re.compile(r"\(([^)]*)\)|([^.()]+)")


def apply_options(descriptor: Any, options: list[Option]) -> None:
    for option in options:
        if option.is_custom or not _set_path(descriptor.options, option.name.split("."), option.value):
            _add_uninterpreted(descriptor.options, option)


def _set_path(message: Any, path: list[str], value: OptionValue) -> bool:
    """Sets a field by its path; False if there is no such field, or the value does not fit."""
    field = message.DESCRIPTOR.fields_by_name.get(path[0])
    if field is None:
        return False
    if len(path) > 1:
        return (
            field.message_type is not None
            and not field.is_repeated
            and _set_path(getattr(message, path[0]), path[1:], value)
        )
    if field.message_type is not None:
        return _set_message(message, field, value)
    try:
        plain = _plain(field, value)
        if field.is_repeated:
            getattr(message, field.name).append(plain)
        else:
            setattr(message, field.name, plain)
    except (TypeError, ValueError):
        return False
    return True


def _set_message(message: Any, field: Any, value: OptionValue) -> bool:
    if not isinstance(value, Aggregate):
        return False
    inner = getattr(message, field.name)
    target = inner.add() if field.is_repeated else inner
    return all(_set_path(target, [key], each) for key, each in value.entries)


def _plain(field: Any, value: OptionValue) -> Any:
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


def _add_uninterpreted(options: Any, option: Option) -> None:
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
