"""Matches columns with the fields of a schema, and collects the problems of those that do not match."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.types as kinds

# More problems than this help no user.
_MOST_PROBLEMS = 20


class Problems:
    """The reasons why columns cannot be written with a schema at all, each with the place."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._path: list[str] = []

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        self._path.append(name)
        try:
            yield
        finally:
            self._path.pop()

    @contextmanager
    def trial(self) -> Iterator[list[str]]:
        """Keeps none of the problems found inside; they are in the list afterwards."""
        before, self.found = self.found, []
        trial: list[str] = []
        try:
            yield trial
        finally:
            trial += self.found
            self.found = before

    def add(self, text: str) -> None:
        if len(self.found) < _MOST_PROBLEMS:
            place = "".join(each if each in ("[]", "{}") else f".{each}" for each in self._path).removeprefix(".")
            self.found.append(f"{place}: {text}" if place else text)


def column_for(name: str, arrow: pa.StructType) -> int | None:
    """The column of that name; or of the same letters in another case, if only one column has them."""
    names = [arrow.field(position).name for position in range(arrow.num_fields)]
    if name in names:
        return names.index(name)
    alike = [position for position, each in enumerate(names) if each.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type with the usual layouts for large ones, views and dictionaries: encoders know only the usual ones."""
    if kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_binary_view(kind) or kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_dictionary(kind):
        return plain_type(kind.value_type)
    if kinds.is_struct(kind):
        return pa.struct([each.with_type(plain_type(each.type)) for each in kind])
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))
    if kinds.is_map(kind):
        return pa.map_(plain_type(kind.key_type), kind.item_field.with_type(plain_type(kind.item_type)))
    return kind
