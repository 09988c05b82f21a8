"""The type of JSON objects that have no schema, from some of them. Pure.

| values | type |
|---|---|
| true, false | boolean |
| whole numbers of 64 bits; other numbers, and both | bigint; double |
| text | string |
| objects | struct of all their members, in the order they were seen in |
| lists | array of what all their elements have in common |
| null alone | string |
| a mix, a larger number, an empty object, what nests too deep or has too many members | string: its JSON |

Null fits everything. Of an object with more members than the limit, the first ones are the columns of the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

# Wider tables are maps in disguise, with an identifier for a member's name.
MOST_COLUMNS = 1_000
MOST_DEPTH = 12


@dataclass(slots=True)
class _Kind:
    """The types that were seen at one place."""

    scalar: pa.DataType | None = None
    members: dict[str, _Kind] | None = None
    element: _Kind | None = None
    is_text: bool = False  # the JSON text is all that the values have in common

    def is_empty(self) -> bool:
        return self.scalar is None and self.members is None and self.element is None

    def give_up(self) -> None:
        self.is_text, self.scalar, self.members, self.element = True, None, None, None


@dataclass(slots=True)
class Inference:
    """Takes objects one after the other. `left_out` counts the members that are no columns."""

    most_columns: int = MOST_COLUMNS
    left_out: set[str] = field(default_factory=set)
    _root: dict[str, _Kind] = field(default_factory=dict)
    _made: int = 0

    def add(self, value: dict[str, Any]) -> None:
        for name, member in value.items():
            kind = self._root.get(name)
            if kind is None:
                if self._made >= self.most_columns or not _is_name(name):
                    if len(self.left_out) < self.most_columns:
                        self.left_out.add(name)
                    continue
                kind = self._root[name] = self._new()
            self._see(kind, member, 1)

    def type(self) -> pa.StructType:
        return pa.struct([pa.field(name, _arrow(kind)) for name, kind in self._root.items()])

    def _new(self) -> _Kind:
        self._made += 1
        return _Kind()

    def _see(self, kind: _Kind, value: Any, depth: int) -> None:
        if value is None or kind.is_text:
            return
        if isinstance(value, dict):
            self._see_object(kind, value, depth)
        elif isinstance(value, list):
            self._see_list(kind, value, depth)
        else:
            scalar = _scalar(value)
            if scalar is None or kind.members is not None or kind.element is not None:
                kind.give_up()
            else:
                merged = _merged(kind.scalar, scalar)
                if merged is None:
                    kind.give_up()
                kind.scalar = merged

    def _see_object(self, kind: _Kind, value: dict[str, Any], depth: int) -> None:
        if (kind.members is None and not kind.is_empty()) or depth >= MOST_DEPTH or not value:
            kind.give_up()
            return
        if kind.members is None:
            kind.members = {}
        for name, member in value.items():
            inner = kind.members.get(name)
            if inner is None:
                if self._made >= self.most_columns or not _is_name(name):
                    kind.give_up()
                    return
                inner = kind.members[name] = self._new()
            self._see(inner, member, depth + 1)

    def _see_list(self, kind: _Kind, value: list[Any], depth: int) -> None:
        if (kind.element is None and not kind.is_empty()) or depth >= MOST_DEPTH:
            kind.give_up()
            return
        if kind.element is None:
            kind.element = _Kind()
        for element in value:
            self._see(kind.element, element, depth + 1)


def infer_type(values: Iterable[dict[str, Any]], most_columns: int = MOST_COLUMNS) -> pa.StructType:
    inference = Inference(most_columns)
    for value in values:
        inference.add(value)
    return inference.type()


def _is_name(name: str) -> bool:
    """Half of a surrogate pair is nothing that a column can be called."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _scalar(value: Any) -> pa.DataType | None:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, float):
        return pa.float64()
    return pa.string() if isinstance(value, str) else None


_NUMBERS = (pa.int64(), pa.float64())


def _merged(one: pa.DataType | None, other: pa.DataType) -> pa.DataType | None:
    if one is None or one == other:
        return other
    return pa.float64() if one in _NUMBERS and other in _NUMBERS else None


def _arrow(kind: _Kind) -> pa.DataType:
    if kind.members is not None:
        return pa.struct([pa.field(name, _arrow(inner)) for name, inner in kind.members.items()])
    if kind.element is not None:
        return pa.list_(pa.field("element", _arrow(kind.element)))
    return kind.scalar or pa.string()
