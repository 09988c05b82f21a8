"""Avro schemas from JSON, by the rules of Java's parser.

A name means the type of that name in the enclosing namespace, else the type of exactly that name. It may stand before
the definition, as in Java since 1.12: the parser declares all named types first, empty, and fills each at its
definition. Namespaces and defaults are checked in new schemas only; a stored schema stays readable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import TypeVar

from penstock.schemas.avro.defaults import DefaultCheck, number_from_text
from penstock.schemas.avro.model import (
    NO_DEFAULT,
    PRIMITIVES,
    Array,
    AvroType,
    Enum,
    Field,
    Fixed,
    Map,
    Name,
    Named,
    NoDefault,
    Primitive,
    Properties,
    Record,
    Union,
    union_key,
)
from penstock.schemas.avro.printer import print_schema
from penstock.schemas.json_text import Json, write_json
from penstock.schemas.schema import InvalidSchemaError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE_KEYS = frozenset({"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"})
_ENUM_KEYS = _TYPE_KEYS | {"default"}
_FIELD_KEYS = frozenset({"default", "doc", "name", "order", "type", "aliases"})
_ORDERS = frozenset({"ascending", "descending", "ignore"})
# Java's limit for the length of bytes: the largest array.
_MAX_FIXED_SIZE = 2**31 - 1 - 8
# An excerpt of the wrong part is enough in a message.
_EXCERPT = 200


_AnyNamed = TypeVar("_AnyNamed", Record, Enum, Fixed)


@dataclass(slots=True)
class AvroParser:
    """One parse of a schema after the schemas it refers to: all of them share one table of names."""

    defaults: DefaultCheck
    # New schemas must have good namespaces and defaults; stored ones may have been registered without this check.
    is_new: bool
    check_names: bool = True
    names: dict[str, Named] = field(default_factory=dict)
    _declared: dict[str, Named] = field(default_factory=dict)

    _repeated: list[Named] = field(default_factory=list)

    def parse_document(self, document: Json) -> AvroType:
        self._declared = {}
        for each in declarations(document):
            self._declared.setdefault(each.name.full, each)
        root = self.parse(document)
        self._check_repeated()
        return root

    def _check_repeated(self) -> None:
        """A second definition of a type must differ only in docs and aliases, as in Java since 1.12."""
        for named in self._repeated:
            full = named.name.full
            self.defaults.budget.spend(1 + len(self.names) // 10)
            others = self.names.keys() - {full}
            texts = {print_schema(each, others, with_notes=False) for each in (named, self.names[full])}
            if len(texts) > 1:
                raise InvalidSchemaError(f"Can't redefine: {full}")
        self._repeated.clear()

    def parse(self, node: Json, namespace: str | None = None) -> AvroType:
        if isinstance(node, str):
            return self._find(node, namespace)
        if isinstance(node, list):
            return self._parse_union(node, namespace)
        if not isinstance(node, dict):
            raise InvalidSchemaError(f"Schema not yet supported: {_excerpt(node)}")
        kind = _text(node, "type")
        if kind is None:
            raise InvalidSchemaError(f"No type: {_excerpt(node)}")
        if kind in PRIMITIVES:
            return Primitive(kind, _properties(node, _TYPE_KEYS))
        match kind:
            case "record" | "error":
                return self._parse_record(node, namespace, is_error=kind == "error")
            case "enum":
                return self._parse_enum(node, namespace)
            case "fixed":
                return self._parse_fixed(node, namespace)
            case "array":
                items = self.parse(_required(node, "items", "Array has no items type"), namespace)
                return Array(items, _properties(node, _TYPE_KEYS))
            case "map":
                values = self.parse(_required(node, "values", "Map has no values type"), namespace)
                return Map(values, _properties(node, _TYPE_KEYS))
        # {"type": "ns.Name"}: older releases of Java's library take it for the name alone, and so do other libraries.
        return self._find(kind, namespace)

    def _find(self, name: str, namespace: str | None) -> AvroType:
        if name in PRIMITIVES:
            return Primitive(name)
        for full in (Name.of(name, namespace).full, name):
            found = self.names.get(full) or self._declared.get(full)
            if found is not None:
                return found
        raise InvalidSchemaError(f'Undefined schema: "{name[:_EXCERPT]}"')

    def _parse_union(self, node: list[Json], namespace: str | None) -> Union:
        branches = [self.parse(branch, namespace) for branch in node]
        seen: set[str] = set()
        for branch in branches:
            if isinstance(branch, Union):
                raise InvalidSchemaError(f"Nested union: {_excerpt(node)}")
            key = union_key(branch)
            if key in seen:
                raise InvalidSchemaError(f"Duplicate in union: {key}")
            seen.add(key)
        return Union(branches)

    def _parse_record(self, node: Properties, namespace: str | None, *, is_error: bool) -> Record:
        record = self._define(Record(self._name(node, namespace), _text(node, "doc"), is_error))
        listed = node.get("fields")
        if not isinstance(listed, list):
            raise InvalidSchemaError(f"Record has no fields: {_excerpt(node)}")
        record.aliases = self._type_aliases(node, record.name)
        seen: set[str] = set()
        for each in listed:
            parsed = self._parse_field(each, record)
            if parsed.name in seen:
                raise InvalidSchemaError(f"Duplicate field {parsed.name} in record {record.name.full}")
            seen.add(parsed.name)
            record.fields.append(parsed)
        record.properties = _properties(node, _TYPE_KEYS)
        return record

    def _parse_field(self, node: Json, record: Record) -> Field:
        if not isinstance(node, dict):
            raise InvalidSchemaError(f"No field name: {_excerpt(node)}")
        name = _text(node, "name")
        if name is None:
            raise InvalidSchemaError(f"No field name: {_excerpt(node)}")
        self._check_name(name)
        kind = self.parse(_required(node, "type", "No field type"), record.name.namespace)
        order = str(node.get("order", "ascending")).lower()
        if order not in _ORDERS:
            raise InvalidSchemaError(f"Invalid order of field {name}: {_excerpt(node['order'])}")
        default = self._default(node, name, kind)
        return Field(name, kind, _text(node, "doc"), default, order, _aliases(node), _properties(node, _FIELD_KEYS))

    def _default(self, node: Properties, name: str, kind: AvroType) -> Json | NoDefault:
        if "default" not in node:
            return NO_DEFAULT
        default = node["default"]
        if kind.kind in ("float", "double") and isinstance(default, str):
            number = number_from_text(default)
            if number is None:
                raise InvalidSchemaError(f"Invalid default for field {name}: {_excerpt(default)} not a {kind.kind}")
            return number
        if self.is_new and not self.defaults.fits(kind, default):
            raise InvalidSchemaError(f"Invalid default for field {name}: {_excerpt(default)} not a {kind.kind}")
        return default

    def _parse_enum(self, node: Properties, namespace: str | None) -> Enum:
        name = self._name(node, namespace)
        symbols = node.get("symbols")
        if not isinstance(symbols, list):
            raise InvalidSchemaError(f"Enum has no symbols: {_excerpt(node)}")
        seen: dict[str, None] = {}
        for symbol in symbols:
            if not isinstance(symbol, str):
                raise InvalidSchemaError(f"Symbol of an enum is no string: {_excerpt(symbol)}")
            self._check_name(symbol)
            if symbol in seen:
                raise InvalidSchemaError(f"Duplicate enum symbol: {symbol}")
            seen[symbol] = None
        default = _text(node, "default")
        if default is not None and default not in seen:
            raise InvalidSchemaError(f"The Enum Default: {default} is not in the enum symbol set: {_excerpt(symbols)}")
        aliases = self._type_aliases(node, name)
        return self._define(Enum(name, _text(node, "doc"), list(seen), default, _properties(node, _ENUM_KEYS), aliases))

    def _parse_fixed(self, node: Properties, namespace: str | None) -> Fixed:
        name = self._name(node, namespace)
        size = node.get("size")
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= _MAX_FIXED_SIZE:
            raise InvalidSchemaError(f"Invalid or no size: {_excerpt(node)}")
        aliases = self._type_aliases(node, name)
        return self._define(Fixed(name, _text(node, "doc"), size, _properties(node, _TYPE_KEYS), aliases))

    def _name(self, node: Properties, namespace: str | None) -> Name:
        text = _text(node, "name")
        if text is None:
            raise InvalidSchemaError(f"No name in schema: {_excerpt(node)}")
        own = _text(node, "namespace")
        name = Name.of(text, namespace if own is None else own)
        self._check_name(name.short)
        if self.is_new and self.check_names and name.namespace is not None:
            for part in name.namespace.split("."):
                self._check_name(part)
        if name.full in PRIMITIVES:
            raise InvalidSchemaError(f"Schemas may not be named after primitives: {name.full}")
        return name

    def _check_name(self, name: str) -> None:
        if self.check_names and not _NAME.fullmatch(name):
            raise InvalidSchemaError(f"Invalid name: {name[:_EXCERPT]!r}" if name else "Empty name")

    def _define(self, named: _AnyNamed) -> _AnyNamed:
        """The declared type, which other types may refer to already, filled from its definition."""
        full = named.name.full
        if full in self.names:
            self._repeated.append(named)
            return named
        declared = self._declared.get(full)
        if isinstance(declared, type(named)):
            for each in fields(named):
                setattr(declared, each.name, getattr(named, each.name))
            named = declared
        self.names[full] = named
        return named

    def _type_aliases(self, node: Properties, name: Name) -> list[Name]:
        return list(dict.fromkeys(Name.of(alias, name.namespace) for alias in _aliases(node)))


def declarations(document: Json) -> Iterator[Named]:
    """Empty types for all definitions in a document. The error for a wrong one is raised when it is parsed."""
    waiting: list[tuple[Json, str | None]] = [(document, None)]
    while waiting:
        node, namespace = waiting.pop()
        if isinstance(node, list):
            waiting += [(branch, namespace) for branch in reversed(node)]
        elif isinstance(node, dict):
            kind, name, own = _text(node, "type"), _text(node, "name"), _text(node, "namespace")
            if kind in _EMPTY and name is not None:
                declared = _EMPTY[kind](Name.of(name, namespace if own is None else own))
                yield declared
                inner = node.get("fields")
                fields_of = inner if isinstance(inner, list) else []
                types = [each.get("type") for each in fields_of if isinstance(each, dict)]
                waiting += [(each, declared.name.namespace) for each in reversed(types)]
            waiting += [(node[key], namespace) for key in ("values", "items") if key in node]


_EMPTY: dict[str, Callable[[Name], Named]] = {
    "record": lambda name: Record(name, None),
    "error": lambda name: Record(name, None, is_error=True),
    "enum": lambda name: Enum(name, None, [], None),
    "fixed": lambda name: Fixed(name, None, 0),
}


def _aliases(node: Properties) -> list[str]:
    aliases = node.get("aliases", [])
    if not isinstance(aliases, list):
        raise InvalidSchemaError(f"aliases not an array: {_excerpt(aliases)}")
    for alias in aliases:
        if not isinstance(alias, str):
            raise InvalidSchemaError(f"alias not a string: {_excerpt(alias)}")
    return list(dict.fromkeys(str(alias) for alias in aliases))


def _properties(node: Properties, reserved: frozenset[str]) -> Properties:
    return {key: value for key, value in node.items() if key not in reserved}


def _text(node: Properties, key: str) -> str | None:
    """The text of a key, or None where it has none: Java takes any other value for none."""
    value = node.get(key)
    return value if isinstance(value, str) else None


def _required(node: Properties, key: str, missing: str) -> Json:
    if key not in node:
        raise InvalidSchemaError(f"{missing}: {_excerpt(node)}")
    return node[key]


def _excerpt(node: Json) -> str:
    text = write_json(node)
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..."
