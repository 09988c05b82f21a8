"""Avro schemas in a fixed order where the order means nothing: properties, aliases, the keys inside them.

The properties of a logical type come first, the others follow sorted. An empty doc of a type is left out. Defaults are
written as values of their type.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.schemas.avro.defaults import DefaultCheck
from penstock.schemas.avro.logical import logical_properties
from penstock.schemas.avro.model import (
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
)
from penstock.schemas.json_text import Json


class Normalizer:
    """Copies a graph of types once. It also copies types that other schemas define, which are never printed."""

    def __init__(self, defaults: DefaultCheck) -> None:
        self._defaults = defaults
        self._copies: dict[str, Named] = {}

    def normalized(self, schema: AvroType) -> AvroType:
        if isinstance(schema, Union):
            return Union([self.normalized(branch) for branch in schema.branches])
        if isinstance(schema, Array):
            return Array(self.normalized(schema.items), _sorted_properties(schema, schema.properties))
        if isinstance(schema, Map):
            return Map(self.normalized(schema.values), _sorted_properties(schema, schema.properties))
        if isinstance(schema, Primitive):
            return Primitive(schema.kind, _sorted_properties(schema, schema.properties))
        return self._copies.get(schema.name.full) or self._named(schema)

    def _named(self, schema: Named) -> Named:
        name, doc = schema.name, schema.doc or None
        properties = _sorted_properties(schema, schema.properties)
        aliases = sorted(schema.aliases, key=_alias_key(name))
        if isinstance(schema, Enum):
            return self._keep(Enum(name, doc, schema.symbols, schema.default, properties, aliases))
        if isinstance(schema, Fixed):
            return self._keep(Fixed(name, doc, schema.size, properties, aliases))
        # Kept before its fields: a record may contain itself.
        record = Record(name, doc, schema.is_error, [], properties, aliases)
        self._keep(record)
        record.fields.extend(self._field(each) for each in schema.fields)
        return record

    def _keep(self, copy: Named) -> Named:
        self._copies[copy.name.full] = copy
        return copy

    def _field(self, field: Field) -> Field:
        default = field.default
        if not isinstance(default, NoDefault):
            default = self._defaults.typed(field.type, default)
        properties = {key: _sorted_keys(field.properties[key]) for key in sorted(field.properties)}
        kind = self.normalized(field.type)
        return Field(field.name, kind, field.doc, default, field.order, sorted(field.aliases), properties)


def _alias_key(name: Name) -> Callable[[Name], str]:
    # Java sorts an alias without a namespace, of a type that has one, by a name that begins with a dot.
    return lambda alias: "." + alias.short if alias.namespace is None and name.namespace is not None else alias.full


def _sorted_properties(schema: AvroType, properties: Properties) -> Properties:
    ordered = logical_properties(schema)
    return ordered | {key: _sorted_keys(properties[key]) for key in sorted(properties) if key not in ordered}


def _sorted_keys(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sorted_keys(value[key]) for key in sorted(value)}
    return [_sorted_keys(each) for each in value] if isinstance(value, list) else value
