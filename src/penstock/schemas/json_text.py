"""JSON as Java's Jackson reads and writes it, within limits.

Numbers either keep the text they came with (1.50 stays 1.50, and 1e400 is not infinite) or become doubles, which are
written as Java writes them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Self, TypeAlias

from penstock.schemas.limits import Limits
from penstock.schemas.schema import InvalidSchemaError

# dict and list rather than recursive types: every reader of a foreign document checks each value before using it.
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | Number | None"


class Number(float):
    """A number with a point or an exponent, and the text that it was read from."""

    text: str

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __reduce__(self) -> tuple[type[Number], tuple[str]]:
        return Number, (self.text,)


_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)}
_ESCAPES |= {0x08: r"\b", 0x09: r"\t", 0x0A: r"\n", 0x0C: r"\f", 0x0D: r"\r", 0x22: r"\"", 0x5C: r"\\"}


class _RefusedNumberError(ValueError):
    """The text is for the author of the document."""


def read_json(text: str, limits: Limits, *, keep_numbers: bool = True) -> Json:
    """The document, or an `InvalidSchemaError` if the text is no JSON or past a limit."""
    parse_float = Number if keep_numbers else _finite
    try:
        document: Json = json.loads(text, parse_float=parse_float, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise InvalidSchemaError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    except _RefusedNumberError as error:
        raise InvalidSchemaError(str(error)) from None
    except (
        ValueError
    ):  # Python does not read numbers of thousands of digits, and its message is about Python's settings
        raise InvalidSchemaError("A number has too many digits") from None
    except RecursionError:
        raise InvalidSchemaError(f"The document nests more than {limits.nesting} deep") from None
    check_size(document, limits)
    return document


def _refuse_constant(name: str) -> None:
    raise _RefusedNumberError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _RefusedNumberError(f"{text[:100]} is too large for a number")
    return number


def check_size(document: Json, limits: Limits) -> None:
    """Refuses a document with too many nodes or too deep nesting, without recursion of its own."""
    level: list[Json] = [document]
    nodes, depth = 1, 0
    while level:
        depth += 1
        if depth > limits.nesting:
            raise InvalidSchemaError(f"The document nests more than {limits.nesting} deep")
        level = [child for node in level for child in children_of(node)]
        nodes += len(level)
        if nodes > limits.nodes:
            raise InvalidSchemaError(f"The document has more than {limits.nodes} values")


def children_of(node: Json) -> Iterator[Json]:
    if isinstance(node, dict):
        yield from node.values()
    elif isinstance(node, list):
        yield from node


def write_json(document: Json, *, sort_keys: bool = False) -> str:
    """The document without any space, keys in their order unless sorted."""
    parts: list[str] = []
    _write(document, parts, sort_keys)
    return "".join(parts)


def write_string(text: str) -> str:
    return '"' + text.translate(_ESCAPES) + '"'


def _write(node: Json, parts: list[str], sort_keys: bool) -> None:
    if isinstance(node, dict):
        separator = "{"
        for key, value in sorted(node.items()) if sort_keys else node.items():
            parts.append(separator)
            parts.append(write_string(key))
            parts.append(":")
            _write(value, parts, sort_keys)
            separator = ","
        parts.append("}" if node else "{}")
    elif isinstance(node, list):
        separator = "["
        for value in node:
            parts.append(separator)
            _write(value, parts, sort_keys)
            separator = ","
        parts.append("]" if node else "[]")
    else:
        parts.append(_write_scalar(node))


def _write_scalar(node: str | float | bool | None) -> str:
    if isinstance(node, str):
        return write_string(node)
    if node is None:
        return "null"
    if node is True:
        return "true"
    if node is False:
        return "false"
    if isinstance(node, Number):
        return node.text
    return str(node) if isinstance(node, int) else java_double(node)


_REPR = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?")


def java_double(value: float) -> str:
    """Java's `Double.toString`: a point always, an exponent below 0.001 and from ten million on."""
    found = _REPR.fullmatch(repr(float(value)))
    if found is None:
        raise InvalidSchemaError(f"{value} is not a JSON number")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = f"{Decimal(repr(float(value))):f}"
        return plain if "." in plain else plain + ".0"
    sign, whole, fraction, exponent = found.groups()
    digits = (whole + (fraction or "")).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + (fraction or "")) - len(digits))
    mantissa = digits.rstrip("0") or "0"
    return f"{sign}{mantissa[0]}.{mantissa[1:] or '0'}E{point - 1}"
