"""The OpenAPI document of the server, from the table of its operations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

DOCUMENT_PATH: Final = "/openapi.json"
_NAMES = re.compile(r"\{(\w+)\}")
Shape = dict[str, Any]

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
_WORDS: Final[dict[str, tuple[str, Shape]]] = {
    "from": ("The first key, or of windows the first start (milliseconds or ISO 8601); included.", _TEXT),
    "to": ("The last key, or of windows the last start; included.", _TEXT),
    "prefix": ("What keys begin with, where they are text.", _TEXT),
    "limit": ("The most rows of a page; at most 10,000.", {**_INTEGER, "minimum": 1, "default": 100}),
    "after": ("`next` of the page before.", _TEXT),
    "min_position": ("Wait until everything before is in the store: 0:12,1:7 or a JSON object.", _TEXT),
    "wait": ("For how many seconds; 5 with min_position, 60 at most.", {"type": "number", "minimum": 0}),
}


class Operation(NamedTuple):
    method: str
    path: str
    name: str
    words: str
    query: tuple[str, ...] = ()
    has_body: bool = False


def _object(properties: Shape, *optional: str) -> Shape:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


def _reference(name: str) -> Shape:
    return {"$ref": f"#/components/schemas/{name}"}


_SCHEMAS: Final[Shape] = {
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
            "stores": {"type": "array", "items": _reference("Store")},
        }
    ),
    "Row": _object({"key": _ANY, **_RECORD}, "base64"),
    "RowAt": _object({"key": _ANY, **_RECORD, "position": _POSITION}, "base64"),
    "Window": _object({"key": _ANY, "start": _INTEGER, "end": _INTEGER, **_RECORD}, "base64"),
    "Rows": _object({"rows": {"type": "array", "items": _reference("Row")}, "next": _NEXT, "position": _POSITION}),
    "RowsOfKeys": _object(
        {
            "rows": {"type": "array", "items": {"oneOf": [_reference("Row"), {"type": "null"}]}},
            "position": _POSITION,
        }
    ),
    "Windows": _object(
        {"windows": {"type": "array", "items": _reference("Window")}, "next": _NEXT, "position": _POSITION}
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
_ANSWERS: Final = {
    "listStores": "Stores",
    "getStore": "Store",
    "getRows": "Rows",
    "getRowsOfKeys": "RowsOfKeys",
    "getRow": "RowAt",
    "getAllWindows": "Windows",
    "getWindows": "Windows",
}
# Every operation may answer these: a login, a right, a limit, a store that is not there or not ready.
_REFUSALS: Final = ("400", "401", "403", "404", "408", "413", "414", "431", "500", "503", "504")


def make_document(operations: Sequence[Operation]) -> Shape:
    paths: dict[str, Shape] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock stores", "version": "1.0.0"},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _describe(operation: Operation) -> Shape:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {**_TEXT, "minLength": 1}}
        for name in _NAMES.findall(operation.path)
    ]
    asked = [
        {"name": name, "in": "query", "description": _WORDS[name][0], "schema": _WORDS[name][1]}
        for name in operation.query
    ]
    refused = {status: _content("Refused.", _reference("Error")) for status in _REFUSALS}
    described: Shape = {
        "operationId": operation.name,
        "summary": operation.words,
        "parameters": [*named, *asked],
        "responses": {"200": _content("Done.", _reference(_ANSWERS[operation.name])), **refused},
    }
    if operation.has_body:
        content = {"application/json": {"schema": _reference("Keys")}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _content(words: str, schema: Shape) -> Shape:
    return {"description": words, "content": {"application/json": {"schema": schema}}}
