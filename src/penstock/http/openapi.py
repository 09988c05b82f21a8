"""The OpenAPI document of a service, made from the service's table of operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock.http.operations import JSON, HttpOperation, Parameter, Shape
from penstock.http.routes import Route

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

DOCUMENT_PATH: Final = "/openapi.json"
_NAMES = re.compile(r"\{(\w+)\}")
_REFERENCE: Final = "#/components/schemas/{name}"
_NAME: Final[Shape] = {"type": "string", "minLength": 1}


class Description(NamedTuple):
    """The description of the service as a whole."""

    title: str
    version: str
    # The answers to an operation beside its own codes: texts by status.
    refusals: Callable[[HttpOperation[Any]], Mapping[str, str]]
    # The body of a refusal, as `HttpOperation.answer`.
    error: object = "Error"
    shapes: Mapping[str, Shape] = {}
    # Names in paths that need more description than that they are names.
    path_parameters: Mapping[str, Parameter] = {}
    words: str = ""
    openapi: str = "3.1.0"


def reference(name: str) -> Shape:
    """A reference to one of the service's own shapes."""
    return {"$ref": _REFERENCE.format(name=name)}


def status_of(code: int) -> str:
    return str(code)[:3]


def document_route(document: Shape) -> Route:
    body = msgspec.json.encode(document)

    async def get_document(_: Request) -> Response:
        from starlette.responses import Response

        return Response(body, media_type=JSON)

    return Route(DOCUMENT_PATH, get_document)


def make_document(service: Description, operations: Sequence[HttpOperation[Any]]) -> Shape:
    kinds = [service.error, *(kind for each in operations for kind in (each.body, each.answer) if kind is not None)]
    types = [kind for kind in kinds if not isinstance(kind, str)]
    made, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    shapes = dict(zip(types, made, strict=True)) | {kind: reference(kind) for kind in kinds if isinstance(kind, str)}
    paths: dict[str, Shape] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _describe(service, each, shapes)
    info = {"title": service.title, "version": service.version}
    return {
        "openapi": service.openapi,
        "info": info | {"description": service.words} if service.words else info,
        "paths": paths,
        "components": {"schemas": {**service.shapes, **components}},
    }


def _describe(service: Description, operation: HttpOperation[Any], shapes: Mapping[object, Shape]) -> Shape:
    usual = {name: Parameter(name, "", _NAME) for name in _NAMES.findall(operation.path)}
    named = [service.path_parameters.get(name, each) for name, each in usual.items()]
    described: Shape = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *(_parameter("path", each._replace(is_required=True)) for each in named),
            *(_parameter("query", each) for each in operation.query),
        ],
        "responses": _responses(service, operation, shapes),
    }
    if operation.tag:
        described["tags"] = [operation.tag]
    if operation.body is not None:
        content = _content(operation.media.body, shapes[operation.body])
        described["requestBody"] = {"required": operation.is_body_required, "content": content}
    if operation.right is not None:
        described["x-right"] = operation.right
    if operation.is_public:
        described["security"] = []
    return described


def _parameter(place: str, parameter: Parameter) -> Shape:
    described: Shape = {"name": parameter.name, "in": place, "schema": parameter.shape}
    if parameter.words:
        described["description"] = parameter.words
    if parameter.is_required:
        described["required"] = True
    if parameter.example is not None:
        described["example"] = parameter.example
    return described


def _responses(service: Description, operation: HttpOperation[Any], shapes: Mapping[object, Shape]) -> Shape:
    done: Shape = {"description": "Done."}
    if operation.answer is not None:
        done["content"] = _content(operation.media.answer, shapes[operation.answer])
    failures = {status: [words] for status, words in service.refusals(operation).items()}
    for status, codes in groupby(sorted(operation.errors, key=status_of), status_of):
        failures.setdefault(status, []).append(f"Codes: {', '.join(map(str, codes))}.")
    # The listener may refuse before the service runs, and then in JSON.
    refused = _content(dict.fromkeys((*operation.media.answer, JSON)), shapes[service.error])
    return {
        **{str(status): done for status in operation.success},
        **{status: {"description": " ".join(words), "content": refused} for status, words in sorted(failures.items())},
    }


def _content(media_types: Iterable[str], shape: Shape) -> Shape:
    return {each: {"schema": shape} for each in media_types}
