"""Logical types: whether one holds, and the properties that belong to it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.schemas.avro.model import AvroType, Fixed, Properties, Union

# The types on which a logical type may stand.
_LOGICAL_TYPES: dict[str, Callable[[AvroType], bool]] = {
    "uuid": lambda schema: schema.kind == "string" or (isinstance(schema, Fixed) and schema.size == 16),
    "duration": lambda schema: isinstance(schema, Fixed) and schema.size == 12,
    "big-decimal": lambda schema: schema.kind == "bytes",
    "date": lambda schema: schema.kind == "int",
    "time-millis": lambda schema: schema.kind == "int",
    "time-micros": lambda schema: schema.kind == "long",
    **{
        f"{prefix}timestamp-{unit}": lambda schema: schema.kind == "long"
        for prefix in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
}


def logical_properties(schema: AvroType) -> Properties:
    """The properties of the schema's logical type, if it holds; otherwise they are properties like any other."""
    if isinstance(schema, Union):
        return {}
    return {key: schema.properties[key] for key in _logical_keys(schema, schema.properties)}


def _logical_keys(schema: AvroType, properties: Properties) -> list[str]:
    logical = properties.get("logicalType")
    if logical == "decimal":
        return _decimal_keys(schema, properties)
    if isinstance(logical, str) and logical in _LOGICAL_TYPES and _LOGICAL_TYPES[logical](schema):
        return ["logicalType"]
    return []


def _decimal_keys(schema: AvroType, properties: Properties) -> list[str]:
    precision, scale = properties.get("precision"), properties.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        return []
    if isinstance(schema, Fixed):
        # The digits that a signed number of that many bytes holds in full; past 10,000 bytes any number of them will
        # do.
        bits = 8 * min(schema.size, 10_000) - 1
        fits = precision <= (bits * 30103 // 100_000 if schema.size else 0)
    else:
        fits = schema.kind == "bytes"
    if not fits or precision <= 0 or not 0 <= scale <= precision:
        return []
    return ["logicalType", "precision", "scale"] if scale else ["logicalType", "precision"]
