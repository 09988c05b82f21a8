"""A JSON schema of columns, in draft 7, which all of Confluent's serializers know.

Objects are closed: to a closed object a property can be added compatibly, to an open one none. A column that may be
null is null or its type, and not required.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipelines.errors import PipelineError
from penstock.pipelines.payloads.derived_schemas.refusals import inside, no_type

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_FORMAT = "JSON"
_PLAIN: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "tinyint": {"type": "integer"},
    "smallint": {"type": "integer"},
    "int": {"type": "integer"},
    "bigint": {"type": "integer"},
    "float": {"type": "number"},
    "double": {"type": "number"},
    "binary": {"type": "string", "contentEncoding": "base64"},
    "date": {"type": "string", "format": "date"},
    "timestamp": {"type": "string", "format": "date-time"},
    # Without a zone it is no `date-time`.
    "timestamp_ntz": {"type": "string"},
}


def derive_json(columns: StructType, name: str) -> str:
    """Raises PipelineError."""
    head = {"$schema": "http://json-schema.org/draft-07/schema#", "title": name}
    return json.dumps(head | _object(columns, ""))


def _object(columns: StructType, path: str) -> dict[str, Any]:
    doubled = next((each for each in columns.names if columns.names.count(each) > 1), None)
    if doubled is not None:
        raise PipelineError(f"there are two columns {inside(path, doubled)!r}", "Rename one of them with AS.")
    properties = {}
    for each in columns.fields:
        kind = _type(each.dataType, inside(path, each.name))
        properties[each.name] = _nullable(kind) if each.nullable else kind
    found: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    needed = [each.name for each in columns.fields if not each.nullable]
    return found | ({"required": needed} if needed else {})


def _nullable(kind: dict[str, Any]) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, kind]}


def _type(kind: DataType, path: str) -> dict[str, Any]:
    from pyspark.sql.types import ArrayType, CharType, DecimalType, MapType, StringType, StructType, VarcharType

    match kind:
        case StructType():
            return _object(kind, path)
        case ArrayType():
            item = _type(kind.elementType, f"{path}[]")
            return {"type": "array", "items": _nullable(item) if kind.containsNull else item}
        case MapType() if isinstance(kind.keyType, StringType):
            value = _type(kind.valueType, f"{path}{{}}")
            return {"type": "object", "additionalProperties": _nullable(value) if kind.valueContainsNull else value}
        case DecimalType():
            return {"type": "number" if kind.scale else "integer"}
        case StringType() | CharType() | VarcharType():
            return {"type": "string"}
    found = _PLAIN.get(kind.simpleString())
    if found is None and kind.simpleString().startswith("time("):
        found = {"type": "string"}
    if found is None:
        raise no_type(path, kind.simpleString(), _FORMAT)
    return found
