"""Whether a schema may follow the versions before it: levels, policies, groups, reserved fields.

BACKWARD: the new schema reads what was written with the old one. FORWARD: the old one reads what is written with the
new one. FULL: both. Without TRANSITIVE only the newest of the older versions counts. With a group, only versions with
the same value of that metadata property as the new schema are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from penstock.schemas.schema import Metadata, ParsedSchema, Policy

# The property of the metadata that lists the fields no version may have.
RESERVED = "confluent:reserved"
# Messages show an old schema up to this length.
_SHOWN_CHARACTERS = 10 * 1024


class Level(StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


@dataclass(frozen=True, slots=True)
class _Directions:
    backward: bool = False
    forward: bool = False
    all_versions: bool = False


_DIRECTIONS = {
    Level.NONE: _Directions(),
    Level.BACKWARD: _Directions(backward=True),
    Level.BACKWARD_TRANSITIVE: _Directions(backward=True, all_versions=True),
    Level.FORWARD: _Directions(forward=True),
    Level.FORWARD_TRANSITIVE: _Directions(forward=True, all_versions=True),
    Level.FULL: _Directions(backward=True, forward=True),
    Level.FULL_TRANSITIVE: _Directions(backward=True, forward=True, all_versions=True),
}


def is_transitive(level: Level) -> bool:
    """Whether a schema is compared with all older versions, and not with the newest alone."""
    return _DIRECTIONS[level].all_versions


class Versioned(Protocol):
    """An older version. A caller with many of them may parse the schema only when `schema` is called."""

    @property
    def version(self) -> int: ...

    @property
    def metadata(self) -> Metadata | None: ...

    @property
    def schema(self) -> ParsedSchema: ...


@dataclass(frozen=True, slots=True)
class Version:
    version: int
    schema: ParsedSchema
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class CompatibilityRules:
    level: Level = Level.BACKWARD
    policy: Policy = Policy.STRICT
    group: str | None = None
    validate_fields: bool = False


def check(
    new: ParsedSchema, metadata: Metadata | None, older: Sequence[Versioned], rules: CompatibilityRules
) -> list[str]:
    """The objections to the new schema, in Confluent's words; an empty list means that it is compatible.

    `older` are the live versions, oldest first.
    """
    messages = _check_reserved_fields(new, metadata, older) if rules.validate_fields else []
    directions = _DIRECTIONS[rules.level]
    if directions.backward or directions.forward:
        messages += _check_versions(new, _in_group(metadata, older, rules.group), rules.policy, directions)
    if messages:
        validated = "true" if rules.validate_fields else "false"
        messages.append(f"{{validateFields: '{validated}', compatibility: '{rules.level}'}}")
    return messages


def _check_versions(
    new: ParsedSchema, newest_first: Iterable[Versioned], policy: Policy, directions: _Directions
) -> list[str]:
    for old in newest_first:
        messages = _compare(new, old, policy, directions)
        if messages or not directions.all_versions:
            return messages
    return []


def _in_group(metadata: Metadata | None, older: Sequence[Versioned], group: str | None) -> Iterable[Versioned]:
    value = None if group is None or metadata is None else metadata.property(group)
    for old in reversed(older):
        other = None if group is None or old.metadata is None else old.metadata.property(group)
        if other == value:
            yield old


def _compare(new: ParsedSchema, old: Versioned, policy: Policy, directions: _Directions) -> list[str]:
    schema = old.schema
    if schema.schema_type != new.schema_type:
        return ["Incompatible because of different schema type"]
    forward = schema.differences_from(new, policy) if directions.forward else ()
    backward = new.differences_from(schema, policy) if directions.backward else ()
    messages = [each.text(reader="old", writer="new") for each in forward]
    messages += [each.text(reader="new", writer="old") for each in backward]
    # With both directions Confluent names the old schema after the backward part alone.
    if backward or (forward and not directions.backward):
        messages += [f"{{oldSchemaVersion: {old.version}}}", _shown(schema.canonical_text)]
    return messages


def _shown(text: str) -> str:
    if len(text) <= _SHOWN_CHARACTERS:
        return f"{{oldSchema: '{text}'}}"
    return f"{{oldSchema: <truncated> '{text[:_SHOWN_CHARACTERS]}...'}}"


def _check_reserved_fields(new: ParsedSchema, metadata: Metadata | None, older: Sequence[Versioned]) -> list[str]:
    reserved = _reserved_fields(metadata)
    before = _reserved_fields(older[-1].metadata) if older else []
    messages = [
        f"The field {name}, which the old schema reserves in its metadata, is not reserved by the new schema"
        for name in before
        if name not in reserved
    ]
    messages += [
        f"The new schema has the field {name}, which its metadata reserves"
        for name in reserved
        if new.has_top_level_field(name)
    ]
    return messages


def _reserved_fields(metadata: Metadata | None) -> list[str]:
    text = None if metadata is None else metadata.property(RESERVED)
    return [name.strip() for name in (text or "").split(",") if name.strip()]
