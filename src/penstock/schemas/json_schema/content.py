"""The content model of a schema: its demand on the properties and items that it does not list.

Open: any value fits. Closed: none does. Partially open: values that fit the schemas that cover them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from penstock.schemas.json_schema.differences import Found
from penstock.schemas.json_schema.model import Path, SchemaNode


class Comparer(Protocol):
    """Compares the parts of schemas: it pays for the work and remembers the results."""

    def compare(self, old: SchemaNode, new: SchemaNode) -> Sequence[Found]:
        """The differences, with paths below the new schema."""
        ...

    def matches(self, pattern: str, name: str) -> bool: ...


def below(path: Path, found: Sequence[Found]) -> Iterator[Found]:
    for kind, inner in found:
        yield kind, (*path, *inner)


def compare_open_parts(old: SchemaNode, new: SchemaNode, path: Path, kind: str, comparer: Comparer) -> Iterator[Found]:
    """`additionalProperties` and the like: what may be there beside the parts that are listed."""
    if old.is_false or is_covered([old], new, comparer):
        return
    if new.is_false:
        yield f"{kind}_REMOVED" if not old.demands() else f"{kind}_NARROWED", path
    elif not old.demands():
        yield f"{kind}_NARROWED", path
    else:
        yield from below(path, comparer.compare(old, new))


def compare_removed(
    old: SchemaNode, cover: Sequence[SchemaNode], path: Path, kind: str, comparer: Comparer
) -> Iterator[Found]:
    """A part of the old schema that the new one does not list; `cover` has the new schemas that apply to it instead."""
    for each in cover:
        if each.is_false:
            if not old.is_false:
                yield f"{kind}_REMOVED_FROM_CLOSED_CONTENT_MODEL", path
        elif comparer.compare(old, each):
            yield f"{kind}_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", path


def is_covered(cover: Sequence[SchemaNode], new: SchemaNode, comparer: Comparer) -> bool:
    """Whether the old schemas that apply to an unlisted part are strict enough for the new one."""
    return any(not comparer.compare(each, new) for each in cover)
