"""How a message class describes its fields: one row each, read by the codec when it compiles a version."""

from __future__ import annotations

from typing import Any, NamedTuple

UNBOUNDED = 32767  # "and all later versions"

VersionRange = tuple[int, int]  # first and last


class Field(NamedTuple):
    attribute: str
    kind: Any  # the name of a primitive, a Message class, or a list with one of those
    versions: VersionRange | None
    nullable: VersionRange | None = None  # the versions that know null
    tag: int | None = None
    tagged: VersionRange | None = None  # the versions that send the field by its tag, and only if it is not the default
    default: Any = None  # also of a version without the field; () stands for a new list

    def is_in(self, version: int) -> bool:
        return _contains(self.versions, version)

    def is_nullable(self, version: int) -> bool:
        return _contains(self.nullable, version)

    def is_tagged(self, version: int) -> bool:
        return _contains(self.tagged, version)


def _contains(versions: VersionRange | None, version: int) -> bool:
    return versions is not None and versions[0] <= version <= versions[1]
