"""The OpenAPI document, from the table of operations."""

from __future__ import annotations

import re
from itertools import groupby

import msgspec

from penstock.registry.api.answers import MEDIA_TYPE, MEDIA_TYPES
from penstock.registry.api.operation import Operation
from penstock.registry.api.shapes import PATH_PARAMETERS, QUERY_PARAMETERS, SHAPES, Parameter, Shape, reference
from penstock.registry.api.table import OPERATIONS

DOCUMENT_PATH = "/openapi.json"
_NAMES = re.compile(r"\{(\w+)\}")
# What every operation may answer, whatever the table says.
_UNREADABLE = {"400": "The request is not readable.", "415": "The body is no JSON.", "422": "The body is missing."}
_ALWAYS = {"404": "There is no such page.", "5XX": "The registry cannot do this now."}
_BY_STATUS = {
    "401": "Nobody has logged in.",
    "403": "The caller lacks the right (40301).",
}


def render_document(version: str) -> bytes:
    return msgspec.json.encode(make_document(version))


def make_document(version: str) -> Shape:
    """Paths below `/contexts/{context}` are not repeated: the text says which there are."""
    by_path = groupby(sorted(OPERATIONS, key=lambda each: each.path), key=lambda each: each.path)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Penstock schema registry",
            "version": version or "0",
            "description": (
                "Schemas by subject and version. All paths below /subjects, /schemas, /config, /mode, /compatibility "
                "and /associations are served below /contexts/{context} as well, and mean what is in that context."
            ),
        },
        "paths": {path: {each.method.lower(): _describe(each) for each in rows} for path, rows in by_path},
        "components": {"schemas": SHAPES},
    }


def _describe(operation: Operation) -> Shape:
    names = _NAMES.findall(operation.path)
    described: Shape = {
        "operationId": operation.name,
        "summary": operation.words,
        "tags": [operation.path.split("/")[1] or "registry"],
        "parameters": [
            *(_parameter(name, "path", PATH_PARAMETERS[name]) for name in names),
            *(_parameter(name, "query", QUERY_PARAMETERS[name]) for name in operation.query),
        ],
        "responses": _responses(operation),
    }
    if operation.body:
        content = {kind: {"schema": reference(operation.body)} for kind in MEDIA_TYPES}
        described["requestBody"] = {"required": True, "content": content}
    if operation.right is not None:
        described["x-right"] = operation.right.value
    if operation.is_public:
        described["security"] = []
    return described


def _parameter(name: str, place: str, parameter: Parameter) -> Shape:
    described: Shape = {"name": name, "in": place, "description": parameter.words, "schema": parameter.shape}
    if parameter.example is not None:
        described["example"] = parameter.example
    return described | {"required": True} if place == "path" else described


def _responses(operation: Operation) -> Shape:
    answer: Shape = {"description": "Done."}
    if operation.answer:
        answer["content"] = {MEDIA_TYPE: {"schema": reference(operation.answer)}}
    by_status: dict[str, str] = dict(_ALWAYS)
    if not operation.is_public:
        by_status |= _BY_STATUS
    if operation.body:
        by_status |= _UNREADABLE
    if operation.query:
        by_status |= {"400": _UNREADABLE["400"]}
    codes: dict[str, list[str]] = {}
    for code in operation.all_errors:
        codes.setdefault(str(code)[:3], []).append(str(code))
    for status, own in codes.items():
        by_status[status] = " ".join(filter(None, (by_status.get(status, ""), f"Codes: {', '.join(own)}.")))
    failed = {"content": {MEDIA_TYPE: {"schema": reference("Error")}}}
    failures = {status: {"description": words, **failed} for status, words in sorted(by_status.items())}
    return {"200" if operation.answer else "204": answer, **failures}
