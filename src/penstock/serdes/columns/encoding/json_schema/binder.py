"""Finds the writer that writes a column as JSON that fits a schema, or the reasons why there is none.

| Arrow | JSON | what a schema may say |
|---|---|---|
| bool | true, false | boolean |
| whole numbers | number | integer, number |
| floating numbers; decimals | number; NaN and infinity are refused | number (a decimal without a scale: integer) |
| decimals, where the schema says string | text | string |
| string | text | string |
| date; timestamp with, without a zone; time | `2026-01-31`; `...T10:00:00.5Z`; without Z; text | string |
| binary | text in base64 | string |
| struct; map with keys of string; list | object; object; array | object; object; array |
| string | the JSON text that it is | what has no column type: other choices, `$ref`, no type, what contains itself |

A null property is written as null where the schema takes null, left out where it is not required, and refused
otherwise. Where a schema demands more than types (bounds, patterns, ...), a validator checks each row, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from penstock.schemas.json_schema.model import SchemaNode
from penstock.serdes.columns.encoding.field_matches import Problems, column_for
from penstock.serdes.columns.encoding.json_schema.texts import (
    Base64Writer,
    CastWriter,
    DecimalWriter,
    FloatWriter,
    ListWriter,
    MapWriter,
    NullableWriter,
    NullsWriter,
    ObjectWriter,
    Property,
    QuotedWriter,
    RawWriter,
    TextWriter,
)
from penstock.serdes.columns.encoding.texts import has_text
from penstock.serdes.columns.encoding.writers import ColumnWriter

_MOST_DEPTH = 64
# Schemas without a column type, which our columns read as JSON text.
_ENTANGLED = ("allOf", "if", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef", "prefixItems")
# Demands beyond types, for which each row has to be checked.
_CHECKED = frozenset(
    (
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
        *("pattern", "enum", "const", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains"),
        *("minProperties", "maxProperties", "dependencies", "dependentRequired", "dependentSchemas", "propertyNames"),
        *("then", "else", "not", "additionalItems", "unevaluatedItems", "unevaluatedProperties", "disallow", "extends"),
    )
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The part of a schema that a column can follow. Without a kind it is JSON text."""

    kind: str | None
    node: SchemaNode
    takes_null: bool


def shape_of(node: SchemaNode) -> Shape:
    schema = node.schema
    if not isinstance(schema, dict) or any(each in schema for each in _ENTANGLED):
        return Shape(None, node, schema is True or schema == {})
    choices = schema.get("oneOf") or schema.get("anyOf")
    if choices is not None or "oneOf" in schema or "anyOf" in schema:
        return _choice(node, schema)
    found = schema.get("type", "object" if "properties" in schema else None)
    names = found if isinstance(found, list) else [found]
    others = [each for each in names if each != "null"]
    kind = others[0] if len(others) == 1 and isinstance(others[0], str) else None
    return Shape(kind if _is_column(kind, schema) else None, node, "null" in names or found is None)


def _is_column(kind: str | None, schema: dict[str, Any]) -> bool:
    if kind == "object":
        return bool(schema.get("properties")) or isinstance(schema.get("additionalProperties"), dict)
    if kind == "array":
        return isinstance(schema.get("items"), dict)
    return kind in ("boolean", "integer", "number", "string")


def _choice(node: SchemaNode, schema: dict[str, Any]) -> Shape:
    """Null and one other schema, or JSON text."""
    if "type" in schema or "properties" in schema or ("oneOf" in schema and "anyOf" in schema):
        return Shape(None, node, False)
    branches = [node.inner(each) for each in schema.get("oneOf") or schema.get("anyOf") or ()]
    nulls = [each for each in branches if isinstance(each.schema, dict) and each.schema.get("type") == "null"]
    others = [each for each in branches if each not in nulls]
    if len(others) != 1:
        return Shape(None, node, bool(nulls))
    inner = shape_of(others[0])
    # A null that fits two branches fits no oneOf.
    return Shape(inner.kind, inner.node, bool(nulls) and not ("oneOf" in schema and inner.takes_null))


class Binder:
    def __init__(self) -> None:
        self.problems = Problems()
        # True if types alone do not show that rows fit.
        self.needs_check = False
        self._around: list[SchemaNode] = []

    def bind(self, node: SchemaNode, arrow: pa.DataType) -> tuple[ColumnWriter, bool] | None:
        """The writer, and whether it takes null. None where there is a problem, which `problems` has then."""
        shape = shape_of(node)
        if any(each is shape.node for each in self._around) and kinds.is_string(arrow):
            shape = Shape(None, shape.node, shape.takes_null)
        schema = shape.node.schema
        if shape.kind is None or (isinstance(schema, dict) and not _CHECKED.isdisjoint(schema)):
            self.needs_check = True
        if len(self._around) >= _MOST_DEPTH:
            self.problems.add(f"the columns nest more than {_MOST_DEPTH} deep")
            return None
        self._around.append(shape.node)
        found = self._writer(shape, arrow)
        self._around.pop()
        if found is None:
            return None
        # A schema may leave open whether it takes null; then the check decides.
        takes_null = shape.takes_null or shape.kind is None
        return (NullableWriter(found) if takes_null else found), takes_null

    def _writer(self, shape: Shape, arrow: pa.DataType) -> ColumnWriter | None:
        if kinds.is_null(arrow):
            return NullsWriter()
        if kinds.is_struct(arrow) and shape.kind in (None, "object"):
            return self._object(shape, arrow)
        if kinds.is_map(arrow) and shape.kind in (None, "object") and kinds.is_string(arrow.key_type):
            return self._map(shape, arrow)
        if kinds.is_list(arrow) and shape.kind in (None, "array"):
            return self._list(shape, arrow)
        found = _scalar(shape.kind, arrow)
        if found is None:
            self.problems.add(f"a column of {arrow} cannot be written as {shape.kind or 'JSON'}")
        return found

    def _object(self, shape: Shape, arrow: pa.StructType) -> ColumnWriter | None:
        schema = shape.node.schema if isinstance(shape.node.schema, dict) else {}
        is_known = shape.kind is not None
        properties: Any = schema.get("properties") if is_known else None
        properties = properties if isinstance(properties, dict) else {}
        needed: Any = schema.get("required") if is_known else None
        needed = set(needed) if isinstance(needed, list) else set()
        further = schema.get("additionalProperties") if is_known else True
        named = {position: name for name in properties if (position := column_for(name, arrow)) is not None}
        found: list[Property] = []
        for position in range(arrow.num_fields):
            name = named.get(position, arrow.field(position).name)
            inner = properties.get(name, further)
            if position not in named and (further is None or further is False):
                self.problems.add(f"the schema has no property for the column {name}")
                continue
            with self.problems.inside(name):
                node = shape.node.inner(inner if isinstance(inner, dict | bool) else True)
                bound = self.bind(node, arrow.field(position).type)
            if bound is not None:
                takes_null = bound[1] and (name in needed or shape_of(node).takes_null)
                found.append(Property(name, position, bound[0], takes_null, name in needed))
        have = {each.name for each in found}
        for name in sorted(needed - have - set(named.values())):
            self.problems.add(f"no column for the property {name}, which is required")
        return ObjectWriter(found)

    def _map(self, shape: Shape, arrow: pa.MapType) -> ColumnWriter | None:
        schema = shape.node.schema if isinstance(shape.node.schema, dict) else {}
        further = schema.get("additionalProperties")
        if shape.kind is not None and (schema.get("properties") or schema.get("required") or further is False):
            self.needs_check = True
        with self.problems.inside("{}"):
            bound = self.bind(_inner(shape, further), arrow.item_type)
        return MapWriter(*bound) if bound is not None else None

    def _list(self, shape: Shape, arrow: pa.ListType) -> ColumnWriter | None:
        schema = shape.node.schema if isinstance(shape.node.schema, dict) else {}
        items = schema.get("items")
        with self.problems.inside("[]"):
            bound = self.bind(_inner(shape, items), arrow.value_type)
        return ListWriter(*bound) if bound is not None else None


def _inner(shape: Shape, schema: Any) -> SchemaNode:
    """The schema of the inner values, if there is one."""
    return shape.node.inner(schema if isinstance(schema, dict | bool) and shape.kind is not None else True)


def _scalar(kind: str | None, arrow: pa.DataType) -> ColumnWriter | None:
    if kinds.is_string(arrow):
        if kind is None:
            return RawWriter()
        return TextWriter() if kind == "string" else None
    if kinds.is_boolean(arrow):
        return CastWriter() if kind in (None, "boolean") else None
    if kinds.is_integer(arrow):
        return CastWriter() if kind in (None, "integer", "number") else None
    if kinds.is_floating(arrow):
        return FloatWriter() if kind in (None, "number") else None
    if kinds.is_decimal(arrow):
        if kind == "string":
            return QuotedWriter()
        return DecimalWriter() if kind in (None, "number") or (kind == "integer" and arrow.scale == 0) else None
    if kind not in (None, "string"):
        return None
    if kinds.is_binary(arrow):
        return Base64Writer()
    return QuotedWriter() if has_text(arrow) else None
