"""The OpenAPI document of the proxy, from the tables of its operations: each row says what it takes and answers.

Bodies and answers are the classes that msgspec reads and writes, so the document cannot tell another shape.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from penstock.rest.answers import JSON

DOCUMENT_PATH: Final = "/openapi.json"
_NAMES = re.compile(r"\{(\w+)(?::path)?\}")
_REFERENCES = "#/components/schemas/{name}"

Shape = dict[str, Any]


class Error(msgspec.Struct):
    error_code: int
    message: str


class Parameter(NamedTuple):
    name: str
    words: str
    shape: Shape
    is_required: bool = False


class Operation(NamedTuple):
    """`body` and `answer` are types that msgspec knows; None where there is nothing. Their `_types` are media types."""

    name: str
    words: str
    body: Any = None
    answer: Any = None
    status: int = 200
    query: tuple[Parameter, ...] = ()
    # Codes that this operation has beyond those that all have.
    errors: tuple[int, ...] = ()
    body_types: tuple[str, ...] = (JSON,)
    answer_types: tuple[str, ...] = (JSON,)
    is_body_required: bool = True
    other_status: int | None = None  # with the same answer


class Described(NamedTuple):
    method: str
    path: str
    operation: Operation


# Every operation may answer these: a login, a right, a page, a limit, brokers that are away.
_ALWAYS: Final = (400, 401, 403, 404, 406, 408, 413, 415, 422, 429, 500, 503)
_TEXT: Final[Shape] = {"type": "string", "minLength": 1}


def make_document(title: str, version: str, rows: Sequence[Described]) -> Shape:
    types = [kind for row in rows for kind in (row.operation.body, row.operation.answer) if kind is not None]
    shapes, components = msgspec.json.schema_components([*types, Error], ref_template=_REFERENCES)
    by_type = dict(zip(map(_key, [*types, Error]), shapes, strict=True))
    paths: dict[str, Shape] = {}
    for row in rows:
        described = paths.setdefault(row.path.replace(":path}", "}"), {})
        described[row.method.lower()] = _describe(row, by_type)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version},
        "paths": paths,
        "components": {"schemas": components},
    }


def _key(kind: Any) -> str:
    return repr(kind)


def _describe(row: Described, by_type: dict[str, Shape]) -> Shape:
    operation = row.operation
    described: Shape = {
        "operationId": operation.name,
        "summary": operation.words,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _TEXT} for name in _NAMES.findall(row.path)),
            *(
                {
                    "name": each.name,
                    "in": "query",
                    "required": each.is_required,
                    "description": each.words,
                    "schema": each.shape,
                }
                for each in operation.query
            ),
        ],
        "responses": _responses(operation, by_type),
    }
    if operation.body is not None:
        schema = by_type[_key(operation.body)]
        content = {kind: {"schema": schema} for kind in operation.body_types}
        described["requestBody"] = {"required": operation.is_body_required, "content": content}
    return described


def _responses(operation: Operation, by_type: dict[str, Shape]) -> Shape:
    done: Shape = {"description": "Done."}
    if operation.answer is not None:
        schema = by_type[_key(operation.answer)]
        done["content"] = {kind: {"schema": schema} for kind in operation.answer_types}
    codes: dict[int, list[str]] = {status: [] for status in _ALWAYS}
    for code in operation.errors:
        codes.setdefault(code if code < 1000 else code // 100, []).append(str(code))
    failed = {kind: {"schema": by_type[_key(Error)]} for kind in dict.fromkeys((*operation.answer_types, JSON))}
    failures = {
        str(status): {
            "description": f"Refused. Codes: {', '.join(own)}." if own else "Refused.",
            "content": failed,
        }
        for status, own in sorted(codes.items())
    }
    statuses = (operation.status, operation.other_status or operation.status)
    return {**{str(status): done for status in statuses}, **failures}
