"""Defaults of fields: the values that a type takes, and the form of a value once its type is known."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

from penstock.schemas.avro.model import Array, AvroType, Map, NoDefault, Record, Union
from penstock.schemas.json_text import Json
from penstock.schemas.limits import Budget, Limits


def _is_integer(value: Json, bits: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Json) -> bool:
    return isinstance(value, str)


_SCALARS: dict[str, Callable[[Json], bool]] = {
    "string": _is_text,
    "bytes": _is_text,
    "enum": _is_text,
    "fixed": _is_text,
    "int": lambda value: _is_integer(value, 32),
    "long": lambda value: _is_integer(value, 64),
    "float": _is_number,
    "double": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}


class DefaultCheck:
    """Checks which values fit which types. A union takes what any branch takes.

    Unions in unions would be tried over and over, once for each way down to them, so the result for each list or object
    is kept. The check also keeps type and value, so that no other object gets the identity of one of them.
    """

    def __init__(self, limits: Limits) -> None:
        self.budget = Budget(limits)
        self._known: dict[tuple[int, int], bool] = {}
        self._kept: list[tuple[AvroType, Json]] = []

    def fits(self, kind: AvroType, value: Json) -> bool:
        if isinstance(kind, Union):
            return any(self.fits(branch, value) for branch in kind.branches)
        self.budget.spend()
        if kind.kind in _SCALARS:
            return _SCALARS[kind.kind](value)
        key = (id(kind), id(value))
        if key not in self._known:
            self._kept.append((kind, value))
            self._known[key] = self._compound_fits(kind, value)
        return self._known[key]

    def _compound_fits(self, kind: AvroType, value: Json) -> bool:
        if isinstance(kind, Array):
            return isinstance(value, list) and all(self.fits(kind.items, each) for each in value)
        if isinstance(kind, Map):
            return isinstance(value, dict) and all(self.fits(kind.values, each) for each in value.values())
        assert isinstance(kind, Record)
        # A field that the value leaves out has its own default, which was checked when the field was parsed.
        return isinstance(value, dict) and all(
            self.fits(field.type, value[field.name])
            if field.name in value
            else not isinstance(field.default, NoDefault)
            for field in kind.fields
        )

    def typed(self, kind: AvroType, value: Json) -> Json:
        """The value as Java holds it: a whole number in a field of floats has a point, a map has its keys in order."""
        if isinstance(kind, Union):
            branch = next((each for each in kind.branches if self.fits(each, value)), None)
            return value if branch is None else self.typed(branch, value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _typed_number(kind.kind, value)
        if isinstance(kind, Array) and isinstance(value, list):
            return [self.typed(kind.items, each) for each in value]
        if isinstance(kind, Map) and isinstance(value, dict):
            return {key: self.typed(kind.values, value[key]) for key in sorted(value)}
        if isinstance(kind, Record) and isinstance(value, dict):
            types = {field.name: field.type for field in kind.fields}
            return {key: self.typed(types[key], value[key]) if key in types else value[key] for key in sorted(value)}
        return value


_JAVA_DOUBLE = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?[dDfF]?", re.ASCII)
_NOT_FINITE = frozenset({"NaN", "Infinity", "+Infinity", "-Infinity"})


def number_from_text(text: str) -> float | str | None:
    """A default of a float that is given as text. NaN and infinities, which JSON lacks, stay text; None: it is no
    number.
    """
    if text in _NOT_FINITE:
        return text
    if not _JAVA_DOUBLE.fullmatch(text):
        return None
    number = float(text.rstrip("dDfF"))
    return number if math.isfinite(number) else None


def _typed_number(kind: str, value: float) -> float:
    if kind not in ("float", "double"):
        return value
    try:
        return _shortest_float(value) if kind == "float" else float(value)
    except OverflowError:
        return value


def _shortest_float(value: float) -> float:
    """The double with the fewest digits that is the same 32-bit float. Java prints a float like this."""
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    for digits in range(1, 10):
        short = float(f"{single:.{digits}g}")
        if struct.unpack("<f", struct.pack("<f", short))[0] == single:
            return short
    return float(single)
