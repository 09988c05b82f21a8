"""The types of an Avro schema. Named types are objects that are shared, so a recursive schema is a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.schemas.json_text import Json

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
TYPE_NAMES = PRIMITIVES | {"record", "enum", "array", "map", "union", "fixed"}

Properties: TypeAlias = "dict[str, Json]"


@dataclass(frozen=True, slots=True)
class Name:
    """A name and its namespace; a name with dots brings its own."""

    short: str
    namespace: str | None

    @classmethod
    def of(cls, name: str, namespace: str | None) -> Name:
        if "." in name:
            namespace, _, name = name.rpartition(".")
        return cls(name, namespace or None)

    @property
    def full(self) -> str:
        return f"{self.namespace}.{self.short}" if self.namespace else self.short

    def relative_to(self, namespace: str | None) -> str:
        """How the name is written inside a namespace. A name that is also a type's is written in full."""
        if self.namespace is not None and self.namespace == namespace and self.short not in TYPE_NAMES:
            return self.short
        return self.full


# Compared and hashed as objects (eq=False): a graph may have cycles.
@dataclass(slots=True, eq=False)
class Primitive:
    kind: str
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Array:
    items: AvroType
    properties: Properties = field(default_factory=dict)
    kind: str = "array"


@dataclass(slots=True, eq=False)
class Map:
    values: AvroType
    properties: Properties = field(default_factory=dict)
    kind: str = "map"


@dataclass(slots=True, eq=False)
class Union:
    branches: list[AvroType]
    kind: str = "union"


@dataclass(slots=True, eq=False)
class Enum:
    name: Name
    doc: str | None
    symbols: list[str]
    default: str | None
    properties: Properties = field(default_factory=dict)
    aliases: list[Name] = field(default_factory=list)
    kind: str = "enum"


@dataclass(slots=True, eq=False)
class Fixed:
    name: Name
    doc: str | None
    size: int
    properties: Properties = field(default_factory=dict)
    aliases: list[Name] = field(default_factory=list)
    kind: str = "fixed"


class NoDefault:
    """The mark of a field without a default: null is a default like any other."""


NO_DEFAULT = NoDefault()


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: AvroType
    doc: str | None
    default: Json | NoDefault
    order: str = "ascending"
    aliases: list[str] = field(default_factory=list)
    properties: Properties = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Record:
    name: Name
    doc: str | None
    is_error: bool = False
    fields: list[Field] = field(default_factory=list)
    properties: Properties = field(default_factory=dict)
    aliases: list[Name] = field(default_factory=list)
    kind: str = "record"

    def field(self, name: str) -> Field | None:
        return next((each for each in self.fields if each.name == name), None)


Named: TypeAlias = "Record | Enum | Fixed"
AvroType: TypeAlias = "Primitive | Array | Map | Union | Record | Enum | Fixed"


def union_key(branch: AvroType) -> str:
    """What may be in a union once only: a named type by its full name, any other by its kind."""
    return branch.name.full if isinstance(branch, Record | Enum | Fixed) else branch.kind
