"""Bodies and answers as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from typing import Final

from penstock.http.openapi import reference
from penstock.http.operations import Shape

_TEXT: Final[Shape] = {"type": "string"}
_INTEGER: Final[Shape] = {"type": "integer"}
_ANY: Final[Shape] = {}
_POSITION: Final[Shape] = {
    "type": "object",
    "description": "By partition, the offset behind the last record that is in the store.",
    "additionalProperties": _INTEGER,
}
_RECORD: Final[Shape] = {
    "value": {**_ANY, "description": "The value's JSON; null where it is none, see base64."},
    "base64": {**_TEXT, "description": "The value, where it is no JSON."},
    "timestamp": {**_INTEGER, "description": "Of the record, in milliseconds since 1970."},
    "partition": _INTEGER,
    "offset": _INTEGER,
}
_NEXT: Final[Shape] = {"type": ["string", "null"], "description": "For `after` of the next page; null: no more."}


def _object(properties: Shape, *optional: str) -> Shape:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


SHAPES: Final[Shape] = {
    "Error": _object(
        {"error_code": _INTEGER, "message": _TEXT, "hint": _TEXT, "position": _POSITION}, "hint", "position"
    ),
    "Store": _object(
        {
            "name": _TEXT,
            "topic": _TEXT,
            "state": {"enum": ["ready", "restoring"]},
            "rows": _INTEGER,
            "lag": {"type": ["integer", "null"]},
            "skipped": {**_INTEGER, "description": "Records without a key that is JSON."},
            "position": _POSITION,
            "end": _POSITION,
        }
    ),
    "Stores": _object(
        {
            "application": _TEXT,
            "cluster": {"type": ["string", "null"]},
            "stores": {"type": "array", "items": reference("Store")},
        }
    ),
    "Row": _object({"key": _ANY, **_RECORD}, "base64"),
    "RowAt": _object({"key": _ANY, **_RECORD, "position": _POSITION}, "base64"),
    "Window": _object({"key": _ANY, "start": _INTEGER, "end": _INTEGER, **_RECORD}, "base64"),
    "Rows": _object({"rows": {"type": "array", "items": reference("Row")}, "next": _NEXT, "position": _POSITION}),
    "RowsOfKeys": _object(
        {
            "rows": {"type": "array", "items": {"oneOf": [reference("Row"), {"type": "null"}]}},
            "position": _POSITION,
        }
    ),
    "Windows": _object(
        {"windows": {"type": "array", "items": reference("Window")}, "next": _NEXT, "position": _POSITION}
    ),
    "Keys": _object(
        {
            "keys": {"type": "array", "items": _ANY, "maxItems": 1000},
            "min_position": _POSITION,
            "wait": {"type": "number", "minimum": 0},
        },
        "min_position",
        "wait",
    ),
}
